"""`agentbox contract`: grade an adapter against its suite, prove the suite, or check service levels."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs

from agentbox import grading
from agentbox import manifest as manifests
from agentbox.cli import _contract_view as view
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._parser import add_json, whole_number
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.suites import SUITES

__all__ = ["configure", "run"]

UNIQUE = grading.UNIQUE


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `contract`."""
    parser.add_argument("slot", nargs="*", metavar="SLOT", help=f"{', '.join(SUITES)}; all of them without it")
    parser.add_argument(
        "--impl", metavar="NAME", help="this adapter with its default settings, instead of a manifest's"
    )
    parser.add_argument("--url", metavar="URL", help="a running host, whoever wrote it; its token from AGENTBOX_TOKEN")
    parser.add_argument("--prove", action="store_true", help="run known-bad adapters against the clauses instead")
    parser.add_argument("--slo", action="store_true", help="offer the load of the service levels instead")
    parser.add_argument("--seconds", type=whole_number(1, 3600), default=5, help="how long --slo offers each load")
    parser.add_argument(
        "--exemptions", metavar="FILE", type=Path, help="TOML: [[exemption]] clauses reason owner expires"
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="also write JUnit XML")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the reports. 1 when an adapter is not conformant, or a clause catches nothing."""
    slots = arguments.slot or list(SUITES)
    if problem := _misuse(arguments, slots):
        complain(problem)
        return 2
    if arguments.slo:
        return asyncio.run(_levels(arguments, slots))
    return asyncio.run(_proofs(arguments, slots) if arguments.prove else _grades(arguments, slots))


def _misuse(arguments: argparse.Namespace, slots: list[str]) -> str:
    unknown = [slot for slot in slots if slot not in SUITES]
    if unknown and arguments.impl != "off":
        return f"there is no suite for {', '.join(unknown)}; there are suites for {', '.join(SUITES)}"
    if sum(bool(given) for given in (arguments.impl, arguments.manifest, arguments.url)) > 1:
        return "give one of --impl, --manifest and --url"
    if arguments.impl and len(slots) != 1:
        return "--impl is one slot's adapter; name the slot"
    if arguments.prove and arguments.slo:
        return "give --prove or --slo, not both"
    return ""


async def _grades(arguments: argparse.Namespace, slots: list[str]) -> int:
    exemptions = _exemptions(arguments.exemptions)
    reports = []
    for slot in slots:
        with view.progress(slot, arguments.json) as told:
            text = _text(arguments, slot)
            reports.append(await grading.grade(slot, text, exemptions=exemptions, told=told, debug=arguments.debug))
        if not arguments.json:
            view.print_report(reports[-1])
    if arguments.json:
        _output.print_json([view.as_json(report) for report in reports])
    if arguments.junit is not None:
        arguments.junit.write_text(view.junit(reports), encoding="utf-8")
    return 1 if any(report.broken for report in reports) else 0


async def _proofs(arguments: argparse.Namespace, slots: list[str]) -> int:
    proofs = []
    for slot, text in _provable(arguments, slots):
        with view.progress(slot, arguments.json) as told:
            proofs.append(await grading.prove(slot, text, told=told, debug=arguments.debug))
        if not arguments.json:
            view.print_proof(proofs[-1])
    if arguments.json:
        _output.print_json([attrs.asdict(proof) | {"holds": proof.holds} for proof in proofs])
    return 0 if all(proof.holds for proof in proofs) else 1


def _provable(arguments: argparse.Namespace, slots: list[str]) -> Iterable[tuple[str, str]]:
    """Each slot with the manifest of its adapter; with all slots, one that is off is proven too."""
    yield from ((slot, _text(arguments, slot)) for slot in slots)
    if not arguments.slot:
        yield "events", '[adapters]\nevents = "off"\n'


async def _levels(arguments: argparse.Namespace, slots: list[str]) -> int:
    from agentbox.cli import bench

    found: dict[str, Any] = {}
    for slot in slots:
        text = _text(arguments, slot).replace(UNIQUE, uuid4().hex)
        with tempfile.TemporaryDirectory(prefix="agentbox-slo-", ignore_cleanup_errors=True) as folder:
            manifest = manifests.parse(text, environ={**os.environ, "AGENTBOX_STATE": folder})
            found[slot] = await bench.run_levels(manifest, slot, seconds=arguments.seconds, here=True)
    bench.show(found, json=arguments.json)
    return 0 if all(level.holds for levels in found.values() for level in levels) else 1


def _text(arguments: argparse.Namespace, slot: str) -> str:
    if arguments.impl is not None:
        return f'[adapters]\n{slot} = "{arguments.impl}"\n'
    if arguments.url is not None:
        return f'[adapters]\n{slot} = "external"\n[federation]\nmode = "client"\nexternal_url = "{arguments.url}"\n'
    path = manifests.discover(arguments.manifest)
    return path.read_text(encoding="utf-8") if path is not None else ""


def _exemptions(path: Path | None) -> tuple[Any, ...]:
    if path is None:
        return ()
    import msgspec
    import tomli

    from agentbox_contracts.suites.clauses import Exemption

    try:
        written = tomli.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(written.get("exemption", []), tuple[Exemption, ...])
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path}: exemptions cannot be read: {error}") from error
