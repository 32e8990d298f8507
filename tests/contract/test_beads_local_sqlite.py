"""The beads contract on SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.suites.beads import BeadsSuite


class TestLocalSqlite(BeadsSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\nbeads = "local-sqlite"\n'

    def elsewhere(self, open_adapter: Any, manifest: str, tmp_path: Path) -> Any:
        return open_slot(manifest, "beads", folder=tmp_path / "elsewhere")
