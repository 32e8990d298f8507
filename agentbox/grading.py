"""Grade an adapter against the suite of its slot, and prove the suite on known-bad adapters."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import time
from asyncio import subprocess
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import attrs

from agentbox import manifest as manifests
from agentbox._grading_report import ClauseResult, Pair, Proof, Report, report_of
from agentbox_contracts.errors import AdapterUnavailable, BootError

__all__ = ["UNIQUE", "ClauseResult", "Pair", "Proof", "Report", "grade", "prove"]

Told = Callable[[dict[str, Any]], None]

UNIQUE = "{unique}"
"""What a manifest writes where each clause must have a place of its own."""

NEEDED = ("pytest", "pytest_asyncio", "hypothesis")
VERDICTS = "verdicts.jsonl"
LOOK_SECONDS = 0.1
IGNORED = frozenset({"PYTEST_ADDOPTS", "CI", "BUILD_NUMBER"})
"""With the last two pytest compares whatever differs in full, line by line; a verdict needs a line."""


async def grade(
    slot: str, text: str, *, exemptions: tuple[Any, ...] = (), told: Told = lambda _: None, debug: bool = False
) -> Report:
    """
    Run the suite of *slot* against the adapter that the manifest *text* chooses. `{unique}` in it differs each time.

    *told* hears of each verdict as it falls.

    Raises:
        BootError: The suite's own needs are not installed.
        ManifestError: *text* breaks a rule.
        AdapterUnavailable: The adapter cannot be opened at all, so there is nothing to grade.
    """
    _check_installed()
    from agentbox._grading_cases import Plan
    from agentbox_contracts.suites import suite_of
    from agentbox_contracts.suites.clauses import clauses_of

    impl = _impl(slot, text)
    await _check_opens(slot, impl, text)
    plan = Plan(slot=slot, off=impl == "off", text=text, unique=UNIQUE, exemptions=exemptions)
    began = time.monotonic()
    lines = await _run(plan, told, debug)
    clauses = clauses_of(suite_of(slot, off=plan.off))
    return report_of(slot, impl, clauses, lines, seconds=round(time.monotonic() - began, 1))


async def prove(
    slot: str, text: str, *, names: Collection[str] | None = None, told: Told = lambda _: None, debug: bool = False
) -> Proof:
    """
    Run every known-bad adapter of *slot*, on top of the adapter that *text* chooses, against its clause.

    With *names*, only those.
    """
    _check_installed()
    from agentbox._grading_cases import Plan, pairs
    from agentbox_contracts.suites import suite_of
    from agentbox_contracts.suites.clauses import clauses_of

    impl = _impl(slot, text)
    plan = Plan(slot=slot, off=impl == "off", text=text, unique=UNIQUE, kind="prove")
    every, idle = pairs(slot, off=plan.off)
    found = {name: clause for name, clause in every.items() if names is None or name in names}
    began = time.monotonic()
    hands = min(os.cpu_count() or 1, len(found)) or 1
    shares = [attrs.evolve(plan, spoiled=tuple(found)[first::hands]) for first in range(hands)]
    lines = [line for share in await asyncio.gather(*(_run(share, told, debug) for share in shares)) for line in share]
    return Proof(
        slot=slot,
        impl=impl,
        clauses=tuple(clauses_of(suite_of(slot, off=plan.off))),
        pairs=tuple(_pair(name, clause, lines) for name, clause in found.items()),
        idle=idle,
        seconds=round(time.monotonic() - began, 1),
    )


def _pair(name: str, clause: str, lines: list[dict[str, Any]]) -> Pair:
    from agentbox_contracts.suites.bad import known_bads

    own = [line for line in lines if line.get("known_bad") == name]
    verdict, reason = _judged({line["kind"]: line["reason"] for line in reversed(own)})
    return Pair(
        known_bad=name,
        fault=known_bads()[name].fault,
        clause=clause,
        verdict=verdict,
        seconds=round(sum(line["seconds"] for line in own), 3),
        reason=reason,
    )


def _judged(reasons: dict[str, str]) -> tuple[Literal["caught", "missed", "left out"], str]:
    """The verdict on a known-bad adapter, from the kinds of verdicts on its clause and a reason for each."""
    if "failed" in reasons:
        return "caught", reasons["failed"]
    if "error" in reasons:
        return "missed", f"not by an assertion: {reasons['error']}"
    if "undeclared" in reasons:
        return "left out", reasons["undeclared"]
    return "missed", "every assertion held" if reasons else "the run ended before it"


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BootError(f"the suite needs {', '.join(missing)}: pip install 'agentbox[suite]'")


async def _check_opens(slot: str, impl: str, text: str) -> None:
    """Say once what would otherwise be said under every clause."""
    from agentbox._testing_open import open_slot

    with tempfile.TemporaryDirectory(prefix="agentbox-contract-", ignore_cleanup_errors=True) as folder:
        try:
            async with open_slot(text.replace(UNIQUE, uuid4().hex), slot, folder=Path(folder)):
                return
        except AdapterUnavailable as error:
            raise AdapterUnavailable(
                f"{slot} {impl} could not be opened, so nothing was graded: {error.message}"
            ) from error


def _impl(slot: str, text: str) -> str:
    return manifests.parse(text).adapters[slot].impl


async def _run(plan: Any, told: Told, debug: bool) -> list[dict[str, Any]]:
    """The verdicts of one run of pytest in a process and a folder of its own."""
    from agentbox._grading_cases import write

    with tempfile.TemporaryDirectory(prefix="agentbox-contract-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        test = write(plan, folder)
        verdicts = folder / VERDICTS
        verdicts.touch()
        async with _pytest(folder, test, debug) as process:
            lines: list[dict[str, Any]] = []
            with verdicts.open() as file:
                while process.returncode is None:
                    lines += _news(file.readlines(), told)
                    await _moment(process)
                lines += _news(file.readlines(), told)
            return lines


def _news(texts: list[str], told: Told) -> list[dict[str, Any]]:
    lines = [json.loads(text) for text in texts]
    for line in lines:
        told(line)
    return lines


async def _moment(process: subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), LOOK_SECONDS)
    except TimeoutError:
        return


@asynccontextmanager
async def _pytest(folder: Path, test: Path, debug: bool) -> AsyncIterator[subprocess.Process]:
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(folder / "pytest.ini"), "--rootdir", str(folder)]
    command += [
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(folder / "run"),
        "--agentbox-verdicts",
        str(folder / VERDICTS),
    ]
    output = None if debug else subprocess.DEVNULL
    env = {name: value for name, value in os.environ.items() if name not in IGNORED}
    process = await asyncio.create_subprocess_exec(
        *command, str(test), cwd=folder, env=env, stdout=output, stderr=output
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
