"""Clauses of memory: vectors of different kinds are never mixed, and a search can say how it found something."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from agentbox_contracts.errors import EmbeddingError, InvalidInput
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import all_keys, angle, cosine, keys_of, space
from agentbox_contracts.suites.clauses import clause

__all__ = ["EmbeddingClauses", "ExplainClauses"]

NOT_VECTORS: tuple[Any, ...] = (
    (),
    (float("nan"), 1.0, 1.0),
    (1.0, float("inf"), 1.0),
    ("1", "2"),
    "abc",
    7,
    (None,),
    (1.0,) * 16_385,
)


class EmbeddingClauses:
    """What a namespace is bound to."""

    @clause("memory.embedding.dimensions")
    async def test_other_dimensions_are_refused(self, adapter: Memory) -> None:
        """A vector of other dimensions is EmbeddingError, which names both, and nothing is stored."""
        own = space()
        first = await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        for vector in ((1.0, 0.0), (1.0, 0.0, 0.0, 0.0)):
            for call in (
                partial(adapter.store, "key", "otter", embedding=vector),
                partial(adapter.store, "other", "otter", embedding=vector),
                partial(adapter.search, embedding=vector),
                partial(adapter.search, "zebra", embedding=vector),
            ):
                with pytest.raises(EmbeddingError) as caught:
                    await call(namespace=own)
                assert "3" in caught.value.message
                assert str(len(vector)) in caught.value.message

        assert await adapter.retrieve("key", namespace=own) == first
        assert await all_keys(adapter, own) == ["key"]
        assert await adapter.search("otter", namespace=own, mode="text") == []

    @clause("memory.embedding.no-length")
    async def test_a_vector_without_length_is_refused(self, adapter: Memory) -> None:
        """A vector of nothing but zeros is EmbeddingError, binds nothing, and nothing is stored."""
        own = space()
        for call in (partial(adapter.store, "key", "zebra"), adapter.search):
            with pytest.raises(EmbeddingError):
                await call(namespace=own, embedding=(0.0, 0.0, 0.0, 0.0))
        assert await all_keys(adapter, own) == []

        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        with pytest.raises(EmbeddingError):
            await adapter.search(namespace=own, embedding=(0.0, 0.0, 0.0))

    @clause("memory.embedding.not-numbers")
    async def test_what_is_no_vector_is_refused(self, adapter: Memory) -> None:
        """No numbers, too many, such as are not finite, or what is no number is InvalidInput, and nothing is stored."""
        own = space()
        for vector in NOT_VECTORS:
            for call in (partial(adapter.store, "key", "zebra"), adapter.search):
                with pytest.raises(InvalidInput):
                    await call(namespace=own, embedding=vector)
        assert await all_keys(adapter, own) == []

        await adapter.store("key", "zebra", namespace=own, embedding=(1.0, 0.5) * 2048)
        assert keys_of(await adapter.search(namespace=own, embedding=(1.0, 0.5) * 2048)) == ["key"]

    @clause("memory.embedding.brought")
    async def test_brought_vectors_and_an_embedder_are_not_mixed(self, adapter: Memory) -> None:
        """Where callers bring vectors, what the embedder would have to embed is EmbeddingError, and is not stored."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        for call in (
            partial(adapter.store, "other", "otter"),
            partial(adapter.search, "zebra", mode="vector"),
            partial(adapter.search, "zebra"),
        ):
            with pytest.raises(EmbeddingError):
                await call(namespace=own)

        assert await all_keys(adapter, own) == ["key"]

    @clause("memory.embedding.embedded")
    async def test_an_embedder_and_brought_vectors_are_not_mixed(self, adapter: Memory) -> None:
        """Where the embedder has written, a vector that a caller brings is EmbeddingError, and nothing is stored."""
        own = space()
        await adapter.store("key", "zebra", namespace=own)
        for call in (partial(adapter.store, "other", "otter"), adapter.search, partial(adapter.search, "zebra")):
            with pytest.raises(EmbeddingError):
                await call(namespace=own, embedding=angle(0))

        assert await all_keys(adapter, own) == ["key"]
        assert keys_of(await adapter.search("zebra", namespace=own)) == ["key"]

    @clause("memory.embedding.extremes")
    async def test_vectors_of_any_size_are_compared(self, adapter: Memory) -> None:
        """Very long and very short vectors, of one dimension or of thousands, are compared by direction alone."""
        for vector in ((1e30, 1e30, 0.0), (1e-30, 1e-30, 0.0), (-3.0,), (1.0,) * 2000):
            own = space()
            await adapter.store("key", "zebra", namespace=own, embedding=vector)
            (match,) = await adapter.search(embedding=vector, namespace=own)

            assert match.score == pytest.approx(1, abs=1e-3)


