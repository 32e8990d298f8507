"""Many callers, few model calls: whatever waits while the model is busy goes into its next call together."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

import attrs

from agentbox.adapters.memory._embedder import Embedder, Kind, Vector
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable, AgentboxError, EmbeddingError, PermissionDenied

__all__ = ["Batched"]


@attrs.define(eq=False)
class _Wanted:
    text: str
    vector: asyncio.Future[Vector]


class Batched:
    """
    *embedder*, called for at most *texts* texts or *characters* characters at once, in up to *calls* calls at a time.

    A lone caller does not wait; those that come meanwhile share the next call, queries before documents. A text that
    the embedder refuses fails its own caller only. Every vector is checked: its length, and that it is finite.
    """

    def __init__(self, embedder: Embedder, *, texts: int = 64, characters: int = 40_000, calls: int = 1) -> None:
        self._embedder = embedder
        self._texts, self._characters, self._calls = texts, characters, calls
        self._waiting: dict[Kind, deque[_Wanted]] = {"query": deque(), "document": deque()}
        self._running: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def semantic(self) -> bool:
        return self._embedder.semantic

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    async def open(self) -> None:
        await self._embedder.open()

    async def close(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for queue in self._waiting.values():
            _fail(queue, AdapterUnavailable(f"the embedder {self.name} was closed"))
            queue.clear()
        await self._embedder.close()

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        loop = asyncio.get_running_loop()
        wanted = [_Wanted(text, loop.create_future()) for text in texts]
        self._waiting[kind].extend(wanted)
        self._start()
        try:
            return [await each.vector for each in wanted]
        finally:
            for each in wanted:
                # What nobody waits for any more is not embedded, and its error is nobody's.
                if each.vector.done() and not each.vector.cancelled():
                    each.vector.exception()
                each.vector.cancel()

    def _start(self) -> None:
        # The task begins when the loop turns next, so that all who call in this turn are in its first batch.
        if len(self._running) < self._calls:
            task = asyncio.create_task(self._serve())
            self._running.add(task)

    async def _serve(self) -> None:
        wanted: list[_Wanted] = []
        try:
            while batch := self._next("query") or self._next("document"):
                kind, wanted = batch
                await self._call(kind, wanted)
        finally:
            # Not in a callback, which runs a turn later: who calls in that turn would wait for a task that has ended.
            self._running.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            _fail(wanted, AdapterUnavailable(f"the embedder {self.name} was closed"))

    def _next(self, kind: Kind) -> tuple[Kind, list[_Wanted]] | None:
        queue = self._waiting[kind]
        found: list[_Wanted] = []
        characters = 0
        while queue and len(found) < self._texts:
            characters += len(queue[0].text)
            if found and characters > self._characters:
                break
            wanted = queue.popleft()
            if not wanted.vector.done():
                found.append(wanted)
        return (kind, found) if found else None

    async def _call(self, kind: Kind, batch: Sequence[_Wanted]) -> None:
        texts = list(dict.fromkeys(each.text for each in batch))
        try:
            vectors = dict(zip(texts, self._checked(await self._embedder.embed(texts, kind=kind), texts), strict=True))
        except Exception as error:
            if len(batch) == 1 or _is_of_all(error):
                _fail(batch, error)
                return
            # One of them may be to blame: halves are tried until it is alone.
            await self._call(kind, batch[: len(batch) // 2])
            await self._call(kind, batch[len(batch) // 2 :])
            return
        for each in batch:
            if not each.vector.done():
                each.vector.set_result(vectors[each.text])

    def _checked(self, vectors: list[Vector], texts: Sequence[str]) -> list[Vector]:
        if len(vectors) != len(texts):
            raise EmbeddingError(f"the embedder {self.name} gave {len(vectors)} vectors for {len(texts)} texts")
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise EmbeddingError(
                    f"the embedder {self.name} gave a vector of {len(vector)} dimensions, not {self.dimensions}"
                )
            if not math.isfinite(math.fsum(vector)):
                raise EmbeddingError(f"the embedder {self.name} gave a vector that is not finite")
        return vectors


def _is_of_all(error: Exception) -> bool:
    """Whether no single text can be to blame: the service is away, or wants another key or address."""
    if isinstance(error, (PermissionDenied, AdapterFailed)):
        return True
    return isinstance(error, AgentboxError) and error.retryable


def _fail(batch: Iterable[_Wanted], error: Exception) -> None:
    for each in batch:
        if not each.vector.done():
            each.vector.set_exception(error)
