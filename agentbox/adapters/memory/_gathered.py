"""Questions that wait for each other are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Gathered"]

Q = TypeVar("Q")
A = TypeVar("A")

AT_ONCE = 2
"""So many rounds are under way at once: one is being answered while the answers of another are handed out."""

MOST = 64


class Gathered(Generic[Q, A]):
    """Hands questions on, all that have come meanwhile in one go; an answer that is an error is raised."""

    def __init__(self, answer: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._rounds: set[asyncio.Future[Sequence[A | Exception]]] = set()
        self._called = False

    def ask(self, question: Q) -> asyncio.Future[A]:
        """The answer to *question*, to be awaited. Whoever stops waiting does not disturb the others."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, future))
        if len(self._rounds) < AT_ONCE and not self._called:
            self._called = True
            loop.call_soon(self._begin)
        return future

    def _begin(self) -> None:
        self._called = False
        waiting = [(question, future) for question, future in self._waiting if not future.cancelled()]
        asked, self._waiting = waiting[:MOST], waiting[MOST:]
        if asked:
            work = asyncio.ensure_future(self._answer([question for question, _ in asked]))  # noqa: RUF006 - held below
            self._rounds.add(work)
            futures = [future for _, future in asked]
            work.add_done_callback(lambda done: self._deliver(done, futures))

    def _deliver(self, done: asyncio.Future[Sequence[A | Exception]], futures: list[asyncio.Future[A]]) -> None:
        self._rounds.discard(done)
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        answers: Sequence[A | BaseException] = [error] * len(futures) if error is not None else done.result()
        for future, answer in zip(futures, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if self._waiting:
            self._begin()
