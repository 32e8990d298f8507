"""`agentbox beads`: work, by hand and from scripts."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast, get_args

from agentbox import manifest as manifests
from agentbox.cli import _beads_view as view
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json, whole_number
from agentbox_contracts.beads import Bead, Beads, Outcome

__all__ = ["configure", "run"]

Action = Callable[[Beads, argparse.Namespace], Awaitable[int]]


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `beads` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _configure_writes(actions)
    _configure_reads(actions)


def run(arguments: argparse.Namespace) -> int:
    """Do one action on the beads slot alone."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened_slot(manifests.load(arguments.manifest), "beads") as adapter:
        act: Action = arguments.act
        return await act(cast("Beads", adapter), arguments)


def _configure_writes(actions: Any) -> None:
    create = _action(actions, "create", _create, "record an epic, or with --parent a piece of work under one")
    create.add_argument("title", metavar="TITLE")
    create.add_argument("--parent", metavar="ID", help="the bead it belongs to")
    create.add_argument("--priority", metavar="N", type=whole_number(0, 9), default=1, help="0 (most urgent) to 9")
    create.add_argument("--tag", metavar="T", action="append", default=[], help="may be given several times")
    create.add_argument("--description", metavar="D", default="")
    _add_actor(create)
    claim = _action(actions, "claim", _claim, "take a bead, or with --next the first one that is ready")
    which = claim.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", metavar="ID")
    which.add_argument("--next", action="store_true", help="find and claim in one step")
    claim.add_argument("--parent", metavar="ID", help="with --next: only children of this bead")
    claim.add_argument("--lease", metavar="SECONDS", type=float, help="the claim expires then unless renewed")
    _add_actor(claim)
    close = _action(actions, "close", _close, "end the work with an outcome")
    close.add_argument("id", metavar="ID")
    close.add_argument("--outcome", choices=get_args(Outcome), default="done")
    close.add_argument("--reason", metavar="R", default="")
    close.add_argument("--fence", metavar="N", type=int, help="the fence of the claim, needed under a lease")
    _add_actor(close)
    dep = _action(actions, "dep", _dep, "let a bead wait for another")
    dep.add_argument("id", metavar="ID")
    dep.add_argument("--on", metavar="BLOCKER", required=True, help="the bead that has to be done first")
    load = _action(actions, "import", _import, "take in the beads of a JSONL file")
    load.add_argument("file", metavar="FILE", type=Path)


def _configure_reads(actions: Any) -> None:
    ready = _action(actions, "ready", _ready, "what can be claimed now, the most urgent first")
    ready.add_argument("--parent", metavar="ID", help="only children of this bead")
    ready.add_argument("--limit", metavar="N", type=whole_number(1, 1000), default=100)
    show = _action(actions, "show", _show, "one bead in full")
    show.add_argument("id", metavar="ID")
    tree = _action(actions, "tree", _tree, "a bead and all below it; without ID, every one that is not closed")
    tree.add_argument("id", nargs="?", metavar="ID")
    save = _action(actions, "export", _export, "write all beads to a JSONL file")
    save.add_argument("file", metavar="FILE", type=Path)


def _action(actions: Any, name: str, act: Action, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(act=act)
    add_json(parser)
    return parser


def _add_actor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--actor", metavar="A", default=os.environ.get("USER") or "cli", help="who; default $USER")


async def _create(beads: Beads, arguments: argparse.Namespace) -> int:
    details: dict[str, Any] = {
        "title": arguments.title,
        "description": arguments.description,
        "priority": arguments.priority,
        "tags": tuple(arguments.tag),
        "actor": arguments.actor,
    }
    if arguments.parent is not None:
        bead = await beads.create_child(parent_id=arguments.parent, **details)
    else:
        bead = await beads.create_epic(**details)
    return _tell(arguments, bead, f"created {bead.id}: {bead.title}")


async def _claim(beads: Beads, arguments: argparse.Namespace) -> int:
    actor, lease = arguments.actor, arguments.lease
    if not arguments.next:
        if arguments.parent is not None:
            complain("--parent goes with --next; leave out one of ID and --parent")
            return 2
        bead = await beads.claim(arguments.id, actor=actor, lease_seconds=lease)
        return _tell(arguments, bead, view.claimed(bead))
    found = await beads.claim_ready(actor=actor, parent_id=arguments.parent, lease_seconds=lease)
    if found is not None:
        return _tell(arguments, found, view.claimed(found))
    if arguments.json:
        _output.print_json(None)
    complain("nothing is ready to be claimed; 'agentbox beads tree' shows what is open and who holds it")
    return 1


async def _close(beads: Beads, arguments: argparse.Namespace) -> int:
    bead = await beads.close(
        arguments.id,
        outcome=arguments.outcome,
        reason=arguments.reason,
        actor=arguments.actor,
        fence=arguments.fence,
    )
    return _tell(arguments, bead, f"closed {bead.id} as {bead.outcome}: {bead.title}")


async def _dep(beads: Beads, arguments: argparse.Namespace) -> int:
    bead = await beads.add_dependency(arguments.id, blocker_id=arguments.on)
    return _tell(arguments, bead, f"{bead.id} waits for {', '.join(bead.depends_on)}")


async def _ready(beads: Beads, arguments: argparse.Namespace) -> int:
    found = await beads.get_ready(parent_id=arguments.parent, limit=arguments.limit)
    if arguments.json:
        _output.print_json(found)
    elif found or not _output.is_terminal():
        view.print_list(found)
    else:
        _output.print_line("nothing is ready", "dim")
    return 0


async def _show(beads: Beads, arguments: argparse.Namespace) -> int:
    bead = await beads.show(arguments.id)
    if arguments.json:
        _output.print_json(bead)
    else:
        view.print_bead(bead)
    return 0


async def _tree(beads: Beads, arguments: argparse.Namespace) -> int:
    ids = [arguments.id] if arguments.id is not None else await view.open_roots(beads)
    trees = [await view.branch(beads, await beads.show(bead_id)) for bead_id in ids]
    if arguments.json:
        plain = [view.plain(tree) for tree in trees]
        _output.print_json(plain[0] if arguments.id is not None else plain)
    else:
        view.print_trees(trees)
    return 0


async def _export(beads: Beads, arguments: argparse.Namespace) -> int:
    return await _sync(beads, arguments, "export")


async def _import(beads: Beads, arguments: argparse.Namespace) -> int:
    return await _sync(beads, arguments, "import")


async def _sync(beads: Beads, arguments: argparse.Namespace, direction: Any) -> int:
    report = await beads.sync(str(arguments.file.absolute()), direction=direction)
    if arguments.json:
        _output.print_json(report)
    elif direction == "export":
        _output.print_line(f"exported {report.exported} to {arguments.file}")
    else:
        counts = (f"{name} {getattr(report, name)}" for name in ("created", "updated", "deleted", "unchanged"))
        _output.print_line(", ".join(counts))
    for conflict in report.conflicts:
        complain(f"{conflict.id} was left alone: {conflict.reason}")
    return 1 if report.conflicts else 0


def _tell(arguments: argparse.Namespace, bead: Bead, sentence: str) -> int:
    if arguments.json:
        _output.print_json(bead)
    else:
        _output.print_line(sentence)
    return 0
