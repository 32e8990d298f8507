"""How beads look on the command line."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from agentbox.cli import _output
from agentbox.cli._output import instant, one_line
from agentbox_contracts.beads import Bead, Beads

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

__all__ = ["Branch", "branch", "claimed", "open_roots", "plain", "print_bead", "print_list", "print_trees"]

MARKS = {
    "open": ("○", ""),
    "blocked": ("◌", "dim"),
    "claimed": ("◐", "yellow"),
    "done": ("●", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", "dim"),
    "needs_human": ("?", "magenta"),
}
"""The mark and style of a bead in a terminal, by its standing."""

PAGE = 1000


@attrs.frozen
class Branch:
    """A bead and what is below it."""

    bead: Bead
    children: tuple[Branch, ...]


def standing(bead: Bead) -> str:
    """In one word where the bead stands: the outcome when it is closed, `blocked` when it waits."""
    if bead.status == "closed":
        return bead.outcome or "closed"
    return "blocked" if bead.status == "open" and bead.is_blocked else bead.status


def claimed(bead: Bead) -> str:
    """What a claimer wants to know."""
    until = f" until {instant(bead.lease_expires_at)}" if bead.lease_expires_at else ""
    return f"claimed {bead.id} for {bead.holder}{until}, fence {bead.fence}: {bead.title}"


def print_list(beads: list[Bead]) -> None:
    """A line for each bead."""
    rows = [[bead.id, str(bead.priority), bead.kind, ",".join(bead.tags), bead.title] for bead in beads]
    _output.print_table(["ID", "PRIORITY", "KIND", "TAGS", "TITLE"], rows)


def print_bead(bead: Bead) -> None:
    """Every field that says something, a line each."""
    for field in attrs.fields(Bead):
        value = getattr(bead, field.name)
        if value in (None, "", (), {}):
            continue
        if field.name.endswith("_at"):
            value = instant(value)
        elif isinstance(value, tuple):
            value = ", ".join(value)
        elif isinstance(value, dict):
            value = json.dumps(value, ensure_ascii=False, sort_keys=True)
        _output.print_field(field.name, one_line(str(value)))


async def branch(beads: Beads, bead: Bead) -> Branch:
    """*bead* with all that is below it, read a page at a time."""
    children: list[Branch] = []
    after: str | None = None
    while True:
        page = await beads.children(bead.id, limit=PAGE, after=after)
        children += [await branch(beads, child) for child in page.items]
        if page.next is None:
            return Branch(bead, tuple(children))
        after = page.next


async def open_roots(beads: Beads) -> list[str]:
    """The ids of beads that are not closed and belong to no other. The port lists them only by exporting."""
    with tempfile.TemporaryDirectory(prefix="agentbox-") as folder:
        file = Path(folder) / "beads.jsonl"
        await beads.sync(str(file), direction="export")
        text = await asyncio.to_thread(file.read_text, encoding="utf-8")
    status = {record["id"]: record["status"] for record in map(json.loads, text.splitlines())}
    return [
        bead_id
        for bead_id, state in status.items()
        if state not in ("closed", "tombstone") and bead_id.rpartition(".")[0] not in status
    ]


def plain(tree: Branch) -> dict[str, Any]:
    """*tree* as JSON has it: the bead with its `children`."""
    found: dict[str, Any] = msgspec.to_builtins(tree.bead)
    return found | {"children": [plain(child) for child in tree.children]}


def print_trees(trees: list[Branch]) -> None:
    """Each tree with marks in a terminal, else as an indented list with words."""
    for tree in trees:
        if _output.is_terminal():
            _output.console().print(_rich_tree(tree))
        else:
            _print_plain(tree, 0)


def _print_plain(tree: Branch, depth: int) -> None:
    bead = tree.bead
    sys.stdout.write(f"{'  ' * depth}{bead.id} [{standing(bead)}] {one_line(bead.title)}{_held(bead)}\n")
    for child in tree.children:
        _print_plain(child, depth + 1)


def _rich_tree(tree: Branch, parent: Tree | None = None) -> Tree:
    from rich.tree import Tree

    label = _label(tree.bead)
    node = Tree(label, guide_style="dim") if parent is None else parent.add(label)
    for child in tree.children:
        _rich_tree(child, node)
    return node


def _label(bead: Bead) -> Text:
    from rich.text import Text

    mark, style = MARKS.get(standing(bead), ("·", ""))
    return Text.assemble(
        (f"{mark} ", style), (bead.id, "bold"), (f" {one_line(bead.title)}", style), (_held(bead), "yellow")
    )


def _held(bead: Bead) -> str:
    return f" (held by {one_line(bead.holder)})" if bead.status == "claimed" and bead.holder else ""
