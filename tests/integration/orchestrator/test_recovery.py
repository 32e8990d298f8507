"""Whoever is killed: every agent is live, or ended with its output and exit, or lost with the reason."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator import _proc
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.errors import Conflict
from agentbox_contracts.orchestrator import Agent, AgentSpec

Carriers = Callable[[str], set[int]]
Pids = Callable[[], list[int]]
SupervisorOf = Callable[[str], int]
Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]

ENDED = "was killed; what was left of it was ended"
# It scatters, ignores SIGTERM, and one of its processes clears its environment.
TREE = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(4):
    if os.fork() == 0:
        if n % 2: os.setsid()
        if n > 1 and os.fork(): os._exit(0)
        os.write(1, b"%d\\n" % os.getpid())
        if n == 3: os.execve("/bin/sleep", ["sleep", "600"], {})
        signal.pause()
os.write(1, b"%d\\n" % os.getpid())
while True: signal.pause()
"""


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


async def tree(manager: LocalProcessManager) -> tuple[Agent, dict[int, int]]:
    """An agent of five processes, each with its start."""
    agent = await manager.spawn(AgentSpec(command=sys.executable, args=("-S", "-c", TREE), stdin="pipe"))
    pids: list[int] = []
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        async for event in events:
            pids += [int(event.data)] if event.type == "stdout" else []
            if len(pids) == 5:
                break
    return agent, {pid: found.ticks for pid in pids if (found := _proc.stat(pid)) is not None}


def alive(pids: dict[int, int]) -> list[int]:
    return [pid for pid, ticks in pids.items() if _proc.is_alive(pid, ticks)]


async def test_what_a_killed_supervisor_held_is_ended_and_told(
    manager: LocalProcessManager, open_manager: Opener, supervisor_of: SupervisorOf
) -> None:
    agent, pids = await tree(manager)
    supervisor = supervisor_of(agent.id)
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        kill(supervisor)
        last = [event async for event in events][-1]
    ended = await manager.status(agent.id)
    assert (ended.status, ended.signal, ended.exit_code) == ("exited", "SIGKILL", None)
    assert ended.reason == last.reason == f"its supervisor (pid {supervisor}) {ENDED}"
    assert (len(pids), alive(pids)) == (5, [])
    with pytest.raises(Conflict, match="has ended"):
        await manager.send(agent.id, b"x")
    assert await manager.terminate(agent.id) == ended
    assert await (await open_manager()).status(agent.id) == ended


async def test_an_exit_that_a_killed_supervisor_had_not_seen_is_known(
    manager: LocalProcessManager, supervisor_of: SupervisorOf, tmp_path: Path
) -> None:
    script = 'echo out; while [ ! -e "$0" ]; do sleep 0.01; done; exit 7'
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script, str(tmp_path / "go"))))
    supervisor = supervisor_of(agent.id)
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go").touch()
    assert agent.pid is not None
    async with asyncio.timeout(30):
        while (found := _proc.stat(agent.pid)) is not None and found.state != "Z":
            await asyncio.sleep(0.01)
    kill(supervisor)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert ([event.data for event in events if event.type == "stdout"], events[-1].exit_code) == ([b"out\n"], 7)


async def test_nobody_need_ask_for_what_is_left_to_be_ended(
    manager: LocalProcessManager, supervisor_of: SupervisorOf, folder: Path
) -> None:
    agent, pids = await tree(manager)
    kill(supervisor_of(agent.id))
    async with asyncio.timeout(30):
        while alive(pids) or not (folder / agent.id / "exit.json").exists():
            await asyncio.sleep(0.01)


async def test_a_new_keeper_stands_by_for_the_supervisors_of_the_old(
    manager: LocalProcessManager, supervisor_of: SupervisorOf, keeper_pids: Pids, carriers: Carriers
) -> None:
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "sleep 600 & setsid sleep 600 & wait")))
    kill(*keeper_pids())
    assert (await manager.health()).state == "healthy"
    assert (await manager.status(agent.id)).status == "running"
    kill(supervisor_of(agent.id))
    async with asyncio.timeout(30):
        while carriers(agent.id):
            await asyncio.sleep(0.01)
    ended = await manager.status(agent.id)
    assert (ended.status, ended.signal) == ("exited", "SIGKILL")
    assert ENDED in ended.reason


