"""Does an embedder still know what is alike? A few sentences tell."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from time import monotonic

import attrs

from agentbox.adapters.memory._embedder import Embedder, Vector
from agentbox_contracts.errors import AgentboxError

__all__ = ["Canary", "Examined", "examine"]

KEPT_SECONDS = 60.0
PATIENCE_SECONDS = 4.0

# A sentence, another of the same meaning in other words, and one of like words and other meaning.
MEANINGS = (
    ("How do I reset my password?", "I forgot my login credentials", "How do I reset my kitchen clock?"),
    ("The doctor examined the patient", "A physician checked the sick man", "The doctor parked near the stadium"),
    ("The child is sleeping", "The kid has fallen asleep", "The price of the house is falling"),
)
# A word, the same with a slip of the pen, and another.
SPELLINGS = (("configuration file", "configurations files", "blue mountain"), ("retrieval", "retreival", "sausage"))


@attrs.frozen
class Examined:
    """Whether an embedder is sound, and a sentence about it: what is wrong, or what it cannot do."""

    ok: bool
    sentence: str


class Canary:
    """
    What `examine` says of one embedder, as far as it says it soon: health is asked often, and by who waits.

    That it is sound is taken for true for a minute, as it may cost money.
    """

    def __init__(self, embedder: Embedder, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._embedder = embedder
        self._patience = patience_seconds
        self._sound: tuple[float, Examined] | None = None

    async def check(self) -> Examined:
        """Examine the embedder, unless it was sound a moment ago."""
        if self._sound is not None and monotonic() - self._sound[0] < KEPT_SECONDS:
            return self._sound[1]
        try:
            async with asyncio.timeout(self._patience):
                examined = await examine(self._embedder)
        except TimeoutError:
            silent = f"the embedder {self._embedder.name} gave no answer within {self._patience:g} s"
            return Examined(False, f"{silent}; 'agentbox embedder check' waits for the reason")
        self._sound = (monotonic(), examined) if examined.ok else None
        return examined


async def examine(embedder: Embedder) -> Examined:
    """Embed a few sentences whose likeness is known. Does not raise for an embedder that fails."""
    triples = MEANINGS if embedder.semantic else SPELLINGS
    texts = [text for triple in triples for text in triple]
    try:
        # As queries, which need not wait until all that is being stored has been embedded.
        vectors = await embedder.embed(texts, kind="query")
    except AgentboxError as error:
        return Examined(False, f"the embedder {embedder.name} fails: {error.message}")
    if broken := _broken(vectors, embedder.dimensions):
        return Examined(False, f"the embedder {embedder.name} {broken}")
    for place in range(0, len(texts), 3):
        anchor, like, unlike = vectors[place : place + 3]
        if _cosine(anchor, like) <= _cosine(anchor, unlike):
            told = f"holds {texts[place]!r} nearer to {texts[place + 2]!r} than to {texts[place + 1]!r}"
            return Examined(False, f"the embedder {embedder.name} {told}: its model is broken or not what it says")
    return Examined(
        True, "" if embedder.semantic else f"the embedder {embedder.name} compares spelling and is not semantic"
    )


def _broken(vectors: Sequence[Vector], dimensions: int) -> str:
    for vector in vectors:
        if len(vector) != dimensions:
            return f"gives {len(vector)} dimensions and says {dimensions}"
        if not math.isfinite(length := math.hypot(*vector)) or length == 0:
            return "gives vectors without a direction"
    return ""


def _cosine(one: Vector, other: Vector) -> float:
    product = math.fsum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))
