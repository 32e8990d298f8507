"""A bound on agents that run: whoever comes too many waits its turn, and nobody starves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.context import session_id
from agentbox_contracts.errors import AdapterUnavailable, SpawnError
from agentbox_contracts.orchestrator import Agent, AgentSpec

Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]
Pids = Callable[[], list[int]]

SLEEP = AgentSpec(command="sleep", args=("600",))


@contextlib.asynccontextmanager
async def waiting(spawns: Sequence[Awaitable[Agent]]) -> AsyncIterator[list[asyncio.Future[Agent]]]:
    """Spawns under way, each asked for before the next; those that still wait at the end are taken back."""
    tasks: list[asyncio.Future[Agent]] = []
    for spawn in spawns:
        tasks.append(asyncio.ensure_future(spawn))
        await asyncio.sleep(0.02)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def spawned(manager: LocalProcessManager, session: str, name: str) -> Agent:
    token = session_id.set(session)
    try:
        return await manager.spawn(AgentSpec(command="sleep", args=("600",), name=name))
    finally:
        session_id.reset(token)


async def in_turn(manager: LocalProcessManager, tasks: list[asyncio.Future[Agent]]) -> list[str]:
    """The names of agents in the order in which they got their turn, each ended to make room for the next."""
    names: list[str] = []
    pending = set(tasks)
    async with asyncio.timeout(30):
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                names.append(task.result().name or "")
                await manager.terminate(task.result().id, grace_seconds=0)
    return names


async def test_no_more_agents_run_than_may(open_manager: Opener) -> None:
    managers = [await open_manager(max_agents=3) for _ in range(2)]
    first = [await managers[n % 2].spawn(SLEEP) for n in range(3)]
    async with waiting([managers[n % 2].spawn(SLEEP) for n in range(4)]) as tasks:
        assert [task.done() for task in tasks] == [False] * 4
        assert len((await managers[0].list_agents()).items) == 3
        await managers[0].terminate(first[0].id, grace_seconds=0)
        async with asyncio.timeout(30):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert sum(task.done() for task in tasks) == 1
        assert len((await managers[0].list_agents(status="running")).items) == 3


async def test_callers_take_turns_each_in_its_own_order(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=1)
    blocker = await manager.spawn(SLEEP)
    greedy = [spawned(manager, "greedy", f"g{n}") for n in range(5)]
    async with waiting([*greedy, spawned(manager, "modest", "m0"), spawned(manager, "third", "t0")]) as tasks:
        await manager.terminate(blocker.id, grace_seconds=0)
        assert await in_turn(manager, tasks) == ["g0", "m0", "t0", "g1", "g2", "g3", "g4"]


async def test_processes_without_a_session_take_turns(open_manager: Opener) -> None:
    one, other = await open_manager(max_agents=1), await open_manager(max_agents=1)
    blocker = await one.spawn(SLEEP)
    specs = [AgentSpec(command="sleep", args=("600",), name=name) for name in ("a", "b", "c", "z")]
    async with waiting([*(one.spawn(spec) for spec in specs[:3]), other.spawn(specs[3])]) as tasks:
        await one.terminate(blocker.id, grace_seconds=0)
        assert await in_turn(one, tasks) == ["a", "z", "b", "c"]


async def test_who_is_cancelled_leaves_the_queue(open_manager: Opener, folder: Path) -> None:
    manager = await open_manager(max_agents=1)
    blocker = await manager.spawn(SLEEP)
    async with waiting([manager.spawn(SLEEP), manager.spawn(SLEEP)]) as (first, second):
        first.cancel()
        await asyncio.wait([first])
        assert len(list(folder.glob("ag-*"))) == 1
        await manager.terminate(blocker.id, grace_seconds=0)
        async with asyncio.timeout(30):
            assert (await second).status == "running"


async def test_who_is_cancelled_when_its_turn_has_come_gives_it_back(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=1)
    for _ in range(10):
        spawning = asyncio.ensure_future(manager.spawn(SLEEP))
        for _ in range(3):
            await asyncio.sleep(0)
        spawning.cancel()
        await asyncio.wait([spawning])
    for agent in (await manager.list_agents(status="running")).items:
        await manager.terminate(agent.id, grace_seconds=0)
    async with asyncio.timeout(30):
        assert (await manager.spawn(SLEEP)).status == "running"


async def test_who_dies_leaves_the_queue(open_manager: Opener, run_script: Script, folder: Path) -> None:
    manager = await open_manager(max_agents=1)
    blocker = await manager.spawn(SLEEP)
    process = run_script("""