async def test_whoever_comes_after_all_were_killed_finds_every_agent(
    open_manager: Opener, run_script: Script, supervisor_of: SupervisorOf, keeper_pids: Pids, carriers: Carriers
) -> None:
    process = run_script("""
async def main():
    manager = await opened()
    shell = lambda text: AgentSpec(command="/bin/sh", args=("-c", text))
    done = await manager.spawn(shell("echo said; exit 3"))
    async for _ in manager.stream(done.id): pass
    held = await manager.spawn(shell("sleep 600 & setsid sleep 600 & wait"))
    live = await manager.spawn(AgentSpec(command="cat", stdin="pipe"))
    print(done.id, held.id, live.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
""")
    assert process.stdout is not None
    done, held, live = (await asyncio.to_thread(process.stdout.readline)).split()
    kill(process.pid, *keeper_pids(), supervisor_of(held))
    process.wait()
    one, other = await asyncio.gather(open_manager(), open_manager())
    assert (await one.status(done)).exit_code == 3
    ended = await one.status(held)
    assert (ended.status, ended.signal) == ("exited", "SIGKILL")
    assert ENDED in ended.reason
    assert carriers(held) == set()
    await other.send(live, b"still here\n", end=True)
    async with asyncio.timeout(30):
        said = [event.data async for event in one.stream(live) if event.type == "stdout"]
    assert said == [b"still here\n"]
    assert (await one.list_agents()).items == (await other.list_agents()).items
    assert len(keeper_pids()) == 1


async def test_an_agent_of_which_nothing_can_be_known_is_lost_with_the_reason(
    manager: LocalProcessManager, supervisor_of: SupervisorOf, keeper_pids: Pids
) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
    assert agent.pid is not None
    kill(*keeper_pids())
    supervisor = supervisor_of(agent.id)
    os.kill(supervisor, signal.SIGSTOP)
    kill(agent.pid, supervisor)
    async with asyncio.timeout(30):
        while _proc.stat(supervisor) is not None and (await manager.status(agent.id)).is_alive:
            await asyncio.sleep(0.01)
    lost = await manager.status(agent.id)
    assert (lost.status, lost.exit_code, lost.signal) == ("lost", None, None)
    assert lost.reason == f"its supervisor (pid {supervisor}) was killed; nothing of it was left"
    assert [agent.id for agent in (await manager.list_agents(status="lost")).items] == [lost.id]


async def test_listing_sees_to_it_too(manager: LocalProcessManager, supervisor_of: SupervisorOf) -> None:
    agents = [(await tree(manager))[0] for _ in range(3)]
    kill(*(supervisor_of(agent.id) for agent in agents))
    async with asyncio.timeout(30):
        while (await manager.list_agents(status="running")).items:
            await asyncio.sleep(0.01)
    listed = (await manager.list_agents()).items
    assert {(agent.status, agent.signal) for agent in listed} == {("exited", "SIGKILL")}


async def test_whoever_stands_by_for_the_next_agent_may_be_killed(
    manager: LocalProcessManager, keeper_pids: Pids
) -> None:
    (keeper,) = keeper_pids()
    for is_direct in (True, False):
        await collect(manager, "true")
        async with asyncio.timeout(30):
            while not (standing := [pid for pid in _proc.walk(keeper) if (pid in _proc.children(keeper)) is is_direct]):
                await collect(manager, "true")
            pids = {pid: found.ticks for pid in standing if (found := _proc.stat(pid)) is not None}
            kill(*standing)
            while alive(pids) or {*standing} & {*_proc.children(keeper)}:
                await asyncio.sleep(0.01)
        assert await collect(manager, "echo") == b"said\n"
    async with asyncio.timeout(30):
        while list(_proc.walk(keeper)):  # zombies too
            await asyncio.sleep(0.01)


async def test_who_stands_by_leaves_with_the_keeper(manager: LocalProcessManager, keeper_pids: Pids) -> None:
    await collect(manager, "true")
    (keeper,) = keeper_pids()
    standing = {pid: found.ticks for pid in _proc.walk(keeper) if (found := _proc.stat(pid)) is not None}
    kill(keeper)
    async with asyncio.timeout(30):
        while alive(standing):
            await asyncio.sleep(0.01)


async def collect(manager: LocalProcessManager, command: str) -> bytes:
    """What a new agent says, to its end."""
    agent = await manager.spawn(AgentSpec(command=command, args=("said",)))
    return b"".join([event.data async for event in manager.stream(agent.id)])


@pytest.mark.parametrize("damage", [b"", b"{bad", b"[]", b"\xff\x00"], ids=["empty", "half", "other", "binary"])
@pytest.mark.parametrize("file", ["record.json", "started.json", "exit.json"])
async def test_a_damaged_file_hides_no_agent(manager: LocalProcessManager, file: str, damage: bytes) -> None:
    done = await manager.spawn(AgentSpec(command="true"))
    async with asyncio.timeout(30):
        assert [event.type async for event in manager.stream(done.id)][-1] == "exited"
    running = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
    folder = Path(manager.location)
    # An empty started.json is what a power cut leaves of an agent that never ran.
    spoilt = [done, running] if file == "record.json" or (file == "started.json" and damage) else [done]
    for agent in spoilt:
        (folder / agent.id / file).write_bytes(damage)

    found = {agent.id: agent for agent in (await manager.list_agents()).items}
    assert found.keys() == {done.id, running.id}
    assert all(file in found[agent.id].reason or not damage for agent in spoilt)
    ended = await manager.terminate(running.id, grace_seconds=0)
    assert not ended.is_alive
    assert running.pid is not None
    assert _proc.stat(running.pid) is None
