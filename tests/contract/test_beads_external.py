"""The beads contract through a host: a separate process, in front of SQLite and in front of Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.beads import BeadsSuite
from tests.servers.host import Host, host
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), postgres.manifest()) as found:
        yield found


class TestExternal(BeadsSuite):
    @pytest.fixture
    def manifest(self, on_sqlite: Host) -> str:
        return on_sqlite.client("beads")


class TestExternalOnPostgres(BeadsSuite):
    @pytest.fixture
    def manifest(self, on_postgres: Host) -> str:
        return on_postgres.client("beads")
