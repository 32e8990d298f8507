"""`agentbox agents`: start agents, see who runs, read and answer them, end them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast, get_args

from agentbox import manifest as manifests
from agentbox.cli import _agents_output as output
from agentbox.cli import _agents_spec, _output
from agentbox.cli import _agents_view as view
from agentbox.cli._failure import complain, tell
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json, whole_number
from agentbox_contracts.errors import AgentboxError, NotFound
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentStatus, Orchestrator

__all__ = ["configure", "run"]

Action = Callable[[Orchestrator, argparse.Namespace], Awaitable[int]]

PAGE = 1000
PIECE = 262_144


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `agents` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _configure_spawn(actions)
    _configure_reads(actions)
    send = _action(actions, "send", _send, "write to an agent's standard input")
    send.add_argument("id", metavar="ID")
    send.add_argument("text", metavar="TEXT", nargs="?", help="a line; without it, what comes on standard input, as is")
    send.add_argument("--end", action="store_true", help="close the agent's standard input afterwards")
    kill = _action(actions, "kill", _kill, "end agents and everything they started")
    kill.add_argument("ids", metavar="ID", nargs="*")
    kill.add_argument("--all", action="store_true", help="every agent that is alive")
    kill.add_argument(
        "--grace", metavar="SECONDS", type=_agents_spec.seconds, default=10.0, help="before SIGKILL; default 10"
    )
    add_json(kill)


def run(arguments: argparse.Namespace) -> int:
    """Do one action on the orchestrator slot alone."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened_slot(manifests.load(arguments.manifest), "orchestrator") as adapter:
        act: Action = arguments.act
        return await act(cast("Orchestrator", adapter), arguments)


def _configure_spawn(actions: Any) -> None:
    spawn = _action(actions, "spawn", _spawn, "start an agent, which outlives this command")
    _agents_spec.configure(spawn)
    after = spawn.add_mutually_exclusive_group()
    after.add_argument("-f", "--follow", action="store_true", help="print its output and exit as it does")
    after.add_argument("--wait", action="store_true", help="wait for its end and exit as it does")
    add_json(spawn)


def _configure_reads(actions: Any) -> None:
    ps = _action(actions, "ps", _ps, "list agents, the newest first")
    ps.add_argument("-a", "--all", action="store_true", help="those that have ended too")
    ps.add_argument("--status", choices=get_args(AgentStatus), help="only these")
    ps.add_argument("--name", metavar="NAME", help="only those of this name")
    ps.add_argument("--bead", metavar="ID", help="only those that work on this bead")
    ps.add_argument("-w", "--watch", action="store_true", help="a live table, until Ctrl-C")
    ps.add_argument("--every", metavar="SECONDS", type=_agents_spec.pause, default=1.0, help="with --watch; default 1")
    add_json(ps)
    show = _action(actions, "show", _show, "one agent in full")
    show.add_argument("id", metavar="ID")
    add_json(show)
    logs = _action(actions, "logs", _logs, "print an agent's output: its stdout on stdout, its stderr on stderr")
    logs.add_argument("id", metavar="ID")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the agent has ended")
    logs.add_argument("-n", "--tail", metavar="N", type=whole_number(0, 10_000_000), help="only the last N lines")
    logs.add_argument("--json", action="store_true", help="print every event as a line of JSON, for machines")


