"""Service levels: what every adapter of a slot must hold on a bad day, and the load that shows whether it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from agentbox_contracts.errors import AdapterDisabled, InvalidInput
from agentbox_contracts.suites import _slo_beads, _slo_events, _slo_memory, _slo_orchestrator
from agentbox_contracts.suites._slo_load import Answer, Load

__all__ = ["LEVELS", "LOADS", "LONGEST_SECONDS", "Level", "Measured", "duration", "judged", "measure"]

LONGEST_SECONDS = 3600.0

UNSAID_PER_SECOND = 50.0
"""The rate that is offered where a level says none."""

SHORTFALL = 0.1
"""Throughput this much below what was offered is told apart from answers that merely took long."""


@attrs.frozen(kw_only=True)
class Level:
    """
    One line of the table: *methods* together are called *per_second* times, 95 of 100 answers come within
    *p95_seconds*, and at most *error_rate* of them are errors. A level without a rate holds at any.
    """

    id: str
    methods: tuple[str, ...]
    p95_seconds: float
    per_second: float | None
    error_rate: float = 0.005


def _level(id: str, methods: str, p95_seconds: float, per_second: float | None, error_rate: float = 0.005) -> Level:
    return Level(
        id=id, methods=tuple(methods.split()), p95_seconds=p95_seconds, per_second=per_second, error_rate=error_rate
    )


LEVELS: Mapping[str, tuple[Level, ...]] = MappingProxyType(
    {
        "beads": (
            _level("beads.write", "create_child claim close", 0.2, 50),
            _level("beads.read", "get_ready show", 0.1, 200),
        ),
        "pods": (
            _level("pods.write", "write", 0.3, 20, 0.01),
            _level("pods.read", "read", 0.15, 100),
        ),
        "memory": (
            _level("memory.store", "store", 0.5, 10, 0.01),
            _level("memory.find", "search retrieve", 0.25, 50),
        ),
        "events": (_level("events.dispatch", "dispatch", 0.05, 500, 0.001),),
        "orchestrator": (
            _level("orchestrator.spawn", "spawn", 2.0, 2, 0.02),
            _level("orchestrator.stream", "stream", 0.02, None),
        ),
    }
)
"""The service levels of each slot."""

LOADS: Mapping[str, Load] = MappingProxyType(
    {
        "beads": _slo_beads.load,
        "events": _slo_events.load,
        "memory": _slo_memory.load,
        "orchestrator": _slo_orchestrator.load,
    }
)
"""The load of each slot that has one."""


@attrs.frozen(kw_only=True)
class Measured:
    """
    How the adapter *impl* held a level under its load of *seconds*.

    Percentiles are over all calls, from the moment each was due. *done_per_second* counts right answers only. *problem*
    says in one sentence what does not hold, and is empty when all does.
    """

    level: Level
    impl: str = ""
    seconds: float
    offered: int
    errors: int
    offered_per_second: float
    done_per_second: float
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the level was held."""
        return not self.problem

    @property
    def error_rate(self) -> float:
        """The share of calls that failed or had no answer."""
        return self.errors / self.offered

    @property
    def times_better(self) -> float:
        """How many times shorter the p95 is than it may be."""
        return self.level.p95_seconds / max(self.p95_seconds, 1e-6)


async def measure(
    adapter: Any, slot: str, *, seconds: float = 5.0, before: Callable[[Level], None] | None = None
) -> list[Measured]:
    """
    Offer each level of *slot* its load for *seconds*, one level after the other, to a connected *adapter*.

    Only methods of the port are called, keys and leases only where the adapter declares them. What the load wrote it
    closes and ends again; records stay. *before* is told each level when its turn comes.

    Raises:
        InvalidInput: There is no such slot, its load is not written yet, or *seconds* is not above 0 and at most 3600.
        AdapterDisabled: The adapter is switched off.
        AdapterError: The load could not be prepared.
    """
    prepare = _load_of(slot)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidInput(f"{seconds:g} seconds of load: it must be above 0 and at most {LONGEST_SECONDS:g}")
    if not adapter.enabled:
        raise AdapterDisabled(f"{slot} is switched off: there is nothing to measure", slot=slot)
    found = []
    async with prepare(adapter) as offers:
        for level in LEVELS[slot]:
            if before is not None:
                before(level)
            per_second = level.per_second or UNSAID_PER_SECOND
            measured = judged(level, await offers[level.id](per_second, seconds), per_second, seconds)
            found.append(attrs.evolve(measured, impl=adapter.impl))
    return found


def judged(level: Level, answers: list[Answer], per_second: float, seconds: float) -> Measured:
    """What *answers* to a load of *per_second* calls for *seconds* say of *level*."""
    answers = sorted(answers, key=lambda answer: answer.due)
    took = sorted(answer.took for answer in answers)
    measured = Measured(
        level=level,
        seconds=seconds,
        offered=len(answers),
        errors=sum(bool(answer.error) for answer in answers),
        offered_per_second=per_second,
        done_per_second=_done_per_second(answers, per_second),
        p50_seconds=_percentile(took, 0.5),
        p95_seconds=_percentile(took, 0.95),
        p99_seconds=_percentile(took, 0.99),
    )
    complaints = [*_complaints(measured, answers)]
    return attrs.evolve(measured, problem=f"{level.id}: {'; '.join(complaints)}" if complaints else "")


def duration(seconds: float) -> str:
    """*seconds* with three digits, for people: `1.25 s`, `200 ms`, `0.31 ms`."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms" if seconds >= 0.001 else f"{seconds * 1000:.2f} ms"


def _load_of(slot: str) -> Load:
    if slot not in LEVELS:
        raise InvalidInput(f"there is no slot called {slot!r}; known: {', '.join(LEVELS)}")
    if slot not in LOADS:
        raise InvalidInput(f"{slot}: its load is not written yet; there is one for {', '.join(LOADS)}", slot=slot)
    return LOADS[slot]


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest value that *share* of all values do not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def _done_per_second(answers: list[Answer], per_second: float) -> float:
    """
    Right answers in a second, once the first have come and before the last stragglers.

    A twentieth at either end is left out, so that a delay which all answers share is not taken for a lower rate.
    """
    times = sorted(answer.at for answer in answers if not answer.error)
    most = per_second * len(times) / len(answers)
    first = len(times) // 20
    last = len(times) - 1 - first
    if last <= first or times[last] <= times[first]:
        return most
    return min(most, (last - first) / (times[last] - times[first]))


def _complaints(measured: Measured, answers: list[Answer]) -> list[str]:
    level, found = measured.level, []
    if _queues(measured, answers):
        found.append(f"{measured.done_per_second:.3g}/s were done where {measured.offered_per_second:g}/s were offered")
    if measured.p95_seconds > level.p95_seconds:
        found.append(f"p95 was {duration(measured.p95_seconds)} where {duration(level.p95_seconds)} is the floor")
    if measured.error_rate > level.error_rate:
        first = next(answer.error for answer in answers if answer.error)
        share = f"{100 * measured.error_rate:.3g} % of {measured.offered} failed where {100 * level.error_rate:g} % may"
        found.append(f"{share}, first with {first}")
    return found


def _queues(measured: Measured, answers: list[Answer]) -> bool:
    """Whether less was done than offered because calls queue up: the last quarter waits longer than the first."""
    part = max(1, len(answers) // 4)
    early, late = (sum(answer.took for answer in quarter) / part for quarter in (answers[:part], answers[-part:]))
    behind = measured.done_per_second < (1 - SHORTFALL) * measured.offered_per_second * (1 - measured.error_rate)
    return behind and late - early > SHORTFALL * measured.seconds
