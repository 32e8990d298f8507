"""The beads contract on SQLite."""

import pytest

from agentbox_contracts.suites.beads import BeadsSuite


class TestLocalSqlite(BeadsSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\nbeads = "local-sqlite"\n'
