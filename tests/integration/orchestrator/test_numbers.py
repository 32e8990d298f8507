"""Agents in numbers: when they are over, nothing of them is left in whoever ran them, and nothing was taken from it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator import _proc
from tests.integration.orchestrator import crowd

Pids = Callable[[], list[int]]

MANIFEST = """
[state]
path = "."

[adapters]
pods = "off"
memory = "off"
events = "off"

[orchestrator.local-process-manager]
keeper_idle_seconds = 0.3
"""


async def run(folder: Path, count: int) -> None:
    manifest = folder.parent / "agentbox.toml"
    manifest.write_text(MANIFEST)
    process = await asyncio.create_subprocess_exec(
        sys.executable, crowd.__file__, str(manifest), str(count), stdout=PIPE
    )
    told = json.loads((await process.communicate())[0])
    before, after = told["before"], told["after"]
    print(f"\n{count} agents: {before} before, {after} after")
    assert told["wrong"] == 0
    assert told["children"] == [7, -15, -9]  # no orchestrator took an exit that was its host's to wait for
    for name in ("descriptors", "threads", "tasks", "keeper_descriptors"):
        assert (name, after[name] <= before[name]) == (name, True)
    for name in ("resident", "keeper_resident"):
        assert (name, after[name] <= before[name] * 1.1) == (name, True)
    _see_no_remains(folder)


def _see_no_remains(folder: Path) -> None:
    """No process of them, dead or alive, no socket, and nothing in the keeper's log."""
    started = [json.loads(path.read_text()) for path in folder.glob("ag-*/started.json")]
    assert len(started) > crowd.WARM_UP
    for one in started:
        for pid, ticks in ((one["pid"], one["ticks"]), (one["supervisor_pid"], one["supervisor_ticks"])):
            found = _proc.stat(pid)
            assert found is None or found.ticks != ticks, f"{pid} is still there, in state {found.state}"
    assert not list(folder.glob("ag-*/control.sock"))
    assert (folder / "keeper.log").read_text() == ""


async def test_a_hundred_and_fifty_agents_leave_nothing_behind(folder: Path) -> None:
    await run(folder, 150)


@pytest.mark.soak
async def test_two_thousand_agents_leave_nothing_behind(folder: Path) -> None:
    await run(folder, 2000)
