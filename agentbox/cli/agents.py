"""`agentbox agents`: who runs, and what they said."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, BinaryIO, cast

from agentbox import manifest as manifests
from agentbox.cli import _output
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentStatus, Orchestrator

__all__ = ["configure", "run"]

STYLES = {"running": "green", "starting": "yellow", "lost": "bold red", "exited": "dim"}
PAGE = 1000

IDLE_SECONDS = 0.5
"""After so long without an event, everything that was there has been told."""

LIVE_BYTES = 262_144
"""Who gets less than this in a second of waiting reads as fast as the agent writes, and not what was there before."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `agents` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    ps = actions.add_parser("ps", help="list agents", description="List agents, the newest first.")
    ps.add_argument("--all", action="store_true", help="those that have ended too")
    add_json(ps)
    ps.set_defaults(act=_ps)
    text = "The output of an agent as it wrote it: its stdout on stdout, its stderr on stderr."
    logs = actions.add_parser("logs", help="print an agent's output", description=text)
    logs.add_argument("id", metavar="ID")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the agent has ended")
    logs.set_defaults(act=_logs)


def run(arguments: argparse.Namespace) -> int:
    """Do one action on the orchestrator slot alone."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened_slot(manifests.load(arguments.manifest), "orchestrator") as adapter:
        await arguments.act(cast("Orchestrator", adapter), arguments)
    return 0


async def _ps(orchestrator: Orchestrator, arguments: argparse.Namespace) -> None:
    if arguments.all:
        agents = await _listed(orchestrator, None)
    else:
        alive = await _listed(orchestrator, "starting") + await _listed(orchestrator, "running")
        # One may have gone from starting to running in between; it is listed once, as it stands now.
        agents = list({agent.id: agent for agent in alive}.values())
        agents.sort(key=lambda agent: agent.created_at, reverse=True)
    if arguments.json:
        _output.print_json(agents)
        return
    headings = ["ID", "STATUS", "PID", "EXIT", "STARTED", "ENDED", "NAME", "BEAD", "COMMAND"]
    _output.print_table(headings, [_row(agent) for agent in agents], STYLES)


async def _listed(orchestrator: Orchestrator, status: AgentStatus | None) -> list[Agent]:
    found: list[Agent] = []
    after: str | None = None
    while True:
        page = await orchestrator.list_agents(status=status, limit=PAGE, after=after)
        found += page.items
        if page.next is None:
            return found
        after = page.next


def _row(agent: Agent) -> list[str]:
    exit_code = "" if agent.exit_code is None else str(agent.exit_code)
    return [
        agent.id,
        agent.status,
        str(agent.pid) if agent.pid and agent.is_alive else "",
        agent.signal or exit_code,
        _output.instant(agent.started_at),
        _output.instant(agent.ended_at),
        agent.name or "",
        agent.bead_id or "",
        shlex.join((agent.command, *agent.args)),
    ]


async def _logs(orchestrator: Orchestrator, arguments: argparse.Namespace) -> None:
    # A dispatched stream is an async generator, which the port's type does not promise.
    stream: Any = orchestrator.stream(arguments.id)
    async with aclosing(stream):
        events = stream if arguments.follow else _so_far(stream)
        await _copy(events, flush_each=arguments.follow)


async def _so_far(stream: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
    """The events that are there, without waiting for those of an agent that still runs."""
    now = asyncio.get_running_loop().time
    waited, size = 0.0, 0
    while True:
        began = now()
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                event = await anext(stream)
        except (TimeoutError, StopAsyncIteration):
            return
        if event.type == "heartbeat":
            return
        waited, size = waited + now() - began, size + len(event.data)
        yield event
        if waited > 1.0:
            if size < LIVE_BYTES:
                return
            waited, size = 0.0, 0


async def _copy(events: AsyncIterator[AgentEvent], *, flush_each: bool) -> None:
    last: BinaryIO = sys.stdout.buffer
    async for event in events:
        if event.type not in ("stdout", "stderr"):
            continue
        out = sys.stdout.buffer if event.type == "stdout" else sys.stderr.buffer
        if out is not last:
            last.flush()  # what was written first is seen first where both lead to one terminal
            last = out
        out.write(event.data)
        if flush_each:
            out.flush()
    last.flush()
