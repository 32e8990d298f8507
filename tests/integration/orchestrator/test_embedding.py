"""The embedding process: it stays itself, shares with others, and may die at any moment."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentbox.adapters.orchestrator import _proc
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import AgentEvent, AgentSpec

Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]
Carriers = Callable[[str], set[int]]
Pids = Callable[[], list[int]]
SupervisorOf = Callable[[str], int]

SLEEP = AgentSpec(command="sleep", args=("600",))
PR_GET_CHILD_SUBREAPER = 37


async def collect(manager: LocalProcessManager, agent_id: str) -> list[AgentEvent]:
    async with asyncio.timeout(30):
        return [event async for event in manager.stream(agent_id)]


def children() -> set[int]:
    """The children of this process, of all its threads."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while (found := _proc.stat(pid)) is not None and found.state != "Z":
            await asyncio.sleep(0.01)


async def test_the_process_keeps_its_own_children_and_gets_no_others(
    open_manager: Opener,
) -> None:
    handler = signal.getsignal(signal.SIGCHLD)
    before = children()
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
    manager = await open_manager()
    events = await collect(
        manager, (await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "sleep 0 & exit 3")))).id
    )
    reaped, status = os.waitpid(child, 0)
    subreaper = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(subreaper), 0, 0, 0)
    assert (reaped, os.waitstatus_to_exitcode(status), events[-1].exit_code) == (child, 7, 3)
    assert subreaper.value == 0
    assert signal.getsignal(signal.SIGCHLD) is handler
    assert children() <= before  # no keeper, no supervisor, no agent: a host's own wait() never meets them


async def test_two_managers_share_one_keeper_and_all_agents(open_manager: Opener, keeper_pids: Pids) -> None:
    one, other = await asyncio.gather(open_manager(), open_manager())
    agent = await one.spawn(AgentSpec(command="cat", stdin="pipe"))
    async with asyncio.timeout(30):
        while len(keeper_pids()) > 1:  # the one that came second is about to leave
            await asyncio.sleep(0.01)
    assert (await other.status(agent.id)).status == "running"
    await other.send(agent.id, b"hello", end=True)
    assert [event.data for event in await collect(other, agent.id)] == [b"", b"hello", b""]
    assert (await one.list_agents()).items == (await other.list_agents()).items


async def test_another_process_shares_the_keeper_and_all_agents(
    open_manager: Opener, run_script: Script, keeper_pids: Pids
) -> None:
    process = run_script("""
async def main():
    manager = await opened()
    agent = await manager.spawn(AgentSpec(command="cat", stdin="pipe"))
    print(agent.id, flush=True)
    async for event in manager.stream(agent.id):
        print(event.type, event.text, flush=True)

asyncio.run(main())
""")
    manager = await open_manager()
    assert process.stdout is not None
    agent_id = (await asyncio.to_thread(process.stdout.readline)).strip()
    await manager.send(agent_id, b"hello", end=True)
    assert (await asyncio.to_thread(process.stdout.read)).split() == [
        "started",
        "stdout",
        "hello",
        "exited",
    ]
    assert len(keeper_pids()) == 1
    assert [agent.id for agent in (await manager.list_agents()).items] == [agent_id]


async def test_agents_outlive_a_killed_host(open_manager: Opener, run_script: Script) -> None:
    process = run_script("""
async def main():
    manager = await opened()
    script = "for n in $(seq 100); do echo line $n; sleep 0.005; done; exit 6"
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script)))
    live = await manager.spawn(AgentSpec(command="cat", stdin="pipe"))
    print(agent.id, live.id, flush=True)
    async for event in manager.stream(agent.id):
        print(event.text, end="", flush=True)

asyncio.run(main())
""")
    assert process.stdout is not None
    agent_id, live_id = (await asyncio.to_thread(process.stdout.readline)).split()
    assert await asyncio.to_thread(process.stdout.readline) == "line 1\n"
    process.kill()
    process.wait()
    manager = await open_manager()
    events = await collect(manager, agent_id)
    assert [event.text for event in events[1:-1]] == [f"line {n}\n" for n in range(1, 101)]
    assert events[-1].exit_code == 6
    await manager.send(live_id, b"still here\n")
    await manager.send(live_id, end=True)
    assert [event.data for event in await collect(manager, live_id)] == [b"", b"still here\n", b""]


