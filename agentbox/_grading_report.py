"""What a graded run says: a verdict on every clause, and one word for the adapter."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Literal

import attrs

from agentbox import __version__
from agentbox_contracts.suites.clauses import Clause

__all__ = ["ClauseResult", "Pair", "Proof", "Report", "report_of"]

Word = Literal["passed", "failed", "error", "exempt", "undeclared", "missing"]

# From bad to good: of several cases of one clause the worst counts.
ORDER: tuple[Word, ...] = ("error", "failed", "missing", "exempt", "undeclared", "passed")
BROKEN = ("error", "failed", "missing")


@attrs.frozen(kw_only=True)
class ClauseResult:
    """One clause: what it promises and what was seen. `missing` is a clause that was never reached."""

    id: str
    promise: str
    verdict: Word
    seconds: float
    cases: int
    reason: str = ""


@attrs.frozen(kw_only=True)
class Report:
    """One adapter against the whole suite of its slot."""

    slot: str
    impl: str
    contract_version: str
    durability: str
    capabilities: tuple[str, ...]
    undeclared: tuple[str, ...]
    versions: Mapping[str, str]
    seconds: float
    clauses: tuple[ClauseResult, ...]

    @property
    def adapter(self) -> str:
        """Slot and adapter, for people."""
        return f"{self.slot} {self.impl}"

    @property
    def broken(self) -> tuple[ClauseResult, ...]:
        """The clauses that the adapter does not keep."""
        return tuple(result for result in self.clauses if result.verdict in BROKEN)

    @property
    def without(self) -> tuple[str, ...]:
        """What it does without: capabilities that it does not declare, and clauses that it is exempt from."""
        exempt = tuple(result.id for result in self.clauses if result.verdict == "exempt")
        return self.undeclared + exempt

    @property
    def grade(self) -> str:
        """`conformant`, `conformant without …`, or `not conformant`."""
        if self.broken:
            return "not conformant"
        return f"conformant without {', '.join(self.without)}" if self.without else "conformant"


@attrs.frozen(kw_only=True)
class Pair:
    """A known-bad adapter and the clause that must catch it."""

    known_bad: str
    fault: str
    clause: str
    verdict: Literal["caught", "missed", "left out"]
    seconds: float
    reason: str


@attrs.frozen(kw_only=True)
class Proof:
    """A suite against its known-bad adapters. A clause that catches nothing proves nothing."""

    slot: str
    impl: str
    clauses: tuple[str, ...]
    pairs: tuple[Pair, ...]
    idle: tuple[str, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every clause that applies caught every known-bad adapter that it must catch, and at least one."""
        return not self.idle and not self.missed

    @property
    def missed(self) -> tuple[Pair, ...]:
        """The known-bad adapters that got away."""
        return tuple(pair for pair in self.pairs if pair.verdict == "missed")


def report_of(
    slot: str, impl: str, clauses: Mapping[str, Clause], lines: Iterable[dict[str, Any]], *, seconds: float
) -> Report:
    """The report from what the run wrote down."""
    written = list(lines)
    said = next((line for line in written if "adapter" in line), {})
    verdicts = [line for line in written if "clause" in line]
    known = frozenset().union(*(clause.needs for clause in clauses.values()))
    declared = tuple(said.get("capabilities", ()))
    return Report(
        slot=slot,
        impl=impl,
        contract_version=said.get("contract_version", "unknown"),
        durability=said.get("durability", "unknown"),
        capabilities=declared,
        undeclared=tuple(sorted(known - set(declared))) if said else (),
        versions=_versions(slot, impl),
        seconds=seconds,
        clauses=tuple(_result(clause, verdicts) for clause in clauses.values()),
    )


def _result(clause: Clause, verdicts: list[dict[str, Any]]) -> ClauseResult:
    own = [line for line in verdicts if line["clause"] == clause.id]
    worst = min(own, key=lambda line: ORDER.index(line["kind"]), default=None)
    case = f"[{worst['case']}] " if worst and worst["case"] and worst["kind"] in BROKEN else ""
    return ClauseResult(
        id=clause.id,
        promise=clause.promise,
        verdict=worst["kind"] if worst else "missing",
        seconds=round(sum(line["seconds"] for line in own), 3),
        cases=len(own),
        reason=case + worst["reason"] if worst else "the run ended before it",
    )


def _versions(slot: str, impl: str) -> dict[str, str]:
    versions = {"agentbox": __version__, "python": platform.python_version()}
    for point in entry_points(group=f"agentbox.{slot}", name=impl):
        if point.dist is not None:
            versions[point.dist.name] = point.dist.version
    return versions
