"""Agents through the app against `asyncio.create_subprocess_exec`: starting them, and reading what they write."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from agentbox.app import open_app
from agentbox_contracts.orchestrator import Agent, AgentSpec, Orchestrator
from tests.bench._measure import Bench, Measured, paired, seconds_of

STARTS, ROUNDS = 5, 15
FLOOD_BYTES, FLOOD_ROUNDS = 200_000_000, 2
MANY, MANY_ROUNDS = 500, 7
TICKING, TICKS, TICK_SECONDS, PROMISED_SECONDS = 100, 80, 0.1, 0.020

MANIFEST = """
[state]
path = "."

[adapters]
beads = "off"
pods = "off"
memory = "off"
events = "off"
orchestrator = "local-process-manager"

[federation]
mode = "standalone"

[orchestrator.local-process-manager]
keeper_idle_seconds = 0
"""

FLOOD = """
import os
block = (b"x" * 99 + b"\\n") * 640
for _ in range({count} // len(block)):
    os.write(1, block)
"""
TICK = """
import time
for _ in range({count}):
    print(time.time_ns(), flush=True)
    time.sleep({seconds})
"""


@asynccontextmanager
async def orchestrator() -> AsyncIterator[Orchestrator]:
    """`app.adapters.orchestrator` of an app of its own; when it is over, its agents are gone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        manifest = Path(folder, "agentbox.toml")
        manifest.write_text(MANIFEST)
        async with open_app(manifest) as app:
            agents = app.adapters.orchestrator
            try:
                yield agents
            finally:
                alive = (await agents.list_agents(status="running", limit=1000)).items
                await asyncio.gather(*(agents.terminate(agent.id, grace_seconds=0) for agent in alive))


def _python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", program)


async def _first_event(*command: str) -> Measured:
    """From the call to the first line of output."""
    async with orchestrator() as agents:

        async def raw(_: int) -> None:
            process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
            assert process.stdout is not None
            assert await process.stdout.readline()
            ends.append(process.wait())

        async def ours(_: int) -> None:
            agent = await agents.spawn(AgentSpec(command=command[0], args=command[1:]))
            stream: Any = agents.stream(agent.id)
            async for event in stream:
                if event.type == "stdout":
                    break
            ends.append(_read_out(stream))

        async def timed(call: Any) -> float:
            seconds = 0.0
            for _ in range(STARTS):
                seconds += await seconds_of(call, 1)
                await ends.pop()  # how long it takes to end is not what is measured
            return seconds / STARTS

        ends: list[Any] = []
        return await paired(lambda: timed(raw), lambda: timed(ours), rounds=ROUNDS)


async def _read_out(stream: Any) -> int:
    """The rest of *stream*; the number of its bytes."""
    async with aclosing(stream):
        return sum([len(event.data) async for event in stream])


async def _flood() -> Measured:
    command = _python(FLOOD.format(count=FLOOD_BYTES))
    expected = FLOOD_BYTES // 64_000 * 64_000
    async with orchestrator() as agents:

        async def reference() -> float:
            started, size = perf_counter(), 0
            process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
            assert process.stdout is not None
            async for line in process.stdout:
                size += len(line)
            await process.wait()
            assert size == expected
            return perf_counter() - started

        async def subject() -> float:
            started, size = perf_counter(), 0
            agent = await agents.spawn(AgentSpec(command=command[0], args=command[1:]))
            async for event in agents.stream(agent.id):
                size += len(event.data)
            assert size == expected
            return perf_counter() - started

        return await paired(reference, subject, rounds=FLOOD_ROUNDS)


async def _many() -> Measured:
    """All of them are alive and followed; one operation is a line to each, and the same line back from each."""
    line = b"are you there?\n"
    async with orchestrator() as agents:
        before = _resident()
        started = [await agents.spawn(AgentSpec(command="cat", stdin="pipe")) for _ in range(MANY)]
        streams: list[Any] = [agents.stream(agent.id) for agent in started]
        assert {(await anext(stream)).type for stream in streams} == {"started"}
        cats = [await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE) for _ in range(MANY)]

        async def echoed(agent: Agent, stream: Any) -> None:
            await agents.send(agent.id, line)
            while (event := await anext(stream)).type == "heartbeat":
                continue
            assert event.data == line

        async def subject() -> float:
            began = perf_counter()
            await asyncio.gather(*map(echoed, started, streams))
            return (perf_counter() - began) / MANY

        async def reference() -> float:
            began = perf_counter()
            await asyncio.gather(*(_echoed_raw(cat, line) for cat in cats))
            return (perf_counter() - began) / MANY

        measured = await paired(reference, subject, rounds=MANY_ROUNDS)
        _tell_cost(_resident() - before)
        for stream in streams:
            await stream.aclose()
        for cat in cats:
            cat.kill()
            await cat.wait()
        return measured


async def _echoed_raw(cat: Process, line: bytes) -> None:
    assert cat.stdin is not None
    assert cat.stdout is not None
    cat.stdin.write(line)
    await cat.stdin.drain()
    assert await cat.stdout.readline() == line


def _tell_cost(grown: int) -> None:
    descriptors = len(os.listdir("/proc/self/fd")) - 2 * MANY  # two belong to each raw one
    print(f"{MANY} agents with open streams: this process has {descriptors} descriptors and grew by {grown:,} KiB")


def _resident() -> int:
    """KiB of memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def _delay() -> Measured:
    """From the writing of a line to its event: the p95 of all lines written after the last stream was open."""
    command = _python(TICK.format(count=TICKS, seconds=TICK_SECONDS))
    delays: list[tuple[int, float]] = []

    async def follow(agents: Orchestrator, agent: Agent) -> None:
        async for event in agents.stream(agent.id):
            if event.type == "stdout":
                delays.append((int(event.data), (time.time_ns() - int(event.data)) / 1e9))

    async with orchestrator() as agents, asyncio.TaskGroup() as following:
        for _ in range(TICKING):
            agent = await agents.spawn(AgentSpec(command=command[0], args=command[1:]))
            following.create_task(follow(agents, agent))
        ready = time.time_ns()
    counted = sorted(delay for written, delay in delays if written > ready)
    assert len(counted) > TICKING * TICKS / 4, "the agents had written most of it before all of them were there"
    p95 = counted[int(len(counted) * 0.95)]
    return Measured(reference=PROMISED_SECONDS, subject=p95, ratio=p95 / PROMISED_SECONDS)


BENCHES = (
    Bench(
        name="agent-echo",
        what="spawn /bin/echo to its line : raw asyncio",
        bound="at_most",
        bar=6,
        measure=lambda: asyncio.run(_first_event("/bin/echo", "hello")),
    ),
    Bench(
        name="agent-python",
        what="spawn python -c 'print()' to its line : raw asyncio",
        bound="at_most",
        bar=1.5,
        measure=lambda: asyncio.run(_first_event(sys.executable, "-c", "print()")),
    ),
    Bench(
        name="agent-flood",
        what="stream of 200 MB in lines of 100 bytes : async for line in process.stdout",
        bound="at_least",
        bar=0.3,
        measure=lambda: asyncio.run(_flood()),
    ),
    Bench(
        name="agent-500",
        what="a line to each of 500 agents and back by 500 open streams : pipes of raw asyncio",
        bound="at_most",
        bar=25,
        measure=lambda: asyncio.run(_many()),
    ),
    Bench(
        name="agent-delay",
        what="p95 from write to event, 100 agents with 10 lines a second : 20 ms",
        bound="at_most",
        bar=1,
        measure=lambda: asyncio.run(_delay()),
    ),
)
