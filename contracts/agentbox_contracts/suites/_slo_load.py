"""An open loop: calls are offered when they are due, whatever became of those before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

__all__ = ["PATIENCE_SECONDS", "Answer", "Load", "Offer", "count_of", "described", "offered"]

PATIENCE_SECONDS = 10.0
"""What has no answer so long after the last call was offered is an error."""

TICK_SECONDS = 0.001

Call = Callable[[int], Awaitable[object]]
Offer = Callable[[float, float], Awaitable[list["Answer"]]]
"""Offer a level's load: so many a second, for so many seconds."""

Load = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Offer]]]
"""Prepare an adapter, hand out an offer for each level's id, and tidy up."""


@attrs.frozen
class Answer:
    """When a call was due, seconds after the first; how long its answer took from then; what it failed with."""

    due: float
    took: float
    error: str = ""

    @property
    def at(self) -> float:
        """When the answer came."""
        return self.due + self.took


async def offered(call: Call, per_second: float, seconds: float) -> list[Answer]:
    """
    Start *call* with 0, 1, 2… at even moments and measure each from its moment to its answer.

    A call that an adapter's stall held up counts from when it was due, so that the stall shows in full. What has no
    answer after PATIENCE_SECONDS is cancelled and has taken that long.
    """
    now = asyncio.get_running_loop().time
    started = now()
    answers: list[Answer] = []

    async def one(number: int, due: float) -> None:
        error = f"no answer within {PATIENCE_SECONDS:g} s"
        try:
            await call(number)
            error = ""
        except Exception as failure:
            error = described(failure)
        finally:
            answers.append(Answer(due - started, now() - due, error))

    async with asyncio.TaskGroup() as group:
        tasks = []
        for number in range(count_of(per_second, seconds)):
            due = started + number / per_second
            # The loop's timers are up to a tick late, which is not the adapter's fault: aim a tick early, and count
            # from the start if it is early indeed.
            await asyncio.sleep(max(0.0, due - TICK_SECONDS - now()))
            tasks.append(group.create_task(one(number, min(due, now()))))
        _, late = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
        for task in late:
            task.cancel()
    return answers


def count_of(per_second: float, seconds: float) -> int:
    """How many calls a load has. Fewer than two have no rate."""
    return max(2, round(per_second * seconds))


def described(error: Exception) -> str:
    """The class of *error* and the beginning of what it says."""
    return f"{type(error).__name__}: {error}"[:200]
