"""`agentbox bench`: the load of the service levels, offered to what the manifest names."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs

from agentbox import manifest as manifests
from agentbox import resolver
from agentbox.cli import _output
from agentbox.cli._bench_view import show
from agentbox.cli._failure import complain
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json
from agentbox.manifest import Manifest
from agentbox_contracts.errors import PermissionDenied
from agentbox_contracts.suites.slo import LEVELS, LOADS, LONGEST_SECONDS, Level, Measured, measure

__all__ = ["configure", "run", "run_levels", "show"]

DESCRIPTION = """
Offer each slot the load of its service levels, one level after the other, and
show how its adapter holds. The load does not wait for answers, and each call
counts from the moment it was due. Exit code 0 when every level holds, else 1.

Your own state is not touched: adapters get a temporary state folder on the same
disk, and one that keeps its state elsewhere (a service, an absolute path) is
refused. With --here the load goes to what the manifest names, as it is. It
closes the beads and ends the agents that it made; their records stay. While it
lasts, whoever works on the same store sees its beads, which have the tag
agentbox-bench and the least urgent priority.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `bench`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION.strip()
    slots = f"one of {', '.join(LOADS)}; without it, each of them that is not off"
    parser.add_argument("slots", nargs="*", type=_slot, metavar="SLOT", help=slots)
    parser.add_argument("--impl", metavar="NAME", help="this adapter of the one SLOT instead of the manifest's")
    parser.add_argument("--seconds", type=_seconds, default=5.0, metavar="N", help="how long for each level; else 5")
    parser.add_argument("--here", action="store_true", help="on the state and the services that the manifest names")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print. 1 when a level does not hold."""
    if arguments.impl is not None and len(arguments.slots) != 1:
        complain("--impl is the adapter of one slot; name that slot and no other")
        return 2
    chosen = {"adapters": {arguments.slots[0]: arguments.impl}} if arguments.impl is not None else {}
    manifest = manifests.load(arguments.manifest, overrides=chosen)
    slots = list(dict.fromkeys(arguments.slots)) or [slot for slot in LOADS if manifest.adapters[slot].impl != "off"]
    if not slots:
        complain(f"every slot that has a load is off in the manifest; switch on one of {', '.join(LOADS)}")
        return 1
    found = asyncio.run(_measured(arguments, manifest, slots))
    show(found, json=arguments.json)
    return 0 if all(level.holds for levels in found.values() for level in levels) else 1


async def run_levels(
    manifest: Manifest,
    slot: str,
    *,
    seconds: float,
    here: bool = False,
    before: Callable[[Level], None] | None = None,
) -> list[Measured]:
    """
    Measure each level of *slot* for *seconds* on a temporary state folder or, with *here*, on what *manifest* names.

    *before* is told each level when its turn comes.

    Raises:
        InvalidInput: The slot has no load yet.
        AdapterDisabled: The manifest switches it off.
        AdapterUnavailable: It does not connect.
        PermissionDenied: The adapter keeps its state elsewhere than in the state folder, and *here* does not allow it.
    """
    if here:
        async with opened_slot(manifest, slot) as adapter:
            return await measure(adapter, slot, seconds=seconds, before=before)
    with _folder_near(manifest.state) as folder:
        moved = attrs.evolve(manifest, state=folder)
        async with opened_slot(moved, slot, check=partial(_check_inside, folder)) as adapter:
            return await measure(adapter, slot, seconds=seconds, before=before)


async def _measured(
    arguments: argparse.Namespace, manifest: Manifest, slots: Sequence[str]
) -> dict[str, list[Measured]]:
    with _progress(arguments) as before:
        return {
            slot: await run_levels(manifest, slot, seconds=arguments.seconds, here=arguments.here, before=before)
            for slot in slots
        }


@contextlib.contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[Level], None] | None]:
    """What is being measured, while it is, for who watches."""
    if arguments.json or not _output.is_terminal():
        yield None
        return
    # Seldom, because what draws the line takes time from what is measured.
    with _output.console().status("getting ready", refresh_per_second=4) as status:
        yield lambda level: status.update(f"{level.id}: {arguments.seconds:g} s of load")


@contextlib.contextmanager
def _folder_near(state: Path) -> Iterator[Path]:
    """A temporary folder on the disk of *state*, where that can be written: another disk would have other figures."""
    near = next(folder for folder in (state, *state.parents) if folder.is_dir())
    parent = near if os.access(near, os.W_OK) else None
    # An agents' keeper may still be about to leave while its folder goes.
    with tempfile.TemporaryDirectory(prefix=".agentbox-bench-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def _check_inside(folder: Path, slot: resolver.Slot) -> None:
    location = slot.adapter.location
    if location is None or not Path(location).is_relative_to(folder):
        where = f"at {location}" if location else "where it cannot be seen from here"
        raise PermissionDenied(
            f"{slot.name}: {slot.choice.impl} keeps its state {where}, and the load would write there; "
            "'agentbox bench --here' allows that",
            slot=slot.name,
        )


def _slot(text: str) -> str:
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"there is no slot called {text!r}; known: {', '.join(LEVELS)}")
    if text not in LOADS:
        raise argparse.ArgumentTypeError(f"the load of {text} is not written yet; there is one for {', '.join(LOADS)}")
    return text


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) <= LONGEST_SECONDS:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {LONGEST_SECONDS:g}")
