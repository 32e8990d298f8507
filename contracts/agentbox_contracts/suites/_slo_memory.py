"""The load on memory: a namespace of some hundred short texts that are stored, found and retrieved."""

from __future__ import annotations

import asyncio
import functools
import itertools
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._slo_load import Offer, offered

__all__ = ["load"]

RECORDS = 500
SETUP_SECONDS = 5.0
AT_ONCE = 16
PAGE = 1000
STRIDE = 7919
SOURCE = "agentbox-bench"

SUBJECTS = ("the host", "an agent", "the keeper", "a worker", "the index", "our customer", "the log", "every test")
VERBS = ("remembers", "forgets", "repairs", "explains", "measures", "refuses", "delivers", "compares")
OBJECTS = ("an invoice", "the schedule", "two answers", "a long letter", "the third draft", "its own errors", "a lease")


@asynccontextmanager
async def load(adapter: Memory) -> AsyncIterator[Mapping[str, Offer]]:
    """A namespace with RECORDS records, or as many as the adapter stores in SETUP_SECONDS. Afterwards all are gone."""
    work = _Work(adapter, f"agentbox-bench-{uuid.uuid4().hex}")
    try:
        await work.fill()
        with suppress(AgentboxError):
            await work.find(1)  # what a process loads when it first searches is no part of any level
        yield {
            "memory.store": functools.partial(offered, work.store),
            "memory.find": functools.partial(offered, work.find),
        }
    finally:
        await work.tidy()


class _Work:
    """The records of one load."""

    def __init__(self, adapter: Memory, namespace: str) -> None:
        self._adapter = adapter
        self._namespace = namespace
        self._numbers = itertools.count()
        self._keys: list[str] = []

    async def fill(self) -> None:
        """Store the records. One that fails is not there; the levels will show it."""
        now = asyncio.get_running_loop().time
        until = now() + SETUP_SECONDS

        async def worker() -> None:
            while len(self._keys) < RECORDS and now() < until:
                with suppress(AgentboxError):
                    await self.store(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker())

    async def store(self, number: int) -> None:
        """A new record, or every third time an update."""
        new = next(self._numbers)
        key = self._keys[new * STRIDE % len(self._keys)] if number % 3 == 2 and self._keys else f"{new:06}"
        await self._adapter.store(
            key, _text(new), namespace=self._namespace, metadata={"number": new % 10}, source=SOURCE
        )
        if key == f"{new:06}":
            self._keys.append(key)

    async def find(self, number: int) -> None:
        """A hybrid search, sometimes with a filter, and one record of all in turn."""
        if number % 2:
            filter = {"number": number % 10} if number % 4 == 1 else None
            await self._adapter.search(_text(number * STRIDE), namespace=self._namespace, filter=filter)
        else:
            await self._adapter.retrieve(self._keys[number * STRIDE % len(self._keys)], namespace=self._namespace)

    async def tidy(self) -> None:
        """Delete whatever is there, also what was stored without an answer; an adapter that refuses is left alone."""
        with suppress(AgentboxError):
            while keys := (await self._adapter.list_keys(namespace=self._namespace, limit=PAGE)).items:
                for key in keys:
                    await self._adapter.delete(key, namespace=self._namespace)


def _text(number: int) -> str:
    parts = (words[number // size % len(words)] for words, size in ((SUBJECTS, 1), (VERBS, 8), (OBJECTS, 64)))
    return f"{' '.join(parts)} number {number}"