async def test_agents_outlive_a_killed_keeper(
    manager: LocalProcessManager, keeper_pids: Pids, carriers: Carriers
) -> None:
    before = await manager.spawn(AgentSpec(command="cat", stdin="pipe"))
    doomed = await manager.spawn(SLEEP)
    (first,) = keeper_pids()
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert (await manager.status(before.id)).status == "running"
    after = await manager.spawn(AgentSpec(command="echo", args=("new",)))
    assert [event.data for event in await collect(manager, after.id)] == [b"", b"new\n", b""]
    await manager.send(before.id, b"old\n", end=True)
    assert [event.data for event in await collect(manager, before.id)] == [b"", b"old\n", b""]
    assert (await manager.terminate(doomed.id)).signal == "SIGTERM"
    assert carriers(doomed.id) == set()
    assert first not in keeper_pids()


async def test_health_starts_a_keeper_that_is_gone(manager: LocalProcessManager, keeper_pids: Pids) -> None:
    (first,) = keeper_pids()
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert (await manager.health()).state == "healthy"
    (second,) = keeper_pids()
    assert second != first


async def test_a_keeper_killed_again_and_again_loses_no_start(manager: LocalProcessManager, keeper_pids: Pids) -> None:
    spec = AgentSpec(command="/bin/sh", args=("-c", "echo $$; exec sleep 600"))

    async def kill() -> None:
        while True:
            for pid in keeper_pids():
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.05)

    killer = asyncio.ensure_future(kill())
    try:
        async with asyncio.timeout(30):
            agents = [await manager.spawn(spec) for _ in range(20)]
    finally:
        killer.cancel()
    ended = await asyncio.gather(*(manager.terminate(agent.id, grace_seconds=0) for agent in agents))
    assert {agent.status for agent in ended} == {"exited"}
    for agent in ended:
        assert len([event for event in await collect(manager, agent.id) if event.type == "stdout"]) <= 1


async def test_a_restart_of_the_machine_loses_agents(manager: LocalProcessManager, folder: Path) -> None:
    agent = await manager.spawn(SLEEP)
    started = folder / agent.id / "started.json"
    assert manager._link is not None
    text = started.read_text()
    started.write_text(text.replace(_proc.boot_id(), "00000000-0000-0000-0000-000000000000"))
    lost = await manager.status(agent.id)
    started.write_text(text)
    assert (lost.status, lost.reason) == ("lost", "the machine was restarted while it ran")
    await manager.terminate(agent.id, grace_seconds=0)


async def test_the_keeper_leaves_when_nobody_needs_it(open_manager: Opener, keeper_pids: Pids, folder: Path) -> None:
    manager = await open_manager(keeper_idle_seconds=0.05)
    agent = await manager.spawn(SLEEP)
    (keeper,) = keeper_pids()
    await manager.disconnect()
    await asyncio.sleep(0.3)
    assert keeper_pids() == [keeper]
    again = await open_manager()
    await again.terminate(agent.id, grace_seconds=0)
    await again.disconnect()
    await gone(keeper)
    assert not (folder / "keeper.sock").exists()


async def test_meeting_a_keeper_that_leaves_is_harmless(open_manager: Opener) -> None:
    for _ in range(30):
        manager = await open_manager(keeper_idle_seconds=0.0)
        assert (await manager.health()).state == "healthy"
        await manager.disconnect()


async def test_the_keeper_loads_no_packages_and_holds_no_secrets(
    manager: LocalProcessManager, keeper_pids: Pids
) -> None:
    (keeper,) = keeper_pids()
    maps = Path(f"/proc/{keeper}/maps").read_text()
    environ = Path(f"/proc/{keeper}/environ").read_bytes()
    assert "site-packages" not in maps
    assert {entry.split(b"=")[0] for entry in environ.split(b"\0") if entry} <= {
        b"PATH",
        b"LD_LIBRARY_PATH",
        b"LANG",
        b"LC_ALL",
        b"LC_CTYPE",
    }
    assert sys.executable.encode() in Path(f"/proc/{keeper}/cmdline").read_bytes()
