"""What the clauses of memory share: namespaces of their own, vectors whose order is known, waiting for expiry."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Match, Memory

__all__ = [
    "BRIEF",
    "PATIENCE",
    "SOON",
    "all_keys",
    "all_namespaces",
    "angle",
    "cosine",
    "expired",
    "is_there",
    "keys_of",
    "space",
    "stored_row",
    "until",
]

BRIEF = 0.05
"""Seconds that a record lives which is to expire."""
PATIENCE = 2.0
SOON = 1.0
"""Seconds after which another process sees a write, at the latest."""

TURN = math.pi / 2


def space() -> str:
    """A namespace that nobody else writes to, though the store may be shared."""
    return f"space-{uuid4().hex}"


def angle(part: float) -> tuple[float, float, float]:
    """A vector turned by *part* of a right angle away from `angle(0)`: the greater, the less alike."""
    return (math.cos(part * TURN), math.sin(part * TURN), 0.0)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """How alike two vectors are, by the book."""
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))


async def stored_row(adapter: Memory, namespace: str, count: int, **fields: Any) -> list[str]:
    """So many records, each less like `angle(0)` than the one before; their keys in that order."""
    keys = [f"key-{number:03}" for number in range(count)]
    for number, key in enumerate(keys):
        vector = angle(number / count)
        await adapter.store(key, {"number": number}, namespace=namespace, embedding=vector, **fields)
    return keys


def keys_of(matches: Iterable[Match]) -> list[str]:
    """The keys of matches, in their order."""
    return [match.record.key for match in matches]


async def is_there(adapter: Memory, key: str, namespace: str) -> bool:
    """Whether *key* can be retrieved."""
    try:
        await adapter.retrieve(key, namespace=namespace)
    except NotFound:
        return False
    return True


async def until(look: Any, seconds: float = PATIENCE) -> bool:
    """Whether the coroutine function *look* says yes within *seconds*; it is asked again and again."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await look():
        if loop.time() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def expired(adapter: Memory, key: str, namespace: str) -> bool:
    """Wait until *key* has expired. The clock is the store's: asking is the only way to know."""

    async def gone() -> bool:
        return not await is_there(adapter, key, namespace)

    return await until(gone)


async def all_keys(adapter: Memory, namespace: str, *, limit: int = 1000, prefix: str = "") -> list[str]:
    """Every key of a namespace, page by page."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await adapter.list_keys(namespace=namespace, limit=limit, prefix=prefix, after=after)
        found += page.items
        if (after := page.next) is None:
            return found


async def all_namespaces(adapter: Memory, *, limit: int = 1000, after: str | None = None) -> list[str]:
    """Every namespace behind *after*, page by page."""
    found: list[str] = []
    while True:
        page = await adapter.list_namespaces(limit=limit, after=after)
        found += page.items
        if (after := page.next) is None:
            return found
