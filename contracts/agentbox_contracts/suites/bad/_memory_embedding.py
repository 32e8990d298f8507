"""Known-bad memories that mix vectors, and tell tales of how they found something."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.errors import EmbeddingError
from agentbox_contracts.memory import Explanation, Match
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import Remembers

Call = dict[str, Any]


@known_bad(caught_by="memory.embedding.dimensions")
class FitsVectors(Remembers):
    """Cuts or fills a vector until it fits."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**self._fitting(call))

    async def search(self, **call: Any) -> Any:
        return await super().search(**self._fitting(call))

    def _fitting(self, call: Call) -> Call:
        if not call["embedding"]:
            return call
        length = self.memory.setdefault(call["namespace"], len(call["embedding"]))
        return {**call, "embedding": (*call["embedding"], *[0.0] * length)[:length]}


@known_bad(caught_by="memory.embedding.no-length")
class TakesZerosForAVector(Base):
    """Takes nothing but zeros for a vector."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "embedding": call["embedding"] and _nonzero(call["embedding"])})


def _nonzero(vector: tuple[float, ...]) -> tuple[float, ...]:
    return vector if any(vector) else (1.0,) * len(vector)


@known_bad(caught_by="memory.embedding.brought")
class EmbedsBesideBroughtVectors(Base):
    """Mixes what the embedder makes with what callers bring."""

    async def store(self, **call: Any) -> Any:
        try:
            return await super().store(**call)
        except EmbeddingError:
            return await super().store(**{**call, "embedding": (1.0, 2.0, 3.0)})


@known_bad(caught_by="memory.embedding.embedded")
class DropsBroughtVectors(Base):
    """Embeds a text anew, though its caller brought a vector."""

    async def store(self, **call: Any) -> Any:
        try:
            return await super().store(**call)
        except EmbeddingError:
            return await super().store(**{**call, "embedding": None})


class Retells(Base):
    """Explains matches in another way, which `retold` says."""

    def retold(self, told: Explanation, call: Call) -> Explanation | None:
        """What is told instead."""
        return told

    async def search(self, **call: Any) -> Any:
        found = await super().search(**{**call, "explain": True})
        return [attrs.evolve(match, explanation=self._told(match, call)) for match in found]

    def _told(self, match: Match, call: Call) -> Explanation | None:
        assert match.explanation is not None
        return self.retold(match.explanation, call) if call["explain"] or self.is_chatty else None

    is_chatty = False


@known_bad(caught_by="memory.explain.asked")
class ExplainsUnasked(Retells):
    """Explains what nobody asked for."""

    is_chatty = True


@known_bad(caught_by="memory.explain.asked")
class ExplainsNothing(Retells):
    """Explains nothing when asked."""

    def retold(self, told: Explanation, call: Call) -> None:
        return None


@known_bad(caught_by="memory.explain.ranks")
class RanksFromZero(Retells):
    """Counts places from zero."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, vector_rank=told.vector_rank and told.vector_rank - 1)


@known_bad(caught_by="memory.explain.ranks")
class RanksWhatHasNoWord(Retells):
    """Tells a place by text where no word was found."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, text_rank=told.text_rank or 7)


@known_bad(caught_by="memory.explain.modes")
class TellsOfBothModes(Retells):
    """Tells a place by vector where none was compared."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, vector_rank=told.vector_rank or 1)


@known_bad(caught_by="memory.explain.passage")
class ShowsNoPassage(Retells):
    """Does not show what text it was."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, passage=None)


@known_bad(caught_by="memory.explain.embedder")
class HasNoEmbedder(Retells):
    """Does not name its embedder."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, embedder=None)


@known_bad(caught_by="memory.explain.embedder")
class ClaimsMeaning(Retells):
    """Says that any vectors are compared by meaning."""

    def retold(self, told: Explanation, call: Call) -> Explanation:
        return attrs.evolve(told, semantic=True)
