"""Clauses of memory: what a search finds, in which order, and how it says so."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import angle, cosine, keys_of, space, stored_row
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["SearchClauses"]

CLOSE = 1e-3
"""How far a score may be from the cosine: vectors are kept with single precision at least."""


class SearchClauses:
    """By vector, by text, and both."""

    @clause("memory.search.vector")
    async def test_the_most_alike_come_first(self, adapter: Memory) -> None:
        """By vector the most alike come first, and the score is the cosine, whatever the vectors' lengths."""
        own = space()
        vectors = {
            "same": (2.0, 0.0),
            "near": (30.0, 10.0),
            "right": (0.0, 0.1),
            "far": (-5.0, 5.0),
            "against": (-1.0, 0.0),
        }
        for key, vector in reversed(vectors.items()):
            await adapter.store(key, key, namespace=own, embedding=vector)
        found = await adapter.search(embedding=(4.0, 0.0), namespace=own, mode="vector")

        assert keys_of(found) == [*vectors]
        wrong = {
            match.record.key: match.score
            for match in found
            if not math.isclose(match.score, cosine((4.0, 0.0), vectors[match.record.key]), abs_tol=CLOSE)
        }
        assert wrong == {}
        assert max(match.score for match in found) <= 1

    @clause("memory.search.text")
    async def test_words_are_found(self, adapter: Memory) -> None:
        """By text those come that have a word of the query, the more of them the better; scores are between 0 and 1."""
        own = space()
        await adapter.store("both", "The zebra stood in the tall grass.", namespace=own)
        await adapter.store("one", "A zebra is no horse, whatever people say.", namespace=own)
        await adapter.store("none", "An otter swam in the lake.", namespace=own)
        found = await adapter.search("zebra grass", namespace=own, mode="text")

        assert keys_of(found)[0] == "both"
        assert "none" not in keys_of(found)
        assert all(0 < match.score <= 1 for match in found)
        assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)

    @clause("memory.search.case")
    async def test_words_are_found_in_any_case(self, adapter: Memory) -> None:
        """Words are found whatever their case, in any script, beside any punctuation."""
        own = space()
        await adapter.store(
            "a", "ZEBRA, (Stra\u00dfe) \u041c\u043e\u0441\u043a\u0432\u0430! caf\u00e9s 2026-11", namespace=own
        )
        for query in ("zebra", "Zebra?", "stra\u00dfe", "\u043c\u043e\u0441\u043a\u0432\u0430", "caf\u00e9s", "2026"):
            assert keys_of(await adapter.search(query, namespace=own, mode="text")) == ["a"], query

    @clause("memory.search.hybrid")
    async def test_both_rankings_count(self, adapter: Memory) -> None:
        """Hybrid fuses both rankings: first in both is first and has the score 1, and each alone is found too."""
        own = space()
        await adapter.store("both", "zebra", namespace=own, embedding=angle(0))
        await adapter.store("vector", "otter", namespace=own, embedding=angle(0.1))
        await adapter.store("text", "a zebra and other animals", namespace=own, embedding=angle(1))
        found = await adapter.search("zebra", embedding=angle(0), namespace=own)

        assert keys_of(found)[0] == "both"
        assert found[0].score == pytest.approx(1, abs=1e-9)
        assert sorted(keys_of(found)) == ["both", "text", "vector"]
        assert all(0 < match.score < 1 for match in found[1:])

    @clause("memory.search.hybrid-default")
    async def test_the_embedder_makes_a_hybrid_search(self, adapter: Memory) -> None:
        """A query alone searches hybrid, with the namespace's embedder: what was stored is found by its own words."""
        own = space()
        for key, text in (("zebra", "zebras graze on tall grass"), ("otter", "otters swim in cold lakes")):
            await adapter.store(key, text, namespace=own)
        found = await adapter.search("zebras graze on tall grass", namespace=own)

        assert keys_of(found)[0] == "zebra"
        assert found[0].score == pytest.approx(1, abs=1e-9)

    @clause("memory.search.embedding-only")
    async def test_an_embedding_alone_is_a_vector_search(self, adapter: Memory) -> None:
        """With an embedding and no query hybrid is vector, scores included."""
        own = space()
        await stored_row(adapter, own, 5)
        hybrid = await adapter.search(embedding=angle(0.3), namespace=own)

        assert hybrid == await adapter.search(embedding=angle(0.3), namespace=own, mode="vector")
        assert hybrid[0].score == pytest.approx(cosine(angle(0.3), angle(0.4)), abs=CLOSE)

    @clause("memory.search.nothing")
    async def test_an_empty_namespace_gives_nothing(self, adapter: Memory) -> None:
        """A namespace that holds nothing gives nothing, in any mode and with vectors of any dimensions."""
        own = space()
        for call in (
            partial(adapter.search, "word"),
            partial(adapter.search, "word", mode="text"),
            partial(adapter.search, "word", mode="vector"),
            partial(adapter.search, embedding=(1.0,) * 7),
            partial(adapter.search, "word", embedding=(1.0, 2.0)),
        ):
            assert await call(namespace=own, filter={"a": 1}, prefix="x", min_score=0.1) == []

    @clause("memory.search.limit")
    async def test_a_limit_is_kept(self, adapter: Memory) -> None:
        """At most *limit* come, the best; fewer only when there are not more; the default is ten."""
        own = space()
        keys = await stored_row(adapter, own, 12)
        for limit in (1, 3, 12, 1000):
            assert keys_of(await adapter.search(embedding=angle(0), namespace=own, limit=limit)) == keys[:limit]

        assert keys_of(await adapter.search(embedding=angle(0), namespace=own)) == keys[:10]

    @clause("memory.search.min-score")
    async def test_a_lowest_score_is_kept(self, adapter: Memory) -> None:
        """Nothing comes whose score is below *min_score*, and all that reaches it, in every mode."""
        own = space()
        await stored_row(adapter, own, 10, text="zebra")
        for asked in (
            {"embedding": angle(0)},
            {"query": "zebra", "mode": "text"},
            {"query": "zebra", "embedding": angle(0)},
        ):
            everything = await adapter.search(namespace=own, limit=100, **asked)
            middle = everything[4].score
            found = await adapter.search(namespace=own, limit=100, min_score=middle, **asked)

            assert keys_of(found) == [match.record.key for match in everything if match.score >= middle]
        assert await adapter.search(embedding=angle(0), namespace=own, min_score=1.5) == []

    @clause("memory.search.prefix")
    async def test_a_prefix_is_taken_literally_before_the_cut(self, adapter: Memory) -> None:
        """Only keys that begin with *prefix*, to the letter, are ranked: the limit counts those alone."""
        own = space()
        for number, key in enumerate(("a", "b", "A%1", "a_1", "a%1", "a%2", "aa1", "a/1", "a\u0301")):
            await adapter.store(key, "zebra", namespace=own, embedding=angle(number / 10), metadata={"n": number})
        for prefix, keys in (("a%", ["a%1", "a%2"]), ("a_", ["a_1"]), ("a/", ["a/1"]), ("A", ["A%1"]), ("c", [])):
            for asked in ({"embedding": angle(0)}, {"query": "zebra", "mode": "text"}):
                found = await adapter.search(namespace=own, prefix=prefix, limit=2, **asked)
                assert keys_of(found) == keys, prefix

    @clause("memory.search.stable")
    async def test_the_order_is_stable(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """The same search gives the same order each time, also where scores are equal, and in every adapter."""
        own = space()
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            for number in (7, 3, 9, 1, 5, 0, 8, 2, 6, 4):
                await one.store(f"{number}", {"n": number}, namespace=own, embedding=angle(0), text="zebra grass")
            for asked in (
                {"embedding": angle(0.2)},
                {"query": "zebra", "mode": "text"},
                {"query": "grass", "embedding": angle(0)},
            ):
                found = keys_of(await one.search(namespace=own, **asked))

                assert found == sorted(found)
                assert len(found) == 10
                for side in (one, other):
                    for limit in (10, 6, 3):
                        assert keys_of(await side.search(namespace=own, limit=limit, **asked)) == found[:limit]

    @clause("memory.search.unasked")
    async def test_a_search_needs_something_to_look_for(self, adapter: Memory) -> None:
        """Neither query nor embedding, or text without a query, is InvalidInput, in an empty namespace too."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        for namespace in (own, space()):
            for asked in ({}, {"mode": "text"}, {"mode": "vector"}, {"mode": "text", "embedding": angle(0)}):
                with pytest.raises(InvalidInput):
                    await adapter.search(namespace=namespace, **asked)

    @clause("memory.search.bounds")
    async def test_bad_searches_are_refused(self, adapter: Memory) -> None:
        """A limit, a mode or a lowest score that is none is InvalidInput; the most that is allowed is not."""
        own = space()
        await adapter.store("key", "zebra", namespace=own)
        most = "zebra " * 10_922
        assert keys_of(await adapter.search(most, namespace=own, mode="text", limit=1000, prefix="k")) == ["key"]
        bad: tuple[dict[str, Any], ...] = (
            {"limit": 0},
            {"limit": -1},
            {"limit": 1001},
            {"limit": 1.5},
            {"limit": "10"},
            {"mode": "best"},
            {"min_score": float("nan")},
            {"min_score": float("inf")},
            {"min_score": "high"},
            {"explain": "yes"},
            {"prefix": "x" * 501},
            {"query": ""},
            {"query": "x" * 65_537},
            {"query": "nul\0"},
            {"colour": "red"},
        )
        for asked in bad:
            with pytest.raises(InvalidInput):
                await adapter.search(**{"query": "zebra", "namespace": own, **asked})
