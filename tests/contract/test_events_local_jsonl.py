"""The events contract on files of this machine."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.events import EventsSuite


class TestLocalJsonl(EventsSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\nevents = "local-jsonl"\n'
