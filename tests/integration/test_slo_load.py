"""The open loop and its judgement, on a clock that jumps to whatever is due next: no test here waits."""

from __future__ import annotations

import asyncio
import re
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.suites._slo_load import PATIENCE_SECONDS, TICK_SECONDS, Answer, offered
from agentbox_contracts.suites.slo import Level, Measured, duration, judged

T = TypeVar("T")

LEVEL = Level(id="beads.write", methods=("claim",), p95_seconds=0.2, per_second=50)


class Selector(selectors.SelectSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.skipped += timeout or 0.0
        return super().select(0 if timeout is not None else None)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.skipped

    def stall(self, seconds: float) -> None:
        """What a call does that blocks the loop."""
        self.selector.skipped += seconds


def at_once(coroutine: Coroutine[Any, Any, T], loop: Loop | None = None) -> T:
    with asyncio.Runner(loop_factory=lambda: loop or Loop()) as runner:
        return runner.run(coroutine)


def took(answers: list[Answer]) -> list[float]:
    return [round(answer.took, 3) for answer in sorted(answers, key=lambda answer: answer.due)]


def test_calls_are_offered_when_they_are_due_whatever_the_answers_do() -> None:
    loop, started = Loop(), list[float]()

    async def call(number: int) -> None:
        started.append(loop.time())
        await asyncio.sleep(5)

    answers = at_once(offered(call, 10, 1), loop)

    assert started == pytest.approx([number / 10 for number in range(10)], abs=2 * TICK_SECONDS)
    assert took(answers) == [5.0] * 10


def test_a_stall_counts_for_every_call_that_was_due_in_it() -> None:
    loop = Loop()

    async def call(number: int) -> None:
        if number == 2:
            loop.stall(0.5)

    answers = took(at_once(offered(call, 10, 1), loop))

    assert answers[:2] == [0.0, 0.0]
    assert answers[2:7] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1], abs=2 * TICK_SECONDS)
    assert answers[8:] == [0.0, 0.0]


def test_calls_that_queue_behind_each_other_count_their_waiting() -> None:
    lock = asyncio.Lock()

    async def call(number: int) -> None:
        async with lock:
            await asyncio.sleep(0.2)

    assert took(at_once(offered(call, 10, 1))) == pytest.approx([0.2 + 0.1 * n for n in range(10)], abs=0.01)


def test_what_is_never_answered_is_an_error_and_ends() -> None:
    async def call(number: int) -> None:
        if number == 1:
            await asyncio.Event().wait()

    answers = at_once(offered(call, 10, 1))

    assert [answer.error for answer in answers] == [""] * 9 + [f"no answer within {PATIENCE_SECONDS:g} s"]
    assert answers[-1].took == pytest.approx(PATIENCE_SECONDS + 0.8, abs=0.01)


def test_a_call_that_fails_is_counted_and_the_others_go_on() -> None:
    async def call(number: int) -> None:
        if number % 5 == 0:
            raise AdapterUnavailable("the store is gone")

    errors = [answer.error for answer in at_once(offered(call, 10, 1)) if answer.error]

    assert errors == ["AdapterUnavailable: the store is gone"] * 2


# What the answers say of a level


def judged_of(call: Callable[[int], Awaitable[object]], *, per_second: float = 50, seconds: float = 5) -> Measured:
    return judged(LEVEL, at_once(offered(call, per_second, seconds)), per_second, seconds)


def test_quick_answers_hold() -> None:
    measured = judged_of(lambda _: asyncio.sleep(0.01))

    assert (measured.holds, measured.problem, measured.offered, measured.errors) == (True, "", 250, 0)
    assert measured.done_per_second == pytest.approx(50)
    assert measured.p50_seconds == pytest.approx(0.01, abs=0.001)
    assert measured.times_better == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("seconds", [0.5, 5])
def test_slow_answers_are_slow_and_not_few(seconds: float) -> None:
    measured = judged_of(lambda number: asyncio.sleep(0.3 if number % 3 else 0.001), seconds=seconds)

    assert measured.problem == "beads.write: p95 was 300 ms where 200 ms is the floor"


def test_one_slow_answer_in_thirty_is_no_problem() -> None:
    assert judged_of(lambda number: asyncio.sleep(1.0 if number % 30 == 0 else 0.001)).holds


@pytest.mark.parametrize("seconds", [1, 5, 60])
def test_too_low_a_throughput_is_told_with_its_figure(seconds: float) -> None:
    lock = asyncio.Lock()

    async def call(number: int) -> None:
        async with lock:
            await asyncio.sleep(0.04)

    problem = judged_of(call, seconds=seconds).problem

    assert problem.startswith("beads.write: 25/s were done where 50/s were offered; p95 was ")


def test_a_long_stall_is_slow_and_not_few() -> None:
    async def call(number: int) -> None:
        if number == 20:
            asyncio.get_running_loop().stall(1.5)  # type: ignore[attr-defined]

    problem = judged_of(call).problem

    assert re.fullmatch(r"beads\.write: p95 was 1\.\d+ s where 200 ms is the floor", problem)


def test_failed_calls_are_told_with_their_share_and_the_first() -> None:
    async def call(number: int) -> None:
        if number % 50 == 7:
            raise AdapterUnavailable(f"number {number}")

    assert judged_of(call).problem == (
        "beads.write: 2 % of 250 failed where 0.5 % may, first with AdapterUnavailable: number 7"
    )


def test_nothing_but_failures_is_told_as_such() -> None:
    async def call(number: int) -> None:
        raise AdapterUnavailable("gone")

    measured = judged_of(call)

    assert measured.done_per_second == 0
    assert measured.problem.startswith("beads.write: 100 % of 250 failed")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0003, "0.30 ms"), (0.02, "20 ms"), (0.2, "200 ms"), (2.0, "2 s"), (1.2345, "1.23 s"), (2000.4, "2000 s")],
)
def test_durations_are_readable(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
