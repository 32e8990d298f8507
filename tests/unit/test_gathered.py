"""Questions of memory that wait for each other: each gets its answer, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentbox.adapters.memory._gathered import MOST, Gathered


async def answered(questions: Sequence[int]) -> Sequence[int | Exception]:
    return [ValueError(f"{question}") if question < 0 else 2 * question for question in questions]


async def test_each_gets_its_own_answer() -> None:
    gathered = Gathered(answered)

    answers = await asyncio.gather(*map(gathered.ask, [1, -1, *range(3 * MOST)]), return_exceptions=True)

    assert repr(answers[1]) == "ValueError('-1')"
    assert [answers[0], *answers[2:]] == [2, *(2 * number for number in range(3 * MOST))]


async def test_who_waits_behind_many_that_gave_up_is_answered() -> None:
    gathered = Gathered(answered)
    given_up = [gathered.ask(number) for number in range(2 * MOST)]
    last = gathered.ask(7)

    for future in given_up:
        future.cancel()

    async with asyncio.timeout(20):
        assert await last == 14
