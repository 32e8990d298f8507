"""Beads on a network in trouble: through a host, and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from agentbox_contracts.suites.network import BeadsNetworkSuite, ManifestAt
from tests.servers.host import Host, host
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


class TestExternal(BeadsNetworkSuite):
    @pytest.fixture
    def server(self, served: Host) -> tuple[str, int]:
        return "127.0.0.1", served.port

    @pytest.fixture
    def manifest_at(self, served: Host) -> ManifestAt:
        return lambda host, port: served.client("beads", port=port) + "[beads.external]\nretry_seconds = 0.5\n"


class TestExternalPg(BeadsNetworkSuite):
    @pytest.fixture
    def server(self, postgres: Server) -> tuple[str, int]:
        return postgres.host, postgres.port

    @pytest.fixture
    def manifest_at(self, postgres: Server) -> ManifestAt:
        schema = f"beads_{uuid4().hex}"
        return lambda host, port: postgres.manifest(dsn=postgres.dsn_of(port=port), schema=schema)
