"""Clauses of memory: namespaces isolate absolutely, whatever the characters, and so do keys."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

from agentbox_contracts.errors import InvalidInput, NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import all_keys, all_namespaces, angle, is_there, keys_of, space
from agentbox_contracts.suites._memory_random import examples
from agentbox_contracts.suites.clauses import clause

__all__ = ["ALIKE", "IsolationClauses"]

ALIKE = (
    "a",
    "A",
    "a ",
    " a",
    "a-b",
    "a_b",
    "a%b",
    "a.b",
    "a/b",
    "a:b",
    "a//b",
    "a/../b",
    "a%2Fb",
    "a*",
    "a?",
    "%",
    "_",
    ".",
    "..",
    "a'b",
    'a"b',
    "a\\b",
    "a;DROP TABLE memory;--",
    "a\nb",
    "a\tb",
    "\u0430",
    "\u00e9",
    "e\u0301",
    "\uff41",
    "\u00df",
    "ss",
    "\u0130",
    "i",
    "\u200ba",
    "a\x01",
    "\U0001f701",
    "search",
    "null",
    "[a]",
    "{a}",
)
"""Names that some store takes for one another, for a pattern, or for a piece of its own language."""

BAD: tuple[Any, ...] = ("", "nul\0", "\ud800", 7, b"a", ["a"], "x" * 10_240)

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
NEIGHBOURS = st.lists(st.text("ab%_-:/. '\"\\", min_size=1, max_size=3) | NAMES, min_size=4, max_size=4, unique=True)


class IsolationClauses:
    """Nothing of one namespace is seen, found, changed or deleted from another."""

    @clause("memory.isolation.names")
    async def test_namespaces_that_look_alike_are_apart(self, adapter: Memory) -> None:
        """Whatever the characters, each namespace holds, lists and finds its own records only."""
        await _check_apart(adapter, [f"{space()}{name}" for name in ALIKE])

    @clause("memory.isolation.whole-names")
    async def test_a_name_is_not_a_pattern_or_a_path(self, adapter: Memory) -> None:
        """A namespace whose whole name is hostile, as `%`, `..` or `search`, is a namespace like any other."""
        word = space()
        for name in ALIKE:
            await adapter.store(word, {"in": name}, namespace=name, embedding=angle(0))
        try:
            for name in ALIKE:
                assert (await adapter.retrieve(word, namespace=name)).value == {"in": name}
                found = await adapter.search(embedding=angle(0), namespace=name, prefix=word)
                assert [(match.record.namespace, match.record.value) for match in found] == [(name, {"in": name})]
        finally:
            for name in ALIKE:
                with suppress(NotFound):
                    await adapter.delete(word, namespace=name)

    @clause("memory.isolation.random-names")
    async def test_random_names_are_apart(self, adapter: Memory) -> None:
        """Namespaces with names at random are apart too."""
        for names in examples(NEIGHBOURS, 8):
            own = space()
            await _check_apart(adapter, [f"{own}{name}" for name in names])

    @clause("memory.isolation.keys")
    async def test_keys_that_look_alike_are_apart(self, adapter: Memory) -> None:
        """Keys are compared exactly: one that looks like another is another."""
        own = space()
        for name in ALIKE:
            await adapter.store(name, {"under": name}, namespace=own)
        for name in ALIKE:
            assert (await adapter.retrieve(name, namespace=own)).value == {"under": name}
        for name in ALIKE[::2]:
            await adapter.delete(name, namespace=own)

        assert sorted(await all_keys(adapter, own)) == sorted(ALIKE[1::2])

    @clause("memory.isolation.dimensions")
    async def test_namespaces_are_bound_apart(self, adapter: Memory) -> None:
        """What one namespace is bound to binds no other: each has vectors of its own dimensions."""
        own = space()
        for count in (2, 3, 5):
            name, vector = f"{own}-{count}", (1.0,) * count
            await adapter.store("key", count, namespace=name, embedding=vector)

            assert keys_of(await adapter.search(embedding=vector, namespace=name)) == ["key"]

    @clause("memory.isolation.scores")
    async def test_other_namespaces_change_no_score(self, adapter: Memory) -> None:
        """Scores tell of one namespace: what others hold does not change them."""
        own, other = space(), space()
        for key, text in (("one", "zebra grass zebra"), ("two", "zebra otter lake"), ("three", "grass lake")):
            await adapter.store(key, text, namespace=own)
        before = await adapter.search("zebra grass", namespace=own, mode="text")
        for number in range(20):
            await adapter.store(f"{number}", f"zebra number {number}", namespace=other)
        after = await adapter.search("zebra grass", namespace=own, mode="text")

        assert len(before) == 3
        assert [(match.record.key, match.score) for match in after] == [
            (match.record.key, match.score) for match in before
        ]

    @clause("memory.isolation.refused")
    async def test_names_that_are_none_are_refused(self, adapter: Memory) -> None:
        """An empty name, one with NUL, one that is no text or 10 KB long is InvalidInput, and nothing is stored."""
        own = space()
        for bad in BAD:
            for call in (
                partial(adapter.store, "key", 1, namespace=bad),
                partial(adapter.store, bad, 1, namespace=own),
                partial(adapter.search, "word", namespace=bad),
                partial(adapter.retrieve, "key", namespace=bad),
                partial(adapter.retrieve, bad, namespace=own),
                partial(adapter.delete, bad, namespace=own),
                partial(adapter.list_keys, namespace=bad),
            ):
                with pytest.raises(InvalidInput):
                    await call()

        assert await all_keys(adapter, own) == []

    @clause("memory.isolation.longest")
    async def test_the_longest_names_are_names(self, adapter: Memory) -> None:
        """The longest names that are allowed, of any characters, are kept and told apart to the end."""
        own = space()
        long = own + "\U0001f701" * (199 - len(own))
        for end in "ab":
            await adapter.store("\U0001f701" * 499 + end, end, namespace=long + end)

        for end in "ab":
            assert await all_keys(adapter, long + end) == ["\U0001f701" * 499 + end]
            assert (await adapter.retrieve("\U0001f701" * 499 + end, namespace=long + end)).value == end


async def _check_apart(adapter: Memory, names: list[str]) -> None:
    """Write to each, look at each, and delete from each."""
    for number, name in enumerate(names):
        await adapter.store("key", f"word{number}", namespace=name)
        await adapter.store(f"key-{number}", f"common word{number}", namespace=name)
    for number, name in enumerate(names):
        own = ["key", f"key-{number}"]
        assert (await adapter.retrieve("key", namespace=name)).value == f"word{number}", name
        assert sorted(await all_keys(adapter, name)) == own, name
        assert sorted(keys_of(await adapter.search(f"word{number}", namespace=name, mode="text"))) == own, name
        assert keys_of(await adapter.search("common", namespace=name, mode="text")) == own[1:], name
        other = names[number - 1]
        assert not await is_there(adapter, f"key-{number}", other), (name, other)
        assert await adapter.search(f"word{number}", namespace=other, mode="text") == [], (name, other)
        with pytest.raises(NotFound):
            await adapter.delete(f"key-{number}", namespace=other)
    assert {*names} <= {*await all_namespaces(adapter)}
    for number, name in enumerate(names):
        await adapter.delete("key", namespace=name)
        for other in names[number + 1 :]:
            assert await is_there(adapter, "key", other), (name, other)
