"""The orchestrator on a network in trouble: through a host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.network import ManifestAt, OrchestratorNetworkSuite
from tests.servers.host import Host, host


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


class TestExternal(OrchestratorNetworkSuite):
    @pytest.fixture
    def server(self, served: Host) -> tuple[str, int]:
        return "127.0.0.1", served.port

    @pytest.fixture
    def manifest_at(self, served: Host) -> ManifestAt:
        settings = "[orchestrator.external]\nretry_seconds = 0.5\n"
        return lambda host, port: served.client("orchestrator", port=port) + settings
