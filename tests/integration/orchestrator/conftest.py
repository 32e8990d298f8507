"""Real processes in a folder of the test's own; when it is over, nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager, Settings

Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]

PREAMBLE = """
import asyncio, logging, os, sys
from pathlib import Path
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager, Settings
from agentbox_contracts.orchestrator import AgentSpec

async def opened():
    config = Settings(path=Path(sys.argv[1]), keeper_idle_seconds=0.3)
    manager = LocalProcessManager(
        slot="orchestrator", impl="local-process-manager", config=config, logger=logging.getLogger("test")
    )
    await manager.connect()
    return manager
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the agents live. Whatever carries this folder's marker when the test is over is killed, and the keeper."""
    folder = tmp_path / "agents"
    yield folder
    marker = f"AGENTBOX_AGENT_HOME={folder.resolve()}/".encode()
    for pid in running(marker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in keepers(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def open_manager(folder: Path) -> AsyncIterator[Opener]:
    """Opens one manager after another on the test's folder."""
    opened: list[LocalProcessManager] = []

    async def open_one(**settings: Any) -> LocalProcessManager:
        config = Settings(**{"path": folder, "keeper_idle_seconds": 0.3, **settings})
        manager = LocalProcessManager(
            slot="orchestrator", impl="local-process-manager", config=config, logger=logging.getLogger("test")
        )
        await manager.connect()
        opened.append(manager)
        return manager

    yield open_one
    for manager in opened:
        await manager.disconnect()


@pytest.fixture
async def manager(open_manager: Opener) -> LocalProcessManager:
    """A connected manager."""
    return await open_manager()


@pytest.fixture
def run_script(folder: Path) -> Iterator[Script]:
    """Starts another process that embeds the manager on the same folder; `await opened()` gives it there."""
    started: list[subprocess.Popen[str]] = []

    def run(body: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PREAMBLE + body, str(folder)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def carriers(folder: Path) -> Callable[[str], set[int]]:
    """The live processes that carry an agent's marker, as /proc shows them."""
    return lambda agent_id: running(f"AGENTBOX_AGENT_HOME={folder.resolve()}/{agent_id}\0".encode())


@pytest.fixture
def keeper_pids(folder: Path) -> Callable[[], list[int]]:
    """The keepers that serve the test's folder now."""
    return lambda: keepers(folder)


@pytest.fixture
def supervisor_of(folder: Path) -> Callable[[str], int]:
    """The pid of an agent's supervisor."""

    def pid(agent_id: str) -> int:
        return int(json.loads((folder / agent_id / "started.json").read_text())["supervisor_pid"])

    return pid


def running(marker: bytes) -> set[int]:
    """Processes with *marker* in their environment; a zombie has none."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
    return found


def keepers(folder: Path) -> list[int]:
    """Processes called keeper with *folder* in their command line; not those one has just forked, so called."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                is_keeper = (entry / "comm").read_text() == "agentbox-keeper\n"
                if is_keeper and str(folder.resolve()).encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    stat = (entry / "stat").read_text()
                    found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return [pid for pid, parent in found.items() if parent not in found]