class ExplainClauses:
    """What `explain` says."""

    @clause("memory.explain.asked")
    async def test_only_who_asks_gets_an_explanation(self, adapter: Memory) -> None:
        """Matches are explained when that is asked for, and otherwise not; the matches are the same."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        plain = await adapter.search("zebra", embedding=angle(0), namespace=own)
        told = await adapter.search("zebra", embedding=angle(0), namespace=own, explain=True)

        assert [match.explanation for match in plain] == [None]
        assert [match.explanation is None for match in told] == [False]
        assert [(match.record, match.score) for match in plain] == [(match.record, match.score) for match in told]

    @clause("memory.explain.ranks")
    async def test_ranks_and_scores_are_told(self, adapter: Memory) -> None:
        """An explanation tells place and score by vector and by text, and nothing where one did not take part."""
        own = space()
        await adapter.store("both", "zebra", namespace=own, embedding=angle(0))
        await adapter.store("second", "otter", namespace=own, embedding=angle(0.5))
        found = await adapter.search("zebra", embedding=angle(0), namespace=own, explain=True)
        first, second = (match.explanation for match in found)

        assert first is not None
        assert second is not None
        assert (first.vector_rank, first.text_rank) == (1, 1)
        assert first.vector_score == pytest.approx(1, abs=1e-3)
        assert 0 < (first.text_score or 0) <= 1
        assert (second.vector_rank, second.text_rank, second.text_score) == (2, None, None)
        assert second.vector_score == pytest.approx(cosine(angle(0), angle(0.5)), abs=1e-3)

    @clause("memory.explain.modes")
    async def test_a_mode_tells_only_of_itself(self, adapter: Memory) -> None:
        """By vector no place by text is told, and by text none by vector, where the plan is `none`."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        (vector,) = await adapter.search(embedding=angle(0), namespace=own, mode="vector", explain=True)
        (text,) = await adapter.search("zebra", namespace=own, mode="text", explain=True)

        assert vector.explanation is not None
        assert text.explanation is not None
        assert (vector.explanation.vector_rank, vector.explanation.text_rank) == (1, None)
        assert vector.explanation.plan in ("exact", "subset", "index")
        assert (text.explanation.vector_rank, text.explanation.text_rank, text.explanation.plan) == (None, 1, "none")
        assert vector.score == vector.explanation.vector_score
        assert text.score == text.explanation.text_score

    @clause("memory.explain.passage")
    async def test_the_passage_is_told(self, adapter: Memory) -> None:
        """An explanation shows the piece of text that did it, as it stands in the text."""
        own = space()
        await adapter.store("key", "Of Zebras, and their stripes.", namespace=own)
        for mode in ("text", "hybrid"):
            (match,) = await adapter.search("zebras", namespace=own, mode=mode, explain=True)

            assert match.explanation is not None
            assert "Zebras" in (match.explanation.passage or "")

    @clause("memory.explain.embedder")
    async def test_the_embedder_is_named(self, adapter: Memory) -> None:
        """An explanation names the embedder of the namespace; vectors that callers brought are nobody's meaning."""
        own, brought = space(), space()
        await adapter.store("key", "zebra", namespace=own)
        await adapter.store("key", "zebra", namespace=brought, embedding=angle(0))
        (embedded,) = await adapter.search("zebra", namespace=own, explain=True)
        (other,) = await adapter.search(embedding=angle(0), namespace=brought, explain=True)

        assert embedded.explanation is not None
        assert other.explanation is not None
        assert embedded.explanation.embedder
        assert embedded.explanation.embedder != other.explanation.embedder
        assert not other.explanation.semantic