async def main():
    manager = LocalProcessManager(
        slot="orchestrator", impl="local-process-manager", logger=logging.getLogger("test"),
        config=Settings(path=Path(sys.argv[1]), keeper_idle_seconds=0.3, max_agents=1),
    )
    await manager.connect()
    spawns = [asyncio.ensure_future(manager.spawn(AgentSpec(command="sleep", args=("600",)))) for _ in range(5)]
    await asyncio.sleep(0.1)
    print("waiting", flush=True)
    await asyncio.gather(*spawns)

asyncio.run(main())
""")
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "waiting\n"
    process.kill()
    process.wait()
    async with waiting([manager.spawn(SLEEP)]) as (task,):
        await manager.terminate(blocker.id, grace_seconds=0)
        async with asyncio.timeout(30):
            await task
        assert len(list(folder.glob("ag-*"))) == 2


async def test_a_full_queue_is_adapter_unavailable_for_who_filled_it(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=1, max_waiting=2)
    await manager.spawn(SLEEP)
    async with waiting([spawned(manager, "greedy", f"g{n}") for n in range(2)]):
        with pytest.raises(AdapterUnavailable, match="1 agents run, as many as may, and 2 of its caller's wait"):
            await spawned(manager, "greedy", "g2")
        async with waiting([spawned(manager, "modest", "m0")]) as (modest,):
            assert not modest.done()


async def test_whose_turn_it_is_at_once_does_not_wait(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=3, max_waiting=0)
    agents = await asyncio.gather(*(manager.spawn(SLEEP) for _ in range(3)))
    assert [agent.status for agent in agents] == ["running"] * 3
    with pytest.raises(AdapterUnavailable, match="3 agents run, as many as may, and 0 of its caller's wait"):
        await manager.spawn(SLEEP)


async def test_a_start_that_fails_gives_its_turn_back(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=1)
    async with asyncio.timeout(30):
        for _ in range(3):
            with pytest.raises(SpawnError):
                await manager.spawn(AgentSpec(command="no-such-command"))
        assert (await manager.spawn(SLEEP)).status == "running"


async def test_a_repetition_needs_no_turn(open_manager: Opener) -> None:
    manager = await open_manager(max_agents=1)
    async with asyncio.timeout(30):
        first = await manager.spawn(SLEEP, key="k")
        assert (await manager.spawn(SLEEP, key="k")).id == first.id


async def test_the_bound_holds_over_the_death_of_the_keeper(open_manager: Opener, keeper_pids: Pids) -> None:
    manager = await open_manager(max_agents=2)
    agents = [await manager.spawn(SLEEP) for _ in range(2)]
    async with waiting([manager.spawn(SLEEP)]) as (task,):
        for pid in keeper_pids():
            os.kill(pid, signal.SIGKILL)
        assert (await manager.health()).state == "healthy"
        await asyncio.sleep(0.1)
        assert not task.done()
        await manager.terminate(agents[0].id, grace_seconds=0)
        async with asyncio.timeout(30):
            assert (await task).status == "running"


async def test_many_at_once_never_exceed_the_bound(open_manager: Opener, tmp_path: Path) -> None:
    managers = [await open_manager(max_agents=4) for _ in range(3)]
    script = f"touch {tmp_path}/$$.on; ls {tmp_path} | grep -c on >> {tmp_path}/count; sleep 0.02; rm {tmp_path}/$$.on"
    spec = AgentSpec(command="/bin/sh", args=("-c", script))

    async def one(manager: LocalProcessManager) -> int | None:
        agent = await manager.spawn(spec)
        return [event async for event in manager.stream(agent.id)][-1].exit_code

    async with asyncio.timeout(60):
        assert set(await asyncio.gather(*(one(managers[n % 3]) for n in range(40)))) == {0}
    counts = [int(line) for line in (tmp_path / "count").read_text().split()]
    assert (len(counts), max(counts) <= 4) == (40, True)
