"""`agentbox status`: what stands behind each slot, and how it is."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from agentbox import __version__
from agentbox import manifest as manifests
from agentbox.app import HealthReport, health_of, opened_slots, require_orchestrator
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._opening import passing
from agentbox.cli._parser import add_json
from agentbox.manifest import Manifest
from agentbox.resolver import Slot
from agentbox_contracts.errors import OrchestratorRequired

__all__ = ["configure", "run"]

COLUMNS = ("slot", "impl", "state", "contract", "durability", "location", "reason")
NARROW = 5
"""So many columns fit anywhere; the others go below where they do not."""

STYLES = {"healthy": "green", "degraded": "bold red", "off": "dim"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `status`."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the state of each slot. 1 when one is degraded, or the app would not open."""
    return asyncio.run(_status(arguments))


async def _status(arguments: argparse.Namespace) -> int:
    manifest = passing(manifests.load(arguments.manifest))
    # Not the app: it would not open without its orchestrator, and just then one wants to see every slot.
    async with opened_slots(manifest) as found:
        report = await health_of(found.values())
        obstacle = _obstacle(found)
        slots = _slots(found, report)
    state = "degraded" if obstacle else report.state
    if arguments.json:
        path = str(manifest.path) if manifest.path else None
        head = {"agentbox": __version__, "state": state, "manifest": path, "folder": str(manifest.state)}
        _output.print_json(head | {"slots": slots})
    else:
        _print(manifest, state, slots)
    if obstacle:
        complain(obstacle)
    return 0 if state == "healthy" else 1


def _obstacle(slots: Mapping[str, Slot]) -> str:
    """Why the app would not open, if it would not."""
    try:
        require_orchestrator(slots)
    except OrchestratorRequired as error:
        return error.message
    return ""


def _slots(slots: Mapping[str, Slot], report: HealthReport) -> list[dict[str, Any]]:
    found = []
    for probe in report.slots:
        slot = slots[probe.slot]
        found.append(
            {
                "slot": probe.slot,
                "impl": slot.choice.impl,
                "state": probe.state,
                "reason": probe.reason,
                "contract": slot.adapter.contract_version,
                "durability": slot.adapter.durability,
                "location": slot.adapter.location,
            }
        )
    return found


def _print(manifest: Manifest, state: str, slots: list[dict[str, Any]]) -> None:
    _output.print_line(f"agentbox {__version__} is {state}", STYLES[state])
    _output.print_line(f"manifest: {manifest.path or 'none, the standalone defaults apply'}")
    _output.print_line(f"state: {manifest.state}")
    _output.print_line("")
    heads = [column.upper() for column in COLUMNS]
    rows = [[str(slot[column] or "") for column in COLUMNS] for slot in slots]
    if _output.is_wider_than_the_terminal([heads, *rows]):
        below = [[text for text in row[NARROW:] if text] for row in rows]
        _output.print_table(heads[:NARROW], [row[:NARROW] for row in rows], STYLES, below=below)
    else:
        _output.print_table(heads, rows, STYLES)
