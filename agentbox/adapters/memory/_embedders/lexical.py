"""Vectors of letters: hashed words and character n-grams. Needs nothing, and knows nothing of meaning."""

from __future__ import annotations

import asyncio
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from agentbox.adapters.memory._embedder import Kind, Vector
from agentbox.adapters.memory._text import words

__all__ = ["LexicalEmbedder", "create"]

DIMENSIONS = 384
GRAM = 4
LONG = 8
"""A word of so many letters counts in full; shorter ones, which are in every text, the less the shorter they are."""
BRIEF = 20_000
"""So many characters are embedded in a few milliseconds; more are left to a thread."""


class LexicalEmbedder:
    """Similar spelling is near, similar meaning is not."""

    name = "lexical"
    dimensions = DIMENSIONS
    semantic = False
    fingerprint = f"lexical:2:{DIMENSIONS}"

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        if sum(map(len, texts)) <= BRIEF:
            return [_vector(text) for text in texts]
        return await asyncio.to_thread(lambda: [_vector(text) for text in texts])


def create(settings: Any) -> LexicalEmbedder:
    """The embedder; it has no settings."""
    return LexicalEmbedder()


def _vector(text: str) -> Vector:
    """A word said often counts more, but not as often as it is said."""
    vector = [0.0] * DIMENSIONS
    for word, count in Counter(words(text)).items():
        weight = 1 + math.log(count)
        for place, value in _features(word):
            vector[place] += weight * value
    length = math.hypot(*vector)
    return array("f", [value / length for value in vector] if length else vector)


@lru_cache(maxsize=65_536)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """The word and, together as heavy, its n-grams: where each falls in the vector, and with which sign."""
    padded = f"<{word}>"
    grams = [padded[start : start + GRAM] for start in range(len(padded) - GRAM + 1)]
    weight = min(1.0, len(word) / LONG)
    found: dict[int, float] = {}
    for feature in (word, *grams):
        hashed = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
        value = weight if feature is word else weight / math.sqrt(len(grams))
        place = hashed % DIMENSIONS
        found[place] = found.get(place, 0.0) + (value if hashed & 0x80000000 else -value)
    return tuple(found.items())
