"""The orchestrator contract over a bridge, with `agentbox host --stdio` at the other end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentbox_contracts.suites.orchestrator import OrchestratorSuite

ROOM_FOR_TWO = """[adapters]
beads = "off"
pods = "off"
memory = "off"
events = "off"
[federation]
mode = "standalone"
[orchestrator.local-process-manager]
max_agents = 2
"""


class TestStdioBridge(OrchestratorSuite):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\norchestrator = "stdio-bridge"\n'

    @pytest.fixture
    def crowded(self, manifest: str, tmp_path: Path) -> str:
        path = tmp_path / "far" / "agentbox.toml"
        path.parent.mkdir()
        path.write_text(ROOM_FOR_TWO)
        command = [sys.executable, "-m", "agentbox", "host", "--stdio", "--manifest", str(path)]
        return f"{manifest}\n[orchestrator.stdio-bridge]\ncommand = {json.dumps(command)}\n"
