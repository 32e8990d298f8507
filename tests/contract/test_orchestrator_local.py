"""The orchestrator contract on processes of this machine."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.orchestrator import OrchestratorSuite


class TestLocalProcessManager(OrchestratorSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\norchestrator = "local-process-manager"\n'
