"""Agents that the orchestrator's clauses start: cheap, marked, and gone when the clause is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec, Orchestrator
from agentbox_contracts.suites.opening import Process

__all__ = [
    "Agents",
    "WithAgents",
    "dies_in",
    "difference",
    "events_of",
    "eventually",
    "has_ended",
    "is_alive",
    "output",
    "pids_of",
    "started",
]

MARK = "AGENTBOX_SUITE_MARK"
LIFETIME = "60"
SHOWN = 20
PATIENCE = 30.0


class Agents:
    """Specs whose processes carry this clause's mark, by name and by environment, and a look at who carries it."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def spec(self, command: str, *args: str, env: Mapping[str, str] | None = None, **fields: Any) -> AgentSpec:
        """An agent that runs *command*."""
        marked = {**(env or {}), MARK: self.mark}
        return AgentSpec(command=command, args=args, env=marked, **{"name": self.mark, **fields})

    def shell(self, text: str, *args: str, **fields: Any) -> AgentSpec:
        """An agent that runs the shell script *text*."""
        return self.spec("/bin/sh", "-c", text, "sh", *args, **fields)

    def python(self, text: str, **fields: Any) -> AgentSpec:
        """An agent that runs Python *text*."""
        return self.spec(sys.executable, "-S", "-c", text, **fields)

    def sleep(self, **fields: Any) -> AgentSpec:
        """An agent that stays, as a single process."""
        return self.spec("sleep", LIFETIME, **fields)

    def cat(self) -> AgentSpec:
        """An agent that says what it is sent."""
        return self.spec("cat", stdin="pipe")

    def running(self) -> set[int]:
        """The live processes that carry the mark."""
        wanted = f"{MARK}={self.mark}".encode()
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.add(int(entry.name))
        return found

    async def listed(self, adapter: Any) -> list[Agent]:
        """The agents that carry the mark, as `list_agents` tells of them, the newest first."""
        found: list[Agent] = []
        after = None
        while True:
            page = await adapter.list_agents(limit=1000, after=after)
            found += [agent for agent in page.items if agent.name == self.mark]
            after = page.next
            if after is None:
                return found

    def end(self) -> None:
        """Kill whatever carries the mark."""
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class WithAgents:
    """The fixture of the clauses that start agents."""

    @pytest.fixture
    def agents(self) -> Iterator[Agents]:
        """Specs with a mark of this clause's own. Whatever carries it when the clause is over is killed."""
        agents = Agents(f"clause-{uuid.uuid4().hex}")
        yield agents
        agents.end()


async def events_of(adapter: Orchestrator, agent_id: str, *, after: str | None = None) -> list[AgentEvent]:
    """Everything the agent did, to its end, heartbeats left out."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in adapter.stream(agent_id, after=after) if event.type != "heartbeat"]


async def started(adapter: Orchestrator, spec: AgentSpec) -> Agent:
    """A new agent, once it is known to have started."""
    agent = await adapter.spawn(spec)
    async with asyncio.timeout(PATIENCE):
        while agent.status == "starting":
            await asyncio.sleep(0.01)
            agent = await adapter.status(agent.id)
    return agent


async def dies_in(process: Process, call: Awaitable[Any]) -> None:
    """Wait until *process* has died in *call*."""
    with contextlib.suppress(ConnectionError):
        await call
    await process.ended()


async def pids_of(adapter: Orchestrator, agent_id: str, count: int) -> list[int]:
    """The first *count* numbers that the agent prints, each on a line."""
    pids: list[int] = []
    stream: Any = adapter.stream(agent_id)
    async with asyncio.timeout(PATIENCE), aclosing(stream) as events:
        async for event in events:
            if event.type == "stdout":
                pids.append(int(event.data))
            if len(pids) == count:
                break
    return pids


def difference(found: bytes, wanted: bytes) -> str:
    """Where long outputs part, nothing when they are equal. A report that compared them line by line takes minutes."""
    if found == wanted:
        return ""
    pairs = enumerate(zip(found, wanted, strict=False))
    place = next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(found), len(wanted)))
    seen = f"{found[place : place + SHOWN]!r} instead of {wanted[place : place + SHOWN]!r}"
    return f"{seen} at byte {place:,}; {len(found):,} bytes instead of {len(wanted):,}"


def output(events: list[AgentEvent], channel: str = "stdout") -> bytes:
    """What the agent wrote to *channel*."""
    return b"".join(event.data for event in events if event.type == channel)


async def eventually(condition: Callable[[], Awaitable[bool]], *, seconds: float = 2.0) -> bool:
    """Whether *condition* comes true within *seconds*."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def has_ended(adapter: Orchestrator, agent_id: str, *, seconds: float = 2.0) -> bool:
    """Whether the agent ends within *seconds*."""

    async def ended() -> bool:
        return not (await adapter.status(agent_id)).is_alive

    return await eventually(ended, seconds=seconds)


def is_alive(pid: int) -> bool:
    """Whether a process runs, zombies not counted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
