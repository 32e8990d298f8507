"""Repeating what failed for a passing reason: ever more slowly, never the same for two, and within a budget."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentbox_contracts.errors import AgentboxError

__all__ = ["Retries", "pause"]

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
BUDGET, EARNED = 10.0, 0.1


class Retries:
    """What one adapter may repeat: a tenth of its calls in the long run, so that a sick peer is not made sicker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._budget = BUDGET

    async def run(self, attempt: Callable[[], Awaitable[T]], *, may: Callable[[AgentboxError], bool]) -> T:
        """*attempt*, repeated while its error is retryable, *may* allows it, and time and budget last."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        self._budget = min(BUDGET, self._budget + EARNED)
        number = 0
        while True:
            number += 1
            try:
                return await attempt()
            except AgentboxError as error:
                wait = pause(number)
                if not error.retryable or not may(error) or self._budget < 1 or loop.time() + wait > until:
                    raise
                self._budget -= 1
                await asyncio.sleep(wait)


def pause(number: int) -> float:
    """Seconds before attempt *number* + 1: up to twice as long each time, anything below that."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(number, 20))
    return random.uniform(0, longest)  # noqa: S311 - spreads load, guards nothing
