"""
Ratios that hold on a noisy machine.

Reference and subject take turns in many short rounds, and the median of the rounds' ratios counts: whatever else the
machine does meanwhile hits both.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Literal

import attrs

__all__ = ["Bench", "Measured", "on_one_core", "paired", "seconds_of", "spread"]


@attrs.frozen
class Measured:
    """Seconds for one operation, medians of all rounds, and the median of the rounds' ratios subject : reference."""

    reference: float
    subject: float
    ratio: float


@attrs.frozen(kw_only=True)
class Bench:
    """
    One bar. `at_most` bounds the subject's time as a multiple of the reference's, `at_least` its throughput.
    """

    name: str
    what: str
    bound: Literal["at_most", "at_least"]
    bar: float
    measure: Callable[[], Measured]

    def ratio(self, measured: Measured) -> float:
        """The figure that is held against the bar."""
        return measured.ratio if self.bound == "at_most" else 1 / measured.ratio

    def holds(self, measured: Measured) -> bool:
        """Whether the bar is met."""
        ratio = self.ratio(measured)
        return ratio <= self.bar if self.bound == "at_most" else ratio >= self.bar


async def paired(
    reference: Callable[[], Awaitable[float]], subject: Callable[[], Awaitable[float]], *, rounds: int
) -> Measured:
    """Both in turns, the order changing; each gives the seconds of one operation. The first round only warms up."""
    pairs: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        gc.collect()
        if number % 2:
            slow = await reference()
            fast = await subject()
        else:
            fast = await subject()
            slow = await reference()
        pairs.append((slow, fast))
    pairs = pairs[1:]
    return Measured(
        reference=median(pair[0] for pair in pairs),
        subject=median(pair[1] for pair in pairs),
        ratio=median(pair[1] / pair[0] for pair in pairs),
    )


@contextmanager
def on_one_core() -> Iterator[None]:
    """
    Keep this thread, and the threads it starts, on one core.

    Two threads that take turns need 2.4 times longer when the scheduler has put them on different cores, and it does so
    by chance and for seconds: without this, a lone caller's ratio says which of the two sides was lucky.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def seconds_of(call: Callable[[int], Awaitable[object]], count: int) -> float:
    """Seconds for one of *count* calls, one after the other."""
    started = perf_counter()
    for number in range(count):
        await call(number)
    return (perf_counter() - started) / count


async def spread(call: Callable[[int], Awaitable[object]], count: int, callers: int) -> float:
    """Seconds for one of *count* calls that *callers* tasks share; each task makes its calls one after the other."""

    async def caller(first: int) -> None:
        for number in range(first, count, callers):
            await call(number)

    started = perf_counter()
    await asyncio.gather(*(caller(first) for first in range(callers)))
    return (perf_counter() - started) / count
