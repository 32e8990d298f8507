"""The verdicts of a run, clause by clause: passed, failed, exempt, or not declared by the adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from agentbox_contracts.suites.clauses import Clause, Exemption, clause_of

__all__ = ["KEY", "UNDECLARED", "Verdict", "Verdicts", "leave_out"]

Kind = Literal["passed", "failed", "error", "exempt", "undeclared"]

EXEMPT = "exempt: "
UNDECLARED = "not declared: "
TOLD = 500
ASSERTIONS = (AssertionError, pytest.fail.Exception)


@attrs.frozen(kw_only=True)
class Verdict:
    """
    What one test of a clause showed.

    `failed` is an assertion of the clause; `error` is anything else that went wrong, in the clause or around it.
    """

    suite: str
    slot: str
    known_bad: str | None
    clause: str
    promise: str
    case: str
    kind: Kind
    seconds: float
    reason: str = ""


class Verdicts:
    """All verdicts of one run of pytest, kept in a file when there is one."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._left_out: dict[str, None] = {}
        self._seen: set[type] = set()

    def saw(self, suite: type, adapter: Any) -> None:
        """Note what the adapter of *suite* says of itself, once."""
        if suite not in self._seen:
            self._seen.add(suite)
            self._write(
                {
                    "adapter": adapter.impl,
                    "slot": adapter.slot,
                    "contract_version": adapter.contract_version,
                    "capabilities": sorted(adapter.capabilities),
                    "durability": adapter.durability,
                }
            )

    def heard(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> bool:
        """Note what *report* says of a clause. Whether it is a skip that has been accounted for."""
        clause = clause_of(getattr(item, "function", None))
        if clause is None or (report.when != "call" and report.passed):
            return False
        kind, reason = _judged(report, call)
        if kind in ("exempt", "undeclared"):
            self._left_out[f"{clause.id} not run: {reason}"] = None
        self._write(attrs.asdict(_verdict(item, clause, report, kind, reason)))
        return kind in ("exempt", "undeclared")

    def left_out(self) -> Iterator[str]:
        """A line for each clause that was not run."""
        yield from self._left_out

    def _write(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")


KEY = pytest.StashKey[Verdicts]()


def leave_out(exemption: Exemption) -> None:
    """Skip for *exemption*, or fail because it is over."""
    if exemption.expires < datetime.now(UTC).date():
        pytest.fail(f"the exemption has expired: {exemption}", pytrace=False)
    pytest.skip(f"{EXEMPT}{exemption}")


def _verdict(item: pytest.Item, clause: Clause, report: pytest.TestReport, kind: Kind, reason: str) -> Verdict:
    suite: Any = getattr(item, "cls", None)
    _, bracket, case = item.name.partition("[")
    return Verdict(
        suite=suite.__name__,
        slot=suite.slot,
        known_bad=suite.known_bad,
        clause=clause.id,
        promise=clause.promise,
        case=case.removesuffix("]") if bracket else "",
        kind=kind,
        seconds=round(report.duration, 4),
        reason=reason,
    )


def _judged(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[Kind, str]:
    error = call.excinfo.value if call.excinfo else None
    if report.passed:
        return "passed", ""
    if report.skipped:
        text = str(error)
        return ("exempt" if text.startswith(EXEMPT) else "undeclared" if text.startswith(UNDECLARED) else "error"), text
    kind: Kind = "failed" if isinstance(error, ASSERTIONS) else "error"
    return kind, _told(error)


def _told(error: BaseException | None) -> str:
    """The first lines of what went wrong, for people."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = " / ".join(line.strip() for line in lines[:3])[:TOLD]
    return text if isinstance(error, ASSERTIONS) else f"{type(error).__name__}: {text}"
