"""Spawning with a key: one agent, whoever asks and however often."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest

from agentbox.adapters.orchestrator import _request
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.errors import Conflict, SpawnError
from agentbox_contracts.orchestrator import AgentSpec

Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]


def counting(path: Path) -> AgentSpec:
    return AgentSpec(command="/bin/sh", args=("-c", f"echo $$ >> {path}; exec sleep 600"))


async def test_the_same_key_is_the_same_agent(manager: LocalProcessManager, tmp_path: Path) -> None:
    spec = counting(tmp_path / "starts")
    first = await manager.spawn(spec, key="k")
    again = await manager.spawn(attrs.evolve(spec, env={}), key="k")
    ended = await manager.terminate(first.id)
    later = await manager.spawn(spec, key="k")
    other = await manager.spawn(spec, key="other")
    assert (again.id, later) == (first.id, ended)
    assert other.id != first.id
    await manager.terminate(other.id)
    assert len((await manager.list_agents()).items) == 2


@pytest.mark.parametrize("change", [{"args": ("2",)}, {"env": {"NEW": "1"}}, {"stdin": "pipe"}, {"name": "n"}])
async def test_the_same_key_for_another_spec_is_a_conflict(
    manager: LocalProcessManager, change: dict[str, object]
) -> None:
    spec = AgentSpec(command="sleep", args=("0",))
    agent = await manager.spawn(spec, key="k")
    with pytest.raises(Conflict, match=agent.id):
        await manager.spawn(attrs.evolve(spec, **change), key="k")  # type: ignore[arg-type]
    assert len((await manager.list_agents()).items) == 1


async def test_many_at_once_start_one(open_manager: Opener, tmp_path: Path) -> None:
    managers = [await open_manager() for _ in range(4)]
    spec = counting(tmp_path / "starts")
    agents = await asyncio.gather(*(managers[n % 4].spawn(spec, key="k") for n in range(20)))
    assert len({agent.id for agent in agents}) == 1
    assert {agent.status for agent in agents} == {"running"}
    await managers[0].terminate(agents[0].id, grace_seconds=0)
    assert len((tmp_path / "starts").read_text().splitlines()) == 1


async def test_two_processes_at_once_start_one(
    manager: LocalProcessManager, run_script: Script, tmp_path: Path
) -> None:
    body = f"""
async def main():
    manager = await opened()
    print("ready", flush=True)
    sys.stdin.readline()
    spec = AgentSpec(command="/bin/sh", args=("-c", "echo $$ >> {tmp_path}/starts; exec sleep 600"))
    for n in range(10):
        print((await manager.spawn(spec, key=f"k{{n}}")).id, flush=True)
    await manager.disconnect()

asyncio.run(main())
"""
    processes = [run_script(body), run_script(body)]
    for process in processes:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    answers = await asyncio.gather(*(asyncio.to_thread(process.communicate, "go\n", 30) for process in processes))
    ids = [answer[0].split() for answer in answers]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 10
    await asyncio.gather(*(manager.terminate(agent_id, grace_seconds=0) for agent_id in ids[0]))
    assert len((tmp_path / "starts").read_text().splitlines()) == 10


async def test_a_start_that_failed_does_not_use_up_its_key(manager: LocalProcessManager, tmp_path: Path) -> None:
    spec = AgentSpec(command=f"{tmp_path}/tool")
    for _ in range(2):
        with pytest.raises(SpawnError):
            await manager.spawn(spec, key="k")
    (tmp_path / "tool").symlink_to("/bin/true")
    assert (await manager.spawn(spec, key="k")).pid


async def test_failing_together_fails_for_each(open_manager: Opener) -> None:
    managers = [await open_manager() for _ in range(3)]
    spec = AgentSpec(command="no-such-command")
    async with asyncio.timeout(30):
        results = await asyncio.gather(
            *(managers[n % 3].spawn(spec, key="k") for n in range(12)), return_exceptions=True
        )
    assert {type(result) for result in results} == {SpawnError}
    assert (await managers[0].list_agents()).items == []


async def test_what_a_crash_left_unstarted_is_started_by_the_same_key(
    manager: LocalProcessManager, tmp_path: Path
) -> None:
    spec = counting(tmp_path / "starts")
    assert manager._link is not None
    record = manager._link.keys.create(_request.draft(spec), spec, "k")
    assert (await manager.status(record.id)).status == "starting"
    agent = await manager.spawn(spec, key="k")
    assert (agent.id, agent.status) == (record.id, "running")
    await manager.terminate(agent.id, grace_seconds=0)


async def test_what_a_crash_left_unstarted_is_ended_at_once_and_for_good(
    manager: LocalProcessManager, tmp_path: Path
) -> None:
    spec = counting(tmp_path / "starts")
    assert manager._link is not None
    record = manager._link.keys.create(_request.draft(spec), spec, "k")
    async with asyncio.timeout(15):  # an agent may be starting for 30 s
        ended = await manager.terminate(record.id)
    assert (ended.status, ended.ended_at is not None) == ("lost", True)
    assert "never started" in ended.reason
    assert await manager.spawn(spec, key="k") == ended
    assert not (tmp_path / "starts").exists()


async def test_what_was_never_started_is_lost(manager: LocalProcessManager, folder: Path) -> None:
    assert manager._link is not None
    draft = _request.draft(AgentSpec(command="true"))
    record = manager._link.records.create(attrs.evolve(draft, created_at=time.time() - 60))
    agent = await manager.status(record.id)
    assert (agent.status, agent.pid) == ("lost", None)
    assert "never started" in agent.reason
    async with asyncio.timeout(30):
        assert [event.type async for event in manager.stream(record.id)] == ["exited"]
        assert (await manager.terminate(record.id)).status == "lost"


async def test_keys_are_forgotten_after_a_day(manager: LocalProcessManager, folder: Path) -> None:
    first = await manager.spawn(AgentSpec(command="true"), key="old")
    await manager.spawn(AgentSpec(command="true"), key="older")
    (old, older) = sorted((folder / "keys").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    entry = json.loads(old.read_text())
    old.write_text(json.dumps({**entry, "at": entry["at"] - 25 * 3600}))
    os.utime(older, (0, 0))
    assert manager._link is not None
    manager._link.keys._swept = 0.0
    second = await manager.spawn(AgentSpec(command="false"), key="old")
    assert second.id != first.id
    assert [path.name for path in (folder / "keys").iterdir()] == [old.name]


async def test_a_caller_that_leaves_early_leaves_nothing_behind(manager: LocalProcessManager, folder: Path) -> None:
    spec = AgentSpec(command="sleep", args=("600",))
    for _ in range(5):
        spawning = asyncio.ensure_future(manager.spawn(spec))
        for _ in range(3):
            await asyncio.sleep(0)
        spawning.cancel()
        await asyncio.wait([spawning])
        assert spawning.cancelled()
    assert list(folder.glob("ag-*")) == []
