"""The orchestrator contract through a host, a separate process in front of the local process manager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.orchestrator import OrchestratorSuite
from tests.servers.host import Host, host


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


@pytest.fixture(scope="module")
def served_crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("crowded"), "[orchestrator.local-process-manager]\nmax_agents = 2\n") as found:
        yield found


class TestExternal(OrchestratorSuite):
    @pytest.fixture
    def manifest(self, served: Host) -> str:
        return served.client("orchestrator")

    @pytest.fixture
    def crowded(self, served_crowded: Host) -> str:
        return served_crowded.client("orchestrator")
