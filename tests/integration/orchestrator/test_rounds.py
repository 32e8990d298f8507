"""Rounds of sudden death: whoever started hostile agents is killed, and every one of them is accounted for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters.orchestrator import _proc
from agentbox.app import open_app
from agentbox_contracts.orchestrator import Agent, AgentEvent, Orchestrator
from tests.integration.orchestrator import hostile

Pids = Callable[[], list[int]]

ROUNDS = 20
SOAK_ROUNDS = 300
PATIENCE = 60

MANIFEST = """
[state]
path = "."

[adapters]
beads = "off"
pods = "off"
memory = "off"
events = "off"

[federation]
mode = "standalone"

[orchestrator.local-process-manager]
keeper_idle_seconds = 0.3
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "agentbox.toml"
    path.write_text(MANIFEST)
    return path


@asynccontextmanager
async def opened(manifest: Path) -> AsyncIterator[Orchestrator]:
    async with open_app(manifest) as app:
        yield app.adapters.orchestrator


class Victim:
    """What forks one embedding process after another."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def of(cls, manifest: Path) -> AsyncIterator[Victim]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, hostile.__file__, str(manifest), stdin=PIPE, stdout=PIPE
        )
        try:
            yield cls(process)
        finally:
            process.kill()
            await process.wait()

    async def spawned(self, label: str, chance: random.Random) -> list[str]:
        """The ids that an embedding process was answered before it was killed, at a random moment."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{label}\n".encode())
        pid = int((await self._line())[1])
        wanted, answered = chance.randint(0, hostile.AGENTS), list[str]()
        while len(answered) < wanted:
            answered.append((await self._line())[1])
        await asyncio.sleep(chance.uniform(0, 0.02) if wanted < hostile.AGENTS else 0)
        os.kill(pid, signal.SIGKILL)
        while (words := await self._line())[0] != "gone":
            answered.append(words[1])
        return answered

    async def _line(self) -> list[str]:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().split()


async def rounds(manifest: Path, folder: Path, keeper_pids: Pids, first: int, count: int) -> None:
    """Rounds *first* and on; at the end, whatever was only recorded is lost, and says so, or was started after all."""
    unsettled: list[str] = []
    async with Victim.of(manifest) as victim:
        for number in range(first, first + count):
            chance = random.Random(number)
            answered = await victim.spawned(f"r{number}", chance)
            harmed = _harm(number, chance, folder, keeper_pids)
            async with opened(manifest) as agents:
                found = await _accounted(agents, f"r{number}", answered, harmed)
                await _end(agents, folder, [agent.id for agent in found if agent.pid])
            unsettled += [agent.id for agent in found if not agent.pid]
    async with opened(manifest) as agents, asyncio.timeout(PATIENCE):
        await _end(agents, folder, unsettled)


async def _end(agents: Orchestrator, folder: Path, ids: list[str]) -> None:
    """End them, and see in /proc that nothing of them is left, and that how each ended is known or why not."""
    before = hostile.family(folder, ids)
    ended = await asyncio.gather(*(agents.terminate(agent_id, grace_seconds=0.05) for agent_id in ids))
    assert [pid for pid, ticks in before.items() if _proc.is_alive(pid, ticks)] == []
    assert hostile.family(folder, ids) == {}
    for agent in ended:
        known = agent.exit_code is not None or agent.signal is not None or bool(agent.reason)
        assert (agent.status, known) in (("exited", True), ("lost", True))


def _harm(number: int, chance: random.Random, folder: Path, keeper_pids: Pids) -> set[str]:
    """In two rounds of three somebody else is killed too: the keeper, or some supervisors, whose agents these are."""
    if number % 3 == 1:
        for pid in keeper_pids():
            _kill(pid)
    if number % 3 != 2:
        return set()
    homes = sorted(path.parent for path in folder.glob("ag-*/control.sock"))
    chosen = chance.sample(homes, min(3, len(homes)))
    return {home.name for home in chosen if _kill_supervisor(home)}


def _kill_supervisor(home: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        started = json.loads((home / "started.json").read_text())
        if _proc.is_alive(started["supervisor_pid"], started["supervisor_ticks"]):
            _kill(started["supervisor_pid"])
            return True
    return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def _accounted(agents: Orchestrator, label: str, answered: list[str], harmed: set[str]) -> list[Agent]:
    """The agents of a round, after a look at each: it is adopted, over with all it said, or lost with the reason."""
    found = [
        agent for agent in (await agents.list_agents(limit=100)).items if (agent.name or "").startswith(f"{label}-")
    ]
    assert set(answered) <= {agent.id for agent in found}
    assert all(agent.pid for agent in found if agent.id in answered)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(_look(agents, agent, agent.id in harmed) for agent in found if agent.pid))
    return found


async def _look(agents: Orchestrator, agent: Agent, is_harmed: bool) -> None:
    kind = hostile.kind_of(agent.name)
    if is_harmed:
        return
    if kind.exit is not None:
        events = [event async for event in agents.stream(agent.id)]
        how = events[-1].signal or events[-1].exit_code
        assert (agent.name, how, _output(events) == kind.output) == (agent.name, kind.exit, True)
        return
    stream: Any = agents.stream(agent.id)
    async with aclosing(stream):
        assert await _next_output(stream) == b"up\n"
        if kind.stdin:
            await agents.send(agent.id, b"adopted\n")
            assert await _next_output(stream) == b"adopted\n"


async def _next_output(stream: Any) -> bytes:
    async for event in stream:
        if event.type in ("stdout", "exited"):
            return bytes(event.data)
    return b""


def _output(events: list[AgentEvent]) -> bytes:
    return b"".join(event.data for event in events if event.type == "stdout")


async def test_every_agent_is_accounted_for_when_its_host_is_killed(
    manifest: Path, folder: Path, keeper_pids: Pids
) -> None:
    await rounds(manifest, folder, keeper_pids, 0, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, SOAK_ROUNDS, ROUNDS))
async def test_every_agent_is_accounted_for_in_three_hundred_rounds(
    manifest: Path, folder: Path, keeper_pids: Pids, first: int
) -> None:
    await rounds(manifest, folder, keeper_pids, first, ROUNDS)
