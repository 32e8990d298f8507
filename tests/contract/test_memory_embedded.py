"""The memory contract on SQLite."""

import pytest

from agentbox_contracts.suites.memory import MemorySuite


class TestEmbedded(MemorySuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\nmemory = "embedded"\n'
