"""The orchestrator contract over a bridge, with `agentbox host --stdio` at the other end."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.orchestrator import OrchestratorSuite


class TestStdioBridge(OrchestratorSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\norchestrator = "stdio-bridge"\n'
