"""Clauses of memory: filters mean what they say, and apply before the ranking is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import angle, keys_of, space, stored_row
from agentbox_contracts.suites._memory_model import passes
from agentbox_contracts.suites._memory_random import examples
from agentbox_contracts.suites.clauses import clause

__all__ = ["FILTERS", "METADATA", "FilterClauses"]

NAMES = st.sampled_from(("a", "b", "a.b", "$.a", "and ", "%", 'q"uote', "it's"))
SCALARS = st.sampled_from(
    (
        None,
        True,
        False,
        0,
        1,
        1.0,
        -1,
        1.5,
        2,
        10,
        "",
        "0",
        "1",
        "true",
        "a",
        "A",
        "b",
        "ab",
        "\u00e9",
        "\uffff",
        "\U0001f701",
    )
)
ORDERED = SCALARS.filter(lambda value: isinstance(value, (int, float, str)) and not isinstance(value, bool))
METADATA = st.dictionaries(NAMES, SCALARS | st.sampled_from(([], [1], {"a": 1})), max_size=4)
COMPARISONS = st.one_of(
    SCALARS,
    st.fixed_dictionaries({"eq": SCALARS}),
    st.fixed_dictionaries({"ne": SCALARS}),
    st.fixed_dictionaries({"in": st.lists(SCALARS, max_size=3)}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.dictionaries(st.sampled_from(("lt", "le", "gt", "ge")), ORDERED, min_size=1, max_size=2),
)
FILTERS = st.recursive(
    st.dictionaries(NAMES, COMPARISONS, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)

KINDS: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"n": 1}, ["float", "int"]),
    ({"n": True}, ["true"]),
    ({"n": "1"}, ["text"]),
    ({"n": None}, ["null"]),
    ({"n": {"ne": 1}}, ["list", "missing", "null", "text", "true"]),
    ({"n": {"ne": None}}, ["float", "int", "list", "missing", "text", "true"]),
    ({"n": {"in": [1, "1"]}}, ["float", "int", "text"]),
    ({"n": {"in": []}}, []),
    ({"n": {"exists": True}}, ["float", "int", "list", "null", "text", "true"]),
    ({"n": {"exists": False}}, ["missing"]),
    ({"n": {"gt": 0}}, ["float", "int"]),
    ({"n": {"le": 1}}, ["float", "int"]),
    ({"n": {"lt": 1}}, []),
    ({"n": {"gt": ""}}, ["text"]),
    ({"n": {"lt": "2"}}, ["text"]),
    ({"not": {"n": {"gt": 0}}}, ["list", "missing", "null", "text", "true"]),
    ({"not": {"n": {"le": 1}}}, ["list", "missing", "null", "text", "true"]),
    ({}, ["float", "int", "list", "missing", "null", "text", "true"]),
)
"""A filter, and the records of `_kinds` that it lets through."""

NUMBERS: tuple[int | float, ...] = (
    -1e300,
    -float(2**63),
    1 - 2**63,
    -(2**53) - 1,
    -(2**53),
    0.1,
    2**53 - 1,
    float(2**53),
    2**53 + 1,
    float(2**53 + 2),
    10**17 + 1,
    1e17,
    1.2345678901234567e18,
    int(1.2345678901234567e18),
    1234567890123456700,
    2**63 - 1,
    2**63,
    2**63 + 1,
    float(2**63),
    1.2345678901234567e19,
    int(1.2345678901234567e19),
    12345678901234567000,
    2**64 - 1,
    float(2**64),
    1e23,
)
"""Where integers and floats are near each other, or 64 bits end."""

NONE: tuple[Any, ...] = (
    [],
    "lang = 'en'",
    7,
    {"a": {}},
    {"a": {"like": "x"}},
    {"a": {"gt": None}},
    {"a": {"gt": True}},
    {"a": {"lt": [1]}},
    {"a": {"in": 1}},
    {"a": {"in": {"a": 1}}},
    {"a": {"exists": 1}},
    {"a": {"exists": "yes"}},
    {"and": {"a": 1}},
    {"and": [1]},
    {"or": "a"},
    {"or": [[]]},
    {"not": [{"a": 1}]},
    {"not": 1},
    {"a": {"eq": float("nan")}},
    {"a": {"gt": float("inf")}},
    {"a": "nul\0"},
    {"a\0": 1},
    {"a": "x" * 2_000_000},
)
"""What is no filter."""


class FilterClauses:
    """Which records a filter lets through."""

    @clause("memory.filter.before-cut")
    async def test_a_filter_applies_before_the_cut(self, adapter: Memory) -> None:
        """However far down the ranking they are, the records that pass a filter are found, in order and in full."""
        own = space()
        keys = await stored_row(adapter, own, 40)
        for number in (35, 37, 39):
            await adapter.store(
                keys[number], "zebra", namespace=own, embedding=angle(number / 40), metadata={"rare": True}
            )
        for asked in (
            {"embedding": angle(0)},
            {"query": "zebra", "embedding": angle(0)},
            {"query": "zebra", "mode": "text"},
        ):
            found = await adapter.search(namespace=own, filter={"rare": True}, limit=3, **asked)

            assert sorted(keys_of(found)) == [keys[35], keys[37], keys[39]]

    @clause("memory.filter.kinds")
    async def test_kinds_are_not_mixed(self, adapter: Memory) -> None:
        """Numbers compare with numbers and text with text; true is no number; missing is told from null."""
        own = space()
        members = {"int": 1, "float": 1.0, "true": True, "text": "1", "null": None, "list": [1]}
        for key, value in members.items():
            await adapter.store(key, key, namespace=own, embedding=angle(0), metadata={"n": value})
        await adapter.store("missing", "missing", namespace=own, embedding=angle(0), metadata={"m": 1})
        for filter, keys in KINDS:
            found = await adapter.search(embedding=angle(0), namespace=own, filter=filter)

            assert sorted(keys_of(found)) == keys, filter

    @clause("memory.filter.numbers")
    async def test_numbers_are_compared_exactly(self, adapter: Memory) -> None:
        """Integers of 64 bits and floats are equal, less or greater as the numbers are that they stand for."""
        own = space()
        rows = {f"{number:02}": {"n": value} for number, value in enumerate(NUMBERS)}
        for key, metadata in rows.items():
            await adapter.store(key, key, namespace=own, embedding=angle(0), metadata=metadata)
        each: list[Any] = [{"n": wanted} for value in NUMBERS for wanted in (value, {"lt": value}, {"ge": value})]
        for filter in (*each, {"n": {"in": list(NUMBERS[1::2])}}, {"n": {"in": [*range(20), *NUMBERS[::3]]}}):
            expected = [key for key, metadata in rows.items() if passes(filter, metadata)]
            found = await adapter.search(embedding=angle(0), namespace=own, filter=filter, limit=len(rows))

            assert sorted(keys_of(found)) == expected, filter

    @clause("memory.filter.code-points")
    async def test_text_is_ordered_by_code_point(self, adapter: Memory) -> None:
        """Text is less or greater by code point, whatever the locale, the case or the script."""
        own = space()
        texts = ["", "A", "B", "a", "a b", "aa", "b", "\u00e9", "\uffff", "\U0001f701"]
        for number, text in enumerate(texts):
            await adapter.store(f"{number}", number, namespace=own, embedding=angle(0), metadata={"t": text})
        for number, text in enumerate(texts):
            less = await adapter.search(embedding=angle(0), namespace=own, filter={"t": {"lt": text}})

            assert sorted(keys_of(less)) == [f"{each}" for each in range(number)], text

    @clause("memory.filter.brute-force")
    async def test_a_filter_lets_through_what_it_says(self, adapter: Memory) -> None:
        """Whatever the metadata and the filter, the same records are found as by looking at each of them."""
        own = space()
        rows = examples(METADATA, 50)
        for number, metadata in enumerate(rows):
            vector = angle(number / len(rows))
            await adapter.store(f"{number:03}", number, namespace=own, embedding=vector, metadata=metadata)
        for filter in examples(FILTERS, 60):
            expected = [f"{number:03}" for number, metadata in enumerate(rows) if passes(filter, metadata)]
            found = keys_of(await adapter.search(embedding=angle(0), namespace=own, filter=filter, limit=7))

            assert found == expected[:7], filter

    @clause("memory.filter.text-too")
    async def test_a_filter_holds_for_text_too(self, adapter: Memory) -> None:
        """By text, too, only those come that the filter lets through."""
        own = space()
        rows = examples(METADATA, 20)
        for number, metadata in enumerate(rows):
            await adapter.store(f"{number:03}", f"zebra {number}", namespace=own, metadata=metadata)
        for filter in examples(FILTERS, 20):
            expected = [f"{number:03}" for number, metadata in enumerate(rows) if passes(filter, metadata)]
            found = await adapter.search("zebra", namespace=own, filter=filter, mode="text", limit=100)

            assert sorted(keys_of(found)) == expected, filter

    @clause("memory.filter.refused")
    async def test_what_is_no_filter_is_refused(self, adapter: Memory) -> None:
        """A filter that is none is InvalidInput, in a namespace that holds nothing too."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0))
        for namespace in (own, space()):
            for bad in NONE:
                with pytest.raises(InvalidInput):
                    await adapter.search(embedding=angle(0), namespace=namespace, filter=bad)

    @clause("memory.filter.fresh")
    async def test_a_filter_sees_the_last_metadata(self, adapter: Memory) -> None:
        """A filter looks at the metadata that was stored last, and at none of an earlier record."""
        own = space()
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0), metadata={"a": 1, "b": 1})
        await adapter.store("key", "zebra", namespace=own, embedding=angle(0), metadata={"a": 2})

        for filter, keys in (({"a": 1}, []), ({"b": 1}, []), ({"a": 2}, ["key"]), ({"b": {"exists": False}}, ["key"])):
            assert keys_of(await adapter.search(embedding=angle(0), namespace=own, filter=filter)) == keys
