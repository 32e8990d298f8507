"""The memory contract through a host: a separate process, in front of SQLite, and in front of Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.memory import MemorySuite
from tests.servers.host import Host, host
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), '[adapters]\nmemory = "embedded"\n') as found:
        yield found


class TestExternal(MemorySuite):
    @pytest.fixture
    def manifest(self, served: Host) -> str:
        return served.client("memory")


@pytest.fixture(scope="module")
def served_by_postgres(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), postgres.manifest("memory")) as found:
        yield found


@pytest.mark.soak
class TestExternalInFrontOfPostgres(MemorySuite):
    @pytest.fixture
    def manifest(self, served_by_postgres: Host) -> str:
        return served_by_postgres.client("memory")
