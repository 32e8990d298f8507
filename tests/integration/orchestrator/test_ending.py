"""Ending agents: whatever they started ends with them, and nobody else does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from agentbox.adapters.orchestrator import _proc
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import Agent, AgentSpec

Carriers = Callable[[str], set[int]]

TREE = """
import os, signal

def stay():
    os.write(1, b"%d\\n" % os.getpid())
    while True:
        signal.pause()

def child(*steps):
    if os.fork() == 0:
        for step in steps:
            step()
        stay()

def leave_group(): os.setpgid(0, 0)
def leave_session(): os.setsid()
def fork_and_exit():
    if os.fork(): os._exit(0)
def clear_environment():
    os.write(1, b"%d\\n" % os.getpid())
    os.execve("/bin/sleep", ["sleep", "600"], {})

signal.signal(signal.SIGTERM, signal.SIG_IGN)
child()
child(leave_group)
child(leave_session)
child(leave_session, fork_and_exit)
child(leave_session, fork_and_exit, child)
"""


async def pids_of(manager: LocalProcessManager, agent: Agent, count: int) -> dict[int, int]:
    """The first *count* pids that the agent prints, each with its start."""
    pids: list[int] = []
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        async for event in events:
            if event.type == "stdout":
                pids.append(int(event.data))
            if len(pids) == count:
                break
    return {pid: found.ticks for pid in pids if (found := _proc.stat(pid)) is not None}


def alive(pids: dict[int, int]) -> list[int]:
    return [pid for pid, ticks in pids.items() if _proc.is_alive(pid, ticks)]


async def test_sigterm_is_enough_for_the_willing(manager: LocalProcessManager, carriers: Carriers) -> None:
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "sleep 600 & sleep 600")))
    async with asyncio.timeout(30):
        ended = await manager.terminate(agent.id, grace_seconds=600)
    assert (ended.status, ended.signal, ended.exit_code) == ("exited", "SIGTERM", None)
    assert ended.reason == "ended by terminate"
    assert carriers(agent.id) == set()


async def test_an_agent_may_end_in_its_own_way(manager: LocalProcessManager) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script)))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        async for event in events:
            if event.data == b"ready\n":
                break
        ended = await manager.terminate(agent.id, grace_seconds=600)
        rest = [event.data async for event in events if event.type == "stdout"]
    assert (ended.exit_code, rest) == (7, [b"bye\n"])


async def test_ignoring_sigterm_does_not_help(manager: LocalProcessManager, carriers: Carriers) -> None:
    script = "trap '' TERM; echo $$; while :; do sleep 0.01; done"
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script)))
    await pids_of(manager, agent, 1)
    ended = await manager.terminate(agent.id, grace_seconds=0.05)
    assert (ended.status, ended.signal) == ("exited", "SIGKILL")
    assert carriers(agent.id) == set()


async def test_a_tree_that_scatters_ends_whole(manager: LocalProcessManager, carriers: Carriers) -> None:
    script = TREE + "child(clear_environment)\nstay()\n"
    agent = await manager.spawn(AgentSpec(command=sys.executable, args=("-S", "-c", script)))
    pids = await pids_of(manager, agent, 8)
    assert len(alive(pids)) == 8
    assert len(carriers(agent.id)) == 7
    started = time.perf_counter()
    ended = await manager.terminate(agent.id, grace_seconds=0.2)
    print(f"\nterminate of an 8-process tree that ignores SIGTERM, grace 0.2 s: {time.perf_counter() - started:.3f} s")
    assert (ended.status, ended.signal) == ("exited", "SIGKILL")
    assert (alive(pids), carriers(agent.id)) == ([], set())


async def test_what_outlives_the_command_is_ended(manager: LocalProcessManager, carriers: Carriers) -> None:
    agent = await manager.spawn(AgentSpec(command=sys.executable, args=("-S", "-c", TREE + "os._exit(5)")))
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert (events[-1].exit_code, events[-1].reason) == (5, "processes that it left behind were ended")
    assert carriers(agent.id) == set()


async def test_what_is_about_to_end_by_itself_may(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "(sleep 0.02; echo last) & exit 0")))
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert [event.data for event in events if event.type == "stdout"] == [b"last\n"]
    assert (events[-1].exit_code, events[-1].reason) == (0, "")


async def test_processes_that_are_never_the_same_for_long_are_caught(
    manager: LocalProcessManager, carriers: Carriers
) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.fork(): os._exit(0)
signal.pause()
"""
    agent = await manager.spawn(AgentSpec(command=sys.executable, args=("-S", "-c", script)))
    await pids_of(manager, agent, 1)
    while len(carriers(agent.id)) < 8:
        await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        ended = await manager.terminate(agent.id, grace_seconds=0)
    assert ended.status == "exited"
    assert carriers(agent.id) == set()


async def test_a_stopped_agent_hears_sigterm(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
    assert agent.pid
    os.kill(agent.pid, signal.SIGSTOP)
    async with asyncio.timeout(30):
        assert (await manager.terminate(agent.id, grace_seconds=600)).signal == "SIGTERM"


async def test_a_second_terminate_shortens_the_grace(manager: LocalProcessManager) -> None:
    script = "trap '' TERM; echo $$; while :; do sleep 0.01; done"
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script)))
    await pids_of(manager, agent, 1)
    patient = asyncio.ensure_future(manager.terminate(agent.id, grace_seconds=600))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(30):
        impatient = await manager.terminate(agent.id, grace_seconds=0)
        assert await patient == impatient


async def test_ending_what_has_ended_changes_nothing(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "exit 9")))
    async with asyncio.timeout(30):
        assert [event async for event in manager.stream(agent.id)]
    before = await manager.status(agent.id)
    assert await manager.terminate(agent.id) == before
    assert (before.exit_code, before.reason) == (9, "")


async def test_strangers_are_left_alone(manager: LocalProcessManager, folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "AGENTBOX_AGENT_HOME": f"{folder}/ag-22222222"}
    stranger = await asyncio.create_subprocess_exec("sleep", "600", env=env)
    try:
        agent = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
        await manager.terminate(agent.id, grace_seconds=0)
        assert stranger.returncode is None
        assert _proc.stat(stranger.pid) is not None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_supervisor_asked_to_stop_ends_its_agent(
    manager: LocalProcessManager, supervisor_of: Callable[[str], int]
) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
    os.kill(supervisor_of(agent.id), signal.SIGTERM)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert (events[-1].signal, events[-1].reason) == ("SIGTERM", "its supervisor was asked to stop")
