"""`agentbox status`: what stands behind each slot, and how it is."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from agentbox import __version__
from agentbox.app import App, HealthReport
from agentbox.cli import _output
from agentbox.cli._opening import opened_app
from agentbox.cli._parser import add_json

__all__ = ["configure", "run"]

COLUMNS = ("slot", "impl", "state", "contract", "durability", "location", "reason")
STYLES = {"healthy": "green", "degraded": "bold red", "off": "dim"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `status`."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the state of each slot. 1 when one is degraded."""
    return asyncio.run(_status(arguments))


async def _status(arguments: argparse.Namespace) -> int:
    async with opened_app(arguments) as app:
        report = await app.health()
        slots = _slots(app, report)
    if arguments.json:
        manifest = str(app.manifest.path) if app.manifest.path else None
        head = {"agentbox": __version__, "state": report.state, "manifest": manifest, "folder": str(app.manifest.state)}
        _output.print_json(head | {"slots": slots})
    else:
        _print(app, report, slots)
    return 0 if report.state == "healthy" else 1


def _slots(app: App, report: HealthReport) -> list[dict[str, Any]]:
    found = []
    for probe in report.slots:
        slot = app.slots[probe.slot]
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


def _print(app: App, report: HealthReport, slots: list[dict[str, Any]]) -> None:
    _output.print_line(f"agentbox {__version__} is {report.state}", STYLES[report.state])
    _output.print_line(f"manifest: {app.manifest.path or 'none, the standalone defaults apply'}")
    _output.print_line(f"state: {app.manifest.state}")
    _output.print_line("")
    rows = [[str(slot[column] or "") for column in COLUMNS] for slot in slots]
    _output.print_table([column.upper() for column in COLUMNS], rows, STYLES)
