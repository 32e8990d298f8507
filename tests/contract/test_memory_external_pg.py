"""The memory contract on Postgres with pgvector."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.memory import MemorySuite
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


class TestExternalPg(MemorySuite):
    @pytest.fixture
    def manifest(self, postgres: Server) -> str:
        return postgres.manifest("memory")
