"""What lies ready for the next start: it is used, nothing needs it, and nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import Agent, AgentSpec
from tests.integration.orchestrator.conftest import Opener, keepers

ECHO = AgentSpec(command="/bin/echo", args=("hello",))


async def until(condition: Callable[[], object]) -> None:
    """Wait for *condition*; it is about other processes, which tell nobody."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def ran(manager: LocalProcessManager) -> Agent:
    """An agent that has said hello and ended."""
    agent = await manager.spawn(ECHO)
    said = b"".join([event.data async for event in manager.stream(agent.id)])
    assert said == b"hello\n"
    return await manager.status(agent.id)


def inode(path: Path) -> int:
    return path.stat().st_ino


async def test_the_next_agent_lives_in_the_home_that_lay_ready(manager: LocalProcessManager, folder: Path) -> None:
    await ran(manager)
    ready = folder / "blanks" / "home"
    await until(ready.exists)
    names = {name: inode(ready / name) for name in ("stdout.log", "stderr.log", ".record.json", ".started.json")}
    (listener,) = (folder / "blanks").glob("*.sock")
    names["control.sock"] = inode(listener)

    agent = await manager.spawn(AgentSpec(command="sleep", args=("60",)))

    home = folder / agent.id
    found = {path.name: path.stat().st_ino for path in home.iterdir()}
    assert found == {name.removeprefix(".") if ".json" in name else name: number for name, number in names.items()}
    assert (await manager.terminate(agent.id, grace_seconds=0)).signal is not None


@pytest.mark.parametrize("harm", ["none", "a file", "empty", "damaged", "sockets gone"])
async def test_a_start_needs_nothing_that_lies_ready(manager: LocalProcessManager, folder: Path, harm: str) -> None:
    blanks = folder / "blanks"
    if harm == "a file":
        folder.mkdir(exist_ok=True)
        blanks.touch()
    await ran(manager)
    if harm != "a file":
        await until((blanks / "home").exists)
    if harm == "none":
        shutil.rmtree(blanks)
    elif harm == "empty":
        shutil.rmtree(blanks / "home")
        (blanks / "home").mkdir()
    elif harm == "damaged":
        (blanks / "home" / ".record.json").write_text("x" * 10_000)
        (blanks / "home" / ".started.json").unlink()
    elif harm == "sockets gone":
        for listener in blanks.glob("*.sock"):
            listener.unlink()

    agents = [await ran(manager) for _ in range(3)]

    assert [agent.exit_code for agent in agents] == [0, 0, 0]
    assert {agent.id for agent in agents} <= {agent.id for agent in (await manager.list_agents()).items}


async def test_what_lies_ready_is_no_agent(manager: LocalProcessManager, folder: Path) -> None:
    agent = await ran(manager)
    await until((folder / "blanks" / "home").exists)
    assert [found.id for found in (await manager.list_agents()).items] == [agent.id]


async def test_when_nobody_stands_by_any_more_one_home_is_all_that_is_left(open_manager: Opener, folder: Path) -> None:
    manager = await open_manager()
    await ran(manager)
    await until((folder / "blanks" / "home").exists)
    await manager.disconnect()
    await until(lambda: not list(keepers(folder)))
    assert [path.name for path in (folder / "blanks").iterdir()] == ["home"]


async def test_a_new_keeper_removes_what_the_killed_have_left(open_manager: Opener, folder: Path) -> None:
    manager = await open_manager()
    await ran(manager)
    await until(lambda: list((folder / "blanks").glob("*.sock")))
    for pid in keepers(folder):
        os.kill(pid, signal.SIGSTOP)  # so that it does not see to its spare
    (listener,) = (folder / "blanks").glob("*.sock")
    os.kill(int(listener.stem), signal.SIGKILL)
    for pid in keepers(folder):
        os.kill(pid, signal.SIGKILL)
    torn = folder / "blanks" / "12345"
    torn.mkdir()
    (torn / "stdout.log").touch()

    await ran(manager)

    assert not torn.exists()
    assert not listener.exists()
