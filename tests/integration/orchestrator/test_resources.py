"""What many agents cost, and that they give it back."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from agentbox.adapters.orchestrator import _proc
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import AgentSpec


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def open_files(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def echo(manager: LocalProcessManager, turns: asyncio.Semaphore, number: int) -> int | None:
    async with turns:
        agent = await manager.spawn(AgentSpec(command="/bin/echo", args=(str(number),)))
        events = [event async for event in manager.stream(agent.id)]
        assert [event.text for event in events if event.type == "stdout"] == [f"{number}\n"]
        return events[-1].exit_code


async def test_two_hundred_agents_leave_nothing_behind(
    manager: LocalProcessManager, keeper_pids: Callable[[], list[int]], folder: Path
) -> None:
    turns = asyncio.Semaphore(20)
    (keeper,) = keeper_pids()
    await asyncio.gather(*(echo(manager, turns, n) for n in range(40)))
    before = open_files("self"), threading.active_count(), len(asyncio.all_tasks())
    async with asyncio.timeout(60):
        codes = await asyncio.gather(*(echo(manager, turns, n) for n in range(200)))
    assert codes == [0] * 200
    assert (open_files("self"), threading.active_count(), len(asyncio.all_tasks())) == before
    async with asyncio.timeout(30):
        while list(_proc.walk(keeper)):
            await asyncio.sleep(0.01)
        while open_files(keeper) > 10:
            await asyncio.sleep(0.01)
    assert not list(folder.glob("ag-*/control.sock"))
    assert (folder / "keeper.log").read_text() == ""


async def test_a_supervisor_is_small(manager: LocalProcessManager, folder: Path) -> None:
    agents = [await manager.spawn(AgentSpec(command="sleep", args=("600",))) for _ in range(5)]
    texts = [(folder / agent.id / "started.json").read_text() for agent in agents]
    sizes = sorted(private_kib(json.loads(text)["supervisor_pid"]) for text in texts)
    print(f"\nprivate memory of a supervisor: {sizes[2]} KiB")
    assert sizes[2] < 1536
    await asyncio.gather(*(manager.terminate(agent.id, grace_seconds=0) for agent in agents))
