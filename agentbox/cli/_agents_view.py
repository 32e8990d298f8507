"""How agents look on the command line: a table, one in full, and a table that lives."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import attrs
import msgspec

from agentbox.cli import _output
from agentbox.cli._output import instant, one_line
from agentbox_contracts.orchestrator import Agent, AgentEvent

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["command_line", "exit_code", "how_it_ended", "killed", "live_table", "print_agent", "print_agents", "watch"]

Read = Callable[[], Awaitable[list[Agent]]]
Wait = Callable[[], Awaitable[None]]

STYLES = {"running": "green", "starting": "yellow", "lost": "bold red", "exited": "dim", "failed": "red"}
MARKS = {"running": "●", "starting": "◌", "exited": "○", "failed": "✗", "lost": "?"}
HEADINGS = ("ID", "STATUS", "PID", "EXIT", "STARTED", "ENDED", "NAME", "BEAD", "COMMAND")
WIDE = 80
FRAME_LINES = 4
"""What the live table needs beside its rows: the counts, the headings, how many are not shown, and the cursor."""


def command_line(agent: Agent) -> str:
    """What was started, as one would type it, on one line."""
    return one_line(shlex.join((agent.command, *agent.args)))


def standing(agent: Agent) -> str:
    """In one word where the agent stands: `failed` when it ended by itself and not well."""
    return "failed" if agent.status == "exited" and (agent.exit_code or agent.limit) else agent.status


def exit_code(event: AgentEvent) -> int:
    """The exit code of a command that stands for the agent, as shells have it; 1 when nobody knows."""
    if event.signal is not None:
        name, _, more = event.signal.partition("+")  # SIGRTMIN+3 and its like have no name of their own
        number = getattr(signal, name, None)
        return 128 + int(number) + int(more or 0) if number is not None else 1
    return 1 if event.exit_code is None else event.exit_code


def how_it_ended(agent: Agent) -> str:
    """A few words: `exited with 3`, `ended by SIGTERM`."""
    if agent.status == "lost":
        return f"lost: {one_line(agent.reason)}"
    if agent.signal is not None:
        return f"ended by {agent.signal}"
    return f"exited with {agent.exit_code}"


def killed(before: Agent, agent: Agent) -> str:
    """What `kill` did to the agent that was *before* and is now *agent*."""
    shown = f"{agent.id}{f' ({one_line(agent.name)})' if agent.name else ''}"
    if not before.is_alive and before.ended_at is not None:
        return f"{shown} had ended before: {how_it_ended(agent)}"
    ran = duration(agent.ended_at - agent.started_at) if agent.ended_at and agent.started_at else "no time"
    return f"{shown} {how_it_ended(agent)} after {ran}: {command_line(agent)}"


def print_agents(agents: Sequence[Agent]) -> None:
    """A line for each agent: cut to the width of a terminal, with everything in a pipe."""
    if _output.is_terminal():
        _output.console().print(live_table(agents, now=datetime.now(UTC)), soft_wrap=False)
    else:
        _output.print_table(HEADINGS, [_row(agent) for agent in agents])


def print_agent(agent: Agent) -> None:
    """Every field that says something, a line each."""
    for field in attrs.fields(Agent):
        value: Any = getattr(agent, field.name)
        if value in (None, "", ()) or field.name == "args":
            continue
        if field.name == "command":
            value = command_line(agent)
        elif isinstance(value, datetime):
            value = instant(value)
        _output.print_field(field.name, one_line(str(value)))


def _row(agent: Agent) -> list[str]:
    return [
        agent.id,
        agent.status,
        str(agent.pid) if agent.pid and agent.is_alive else "",
        _exit(agent),
        instant(agent.started_at),
        instant(agent.ended_at),
        agent.name or "",
        agent.bead_id or "",
        command_line(agent),
    ]


def _exit(agent: Agent) -> str:
    return agent.signal or ("" if agent.exit_code is None else str(agent.exit_code))


def live_table(agents: Sequence[Agent], *, now: datetime, rows: int | None = None) -> Table:
    """
    *agents* for a terminal that has room for *rows* lines, or any number: those that live first, each with its age.

    A line too long is cut, never wrapped, so that the table stands still while it is redrawn.
    """
    from rich.table import Table

    alive = [agent for agent in agents if agent.is_alive]
    ended = [agent for agent in agents if not agent.is_alive]
    ended.sort(key=lambda agent: agent.ended_at or agent.created_at, reverse=True)
    shown = (alive + ended)[: None if rows is None else max(rows - FRAME_LINES, 1)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    table.title, table.title_justify, table.title_style = _counts(agents), "left", ""
    longest_name = 24 if _output.console().width >= WIDE else 8  # ids and pids are whole in any terminal
    for heading in ("", "ID", "NAME", "STATUS", "PID", "TIME"):
        justify: Literal["left", "right"] = "right" if heading in ("PID", "TIME") else "left"
        table.add_column(heading, no_wrap=True, justify=justify, max_width=longest_name if heading == "NAME" else None)
    table.add_column("COMMAND", no_wrap=True, overflow="ellipsis", ratio=1)
    for agent in shown:
        table.add_row(*_live_row(agent, now))
    if len(shown) < len(agents):
        table.caption, table.caption_justify = f"and {len(agents) - len(shown)} more", "left"
    return table


def _counts(agents: Sequence[Agent]) -> Text:
    from rich.text import Text

    found = [standing(agent) for agent in agents]
    words = [
        Text.assemble((f"{MARKS[state]} ", STYLES[state]), f"{found.count(state)} {state}")
        for state in MARKS
        if found.count(state)
    ]
    return Text("   ").join(words) if words else Text("no agents", style="dim")


def _live_row(agent: Agent, now: datetime) -> list[Text]:
    from rich.text import Text

    state = standing(agent)
    style = STYLES[state]
    rest = "" if agent.is_alive else "dim"
    told = agent.status if agent.is_alive else agent.limit or _exit(agent) or agent.status
    if state == "exited" and agent.exit_code == 0:
        told = "exited"
    elif agent.exit_code and not agent.limit:
        told = f"exit {agent.exit_code}"
    begun = agent.started_at or agent.created_at
    return [
        Text(MARKS[state], style=style),
        Text(one_line(agent.id), style=rest or "bold"),
        Text(one_line(agent.name or agent.bead_id or ""), style=rest),
        Text(one_line(told), style=style),
        Text(str(agent.pid) if agent.pid and agent.is_alive else "", style="dim"),
        Text(duration((agent.ended_at or now) - begun), style=rest),
        Text(command_line(agent), style=rest),
    ]


def duration(span: timedelta) -> str:
    """A span in its two greatest units: `4.2s`, `3m07s`, `2h05m`, `5d03h`."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 60:
        return f"{minutes}m{int(seconds % 60):02}s"
    return f"{hours}h{minutes % 60:02}m" if hours < 24 else f"{hours // 24}d{hours % 24:02}h"


async def watch(read: Read, wait: Wait, *, as_json: bool) -> None:
    """
    Show what *read* gives, again after each *wait*, for ever: in a terminal in place, else whenever it changed.

    As JSON, each time is one line.
    """
    if as_json or not _output.is_terminal():
        await _watch_plainly(read, wait, as_json=as_json)
        return
    from rich.live import Live

    screen = _output.console()
    with Live(console=screen, auto_refresh=False, screen=True) as live:
        while True:
            agents = await read()
            live.update(live_table(agents, now=datetime.now(UTC), rows=screen.size.height), refresh=True)
            await wait()


async def _watch_plainly(read: Read, wait: Wait, *, as_json: bool) -> None:
    before: list[Agent] | None = None
    while True:
        agents = await read()
        if agents != before:
            if as_json:
                sys.stdout.write(msgspec.json.encode(agents).decode() + "\n")
            else:
                sys.stdout.write("\n" if before is not None else "")
                print_agents(agents)
            sys.stdout.flush()
        before = agents
        await wait()