def _action(actions: Any, name: str, act: Action, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(act=act)
    return parser


async def _spawn(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    agent = await orchestrator.spawn(_agents_spec.spec_of(arguments), key=arguments.key)
    if not (arguments.follow or arguments.wait):
        if arguments.json:
            _output.print_json(agent)
        else:
            _output.print_line(agent.id)
        return 0
    printer = output.Printer(as_json=arguments.json, flush_each=True, silent=arguments.wait and not arguments.json)
    try:
        last = await output.follow(orchestrator, agent.id, printer)
    except asyncio.CancelledError:
        complain(f"{agent.id} goes on; 'agentbox agents kill {agent.id}' ends it")
        raise
    return _passed_on(last)


def _passed_on(last: AgentEvent | None) -> int:
    assert last is not None  # from its beginning, every stream has an end
    if last.reason:
        complain(f"{last.agent_id}: {last.reason}")
    return view.exit_code(last)


async def _ps(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    if not arguments.watch:
        agents = await _chosen(orchestrator, arguments)
        if arguments.json:
            _output.print_json(agents)
        elif agents or not _output.is_terminal():
            view.print_agents(agents)
        else:
            ended = "" if arguments.all or arguments.status else "; --all shows those that have ended"
            _output.print_line(f"no agents{ended}", "dim")
        return 0
    seen: dict[str, Agent] = {}

    async def read() -> list[Agent]:
        await _look_again(orchestrator, arguments, seen)
        return sorted(seen.values(), key=lambda agent: agent.created_at, reverse=True)

    await view.watch(read, lambda: asyncio.sleep(arguments.every), as_json=arguments.json)
    return 0


async def _look_again(orchestrator: Orchestrator, arguments: argparse.Namespace, seen: dict[str, Agent]) -> None:
    """Bring *seen* up to date, all that were chosen since the watching began: who ends is seen to end."""
    now = {agent.id: agent for agent in await _chosen(orchestrator, arguments)}
    for agent in [agent for agent in seen.values() if agent.is_alive and agent.id not in now]:
        try:
            now[agent.id] = await orchestrator.status(agent.id)
        except NotFound:  # its start failed and was withdrawn, or it ended and somebody removed its folder
            del seen[agent.id]
    seen.update(now)


async def _chosen(orchestrator: Orchestrator, arguments: argparse.Namespace) -> list[Agent]:
    chosen = {"name": arguments.name, "bead_id": arguments.bead}
    if arguments.all or arguments.status:
        return await _listed(orchestrator, arguments.status, **chosen)
    alive = await _listed(orchestrator, "starting", **chosen) + await _listed(orchestrator, "running", **chosen)
    # One may have gone from starting to running in between; it is listed once, as it stands now.
    agents = list({agent.id: agent for agent in alive}.values())
    return sorted(agents, key=lambda agent: agent.created_at, reverse=True)


async def _listed(orchestrator: Orchestrator, status: AgentStatus | None, **chosen: str | None) -> list[Agent]:
    found: list[Agent] = []
    after: str | None = None
    while True:
        page = await orchestrator.list_agents(status=status, limit=PAGE, after=after, **chosen)
        found += page.items
        if page.next is None:
            return found
        after = page.next


async def _show(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    agent = await orchestrator.status(arguments.id)
    if arguments.json:
        _output.print_json(agent)
    else:
        view.print_agent(agent)
    return 0


async def _logs(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    printer = output.Printer(as_json=arguments.json, flush_each=arguments.follow)
    after = None
    if arguments.tail is not None or not arguments.follow:
        last = await output.print_so_far(orchestrator, arguments.id, printer, arguments.tail)
        after = last.cursor if last is not None else None
    if arguments.follow:
        await output.follow(orchestrator, arguments.id, printer, after)
    return 0


async def _send(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    if arguments.text is not None:
        await orchestrator.send(arguments.id, f"{arguments.text}\n".encode(errors="surrogateescape"), end=arguments.end)
        return 0
    if sys.stdin.isatty() and not arguments.end:
        complain("give TEXT, or what to send on standard input, or --end to close the agent's")
        return 2
    if not sys.stdin.isatty():
        await orchestrator.send(arguments.id)  # one that is not there, or takes no input, says so before anything comes
        while data := await _piece(sys.stdin.fileno()):
            await orchestrator.send(arguments.id, data)
    if arguments.end:
        await orchestrator.send(arguments.id, end=True)
    return 0


async def _piece(source: int) -> bytes:
    """What comes next from *source*, nothing at its end. Waited for without a thread, which Ctrl-C would not end."""
    ready, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        loop.add_reader(source, ready.set)
    except PermissionError:  # a file, which is always ready
        return os.read(source, PIECE)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)
    return os.read(source, PIECE)


async def _kill(orchestrator: Orchestrator, arguments: argparse.Namespace) -> int:
    if bool(arguments.ids) == arguments.all:
        complain("name the agents to end, or give --all; 'agentbox agents ps' lists those that are alive")
        return 2
    ids = list(dict.fromkeys(arguments.ids))
    if arguments.all:
        alive = await _listed(orchestrator, "starting") + await _listed(orchestrator, "running")
        ids = list(dict.fromkeys(agent.id for agent in alive))
    found = await asyncio.gather(*(_ended(orchestrator, agent_id, arguments) for agent_id in ids))
    if arguments.json:
        _output.print_json([agent for agent in found if agent is not None])
    elif arguments.all and not ids:
        _output.print_line("no agent is alive", "dim")
    return 0 if all(found) else 1


async def _ended(orchestrator: Orchestrator, agent_id: str, arguments: argparse.Namespace) -> Agent | None:
    """The agent when it is over, told as soon as it is; None when that failed, and that is told too."""
    try:
        before = await orchestrator.status(agent_id)
        agent = await orchestrator.terminate(agent_id, grace_seconds=arguments.grace)
    except AgentboxError as error:
        tell(error)
        return None
    if not arguments.json:
        _output.print_line(view.killed(before, agent))
    return agent
