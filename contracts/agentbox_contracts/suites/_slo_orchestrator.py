"""The load on the orchestrator: agents that end at once, and one that writes down when it wrote."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import attrs

from agentbox_contracts.errors import AdapterFailed, AgentboxError
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec, Orchestrator
from agentbox_contracts.suites._slo_load import PATIENCE_SECONDS, Answer, Offer, count_of, described, offered

__all__ = ["load"]

CLOCK_SECONDS = 0.001
"""Clocks that differ by more cannot tell a delay of 20 ms."""

# Each line is a number and the moment of its writing in nanoseconds.
SPEAKER = """
import os, sys, time
count, gap, start = int(sys.argv[1]), float(sys.argv[2]), time.monotonic()
for number in range(count):
    time.sleep(max(0.0, start + number * gap - time.monotonic()))
    os.write(1, b"%d %d\\n" % (number, time.time_ns()))
"""

# The agent's machine need not be this one: our own interpreter if it is there, else whatever python3 it has.
ANY_PYTHON = 'python=$1; shift; [ -x "$python" ] || python=python3; exec "$python" "$@"'


@asynccontextmanager
async def load(adapter: Orchestrator) -> AsyncIterator[Mapping[str, Offer]]:
    """Nothing to prepare. Afterwards every agent of the load has ended; their records stay."""
    agents = _Agents(adapter)
    try:
        yield {
            "orchestrator.spawn": functools.partial(offered, agents.spawn_quick),
            "orchestrator.stream": agents.listen,
        }
    finally:
        await agents.end()


class _Agents:
    """The agents that a load has started."""

    def __init__(self, adapter: Orchestrator) -> None:
        self._adapter = adapter
        self._ids: list[str] = []

    async def spawn_quick(self, number: int) -> None:
        """One agent that ends at once."""
        await self._spawn(AgentSpec(command="true", name=f"bench-{number}"))

    async def listen(self, per_second: float, seconds: float) -> list[Answer]:
        """Follow an agent that writes *per_second* lines; each answer is a line, from its writing to its arrival."""
        heard = _Heard(count_of(per_second, seconds), 1 / per_second)
        try:
            async with asyncio.timeout(seconds + PATIENCE_SECONDS):
                agent = await self._spawn(_speaker(heard))
                # A dispatched stream is an async generator, which the port's type does not promise.
                stream: Any = self._adapter.stream(agent.id)
                async with aclosing(stream):
                    async for event in stream:
                        heard.take(event)
        except TimeoutError:
            heard.error = f"its line did not arrive within {PATIENCE_SECONDS:g} s"
        except Exception as error:
            heard.error = described(error)
        return heard.answers()

    async def end(self) -> None:
        """End them all; most have."""
        for agent_id in self._ids:
            with suppress(AgentboxError):
                await self._adapter.terminate(agent_id, grace_seconds=0)

    async def _spawn(self, spec: AgentSpec) -> Agent:
        key: dict[str, Any] = {"key": uuid.uuid4().hex} if "keys" in self._adapter.capabilities else {}
        agent = await self._adapter.spawn(spec, **key)
        self._ids.append(agent.id)
        return agent


@attrs.define
class _Heard:
    """The lines of one speaker, as far as they have arrived."""

    count: int
    gap: float
    lines: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    error: str = "its line did not arrive"
    began: float = attrs.field(factory=time.time)

    def take(self, event: AgentEvent) -> None:
        """Note the line of *event*, if it has one."""
        if event.type != "stdout":
            return
        arrived = time.time()
        number, written = (int(part) for part in event.data.split())
        self.lines.setdefault(number, (written / 1e9, arrived - written / 1e9))

    def answers(self) -> list[Answer]:
        """One for each line. One that is missing has taken as long as it was waited for."""
        took = min((took for _, took in self.lines.values()), default=0.0)
        if took < -CLOCK_SECONDS:
            raise AdapterFailed(
                f"a line arrived {-took:.3f} s before it was written: the agents' machine has another clock, so that "
                "delays cannot be told",
                slot="orchestrator",
                method="stream",
            )
        ended = time.time() - self.began
        missing = {n: Answer(n * self.gap, max(0.0, ended - n * self.gap), self.error) for n in range(self.count)}
        first = min((written for written, _ in self.lines.values()), default=0.0)
        arrived = {n: Answer(written - first, max(0.0, took)) for n, (written, took) in self.lines.items()}
        return list((missing | arrived).values())


def _speaker(heard: _Heard) -> AgentSpec:
    words = (sys.executable, "-c", SPEAKER, str(heard.count), repr(heard.gap))
    return AgentSpec(command="sh", args=("-c", ANY_PYTHON, "sh", *words), name="bench-speaker")
