"""Events on a network in trouble: through a host, each adapter with a spool of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.network import EventsNetworkSuite, ManifestAt
from tests.servers.host import Host, host


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), '[adapters]\nevents = "local-jsonl"\n') as found:
        yield found


class TestExternal(EventsNetworkSuite):
    @pytest.fixture
    def server(self, served: Host) -> tuple[str, int]:
        return "127.0.0.1", served.port

    @pytest.fixture
    def manifest_at(self, served: Host) -> ManifestAt:
        settings = '[events.external]\nretry_seconds = 0.5\nspool = "spool-{port}"\n'
        return lambda host, port: served.client("events", port=port) + settings.format(port=port)
