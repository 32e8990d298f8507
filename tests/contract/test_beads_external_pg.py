"""The beads contract on Postgres."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.beads import BeadsSuite
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


class TestExternalPg(BeadsSuite):
    @pytest.fixture
    def manifest(self, postgres: Server) -> str:
        return postgres.manifest()
