"""An agent's output on the command line: as it was written, from the start or only its end, so far or followed."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, BinaryIO

from agentbox_contracts.orchestrator import AgentEvent, Orchestrator

__all__ = ["Printer", "follow", "print_so_far"]

IDLE_SECONDS = 0.5
"""After so long without an event, everything that was there has been told; where the way is long, after longer."""

LIVE_BYTES = 262_144
"""Who gets less than this in a second of waiting reads as fast as the agent writes, and not what was there before."""


class Printer:
    """Puts events where they belong: stdout on stdout, stderr on stderr; or each as a line of JSON; or nowhere."""

    def __init__(self, *, as_json: bool = False, flush_each: bool = False, silent: bool = False) -> None:
        self._as_json = as_json
        self._flush_each = flush_each
        self._silent = silent
        self._last: BinaryIO = sys.stdout.buffer

    def print(self, event: AgentEvent) -> None:
        """Print *event*, if there is anything to it."""
        if self._as_json:
            self._write(sys.stdout.buffer, _json_line(event))
        elif event.type in ("stdout", "stderr") and not self._silent:
            self._write(sys.stdout.buffer if event.type == "stdout" else sys.stderr.buffer, event.data)

    def flush(self) -> None:
        """Let everything be seen."""
        self._last.flush()

    def _write(self, out: BinaryIO, data: bytes) -> None:
        if out is not self._last:
            self._last.flush()  # what was written first is seen first where both lead to one terminal
            self._last = out
        out.write(data)
        if self._flush_each:
            out.flush()


async def follow(
    orchestrator: Orchestrator, agent_id: str, printer: Printer, after: str | None = None
) -> AgentEvent | None:
    """Print everything behind *after* until the agent has ended; the answer is the last event, if there was one."""
    last: AgentEvent | None = None
    async with aclosing(_stream(orchestrator, agent_id, after)) as stream:
        async for last in stream:
            printer.print(last)
    printer.flush()
    return last


async def print_so_far(
    orchestrator: Orchestrator, agent_id: str, printer: Printer, tail: int | None = None
) -> AgentEvent | None:
    """
    Print what is there, or the last *tail* lines of it, without waiting for an agent that still runs.

    The answer is the last event that was there.
    """
    kept: deque[list[AgentEvent]] = deque(maxlen=tail)
    event = None
    is_alive = (await orchestrator.status(agent_id)).is_alive
    async with aclosing(_stream(orchestrator, agent_id)) as stream:
        async for event in _so_far(stream) if is_alive else stream:
            if tail is None:
                printer.print(event)
            elif event.type in ("stdout", "stderr"):
                _keep(kept, event)
    for line in kept:
        for piece in line:
            printer.print(piece)
    printer.flush()
    return event


def _stream(orchestrator: Orchestrator, agent_id: str, after: str | None = None) -> Any:
    # A dispatched stream is an async generator, which the port's type does not promise.
    return orchestrator.stream(agent_id, after=after)


def _keep(kept: deque[list[AgentEvent]], event: AgentEvent) -> None:
    """Add *event* to the line that it goes on with, or begin another."""
    if kept and kept[-1][-1].type == event.type and not kept[-1][-1].data.endswith(b"\n"):
        kept[-1].append(event)
    else:
        kept.append([event])


async def _so_far(stream: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
    """The events that are there, without waiting for those of an agent that still runs."""
    now = asyncio.get_running_loop().time
    waited, size = 0.0, 0
    patience: float | None = None  # the first event, that it started, is there: how long it takes is the way's
    while True:
        began = now()
        try:
            async with asyncio.timeout(patience):
                event = await anext(stream)
        except (TimeoutError, StopAsyncIteration):
            return
        if event.type == "heartbeat":
            return
        if patience is None:
            patience = max(IDLE_SECONDS, 2 * (now() - began))
            began = now()
        waited, size = waited + now() - began, size + len(event.data)
        yield event
        if waited > 1.0:
            if size < LIVE_BYTES:
                return
            waited, size = 0.0, 0


def _json_line(event: AgentEvent) -> bytes:
    from agentbox_contracts import wire

    return wire.encode(event) + b"\n"
