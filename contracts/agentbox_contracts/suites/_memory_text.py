"""Clauses of memory: which text finds a record, and that a query is words and no language."""

from __future__ import annotations

from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import angle, keys_of, space
from agentbox_contracts.suites.clauses import clause

__all__ = ["TextClauses"]

SYNTAX = (
    '"',
    "'",
    '"zebra',
    "zebra*",
    "zebra AND",
    "NOT zebra",
    "zebra OR",
    "NEAR(zebra grass, 5)",
    "value : zebra",
    "zebra:*",
    "zebra & | ! <-> ()",
    "(zebra",
    "zebra)",
    "zebra <2> grass",
    "^zebra",
    "-zebra",
    "+zebra",
    "zebra; DROP TABLE memory;--",
    "zebra' OR '1'='1",
    "{zebra grass}: x",
    "zebra\\",
    "zebra \\' \\: \\\\",
    "%zebra%",
    "$1 zebra",
    "zebra:A",
    "\U0001f993 zebra",
)
"""What a full-text engine might take for its own language; each has the word zebra in it, but the first two."""


class TextClauses:
    """The text of a record, and the words of a query."""

    @clause("memory.text.syntax")
    async def test_a_query_is_words(self, adapter: Memory) -> None:
        """A query that looks like a full-text engine's language is words: never an error, and its words are found."""
        own = space()
        await adapter.store("zebra", "a zebra in the grass", namespace=own)
        await adapter.store("otter", "an otter in the lake", namespace=own)
        for query in SYNTAX:
            found = keys_of(await adapter.search(query, namespace=own, mode="text"))
            await adapter.search(query, namespace=own)

            assert found[:1] == (["zebra"] if "zebra" in query else []), query

    @clause("memory.text.no-words")
    async def test_a_query_without_words_finds_nothing(self, adapter: Memory) -> None:
        """A query without a word finds nothing by text, and is no error."""
        own = space()
        await adapter.store("key", "zebra ... ?!", namespace=own)
        for query in ("...", " ", "?!", "\t\n", "\u2014", "()", "''"):
            assert await adapter.search(query, namespace=own, mode="text") == [], query

    @clause("memory.text.nested")
    async def test_texts_within_a_value_find_it(self, adapter: Memory) -> None:
        """A value that is no text is found by the texts within it, however deep."""
        own = space()
        await adapter.store("deep", {"a": [{"b": ["zebra", 7]}, "otter"], "n": None}, namespace=own)
        await adapter.store("list", ["heron", ["ibis"]], namespace=own)
        await adapter.store("text", "plain stork", namespace=own)
        await adapter.store("number", 42, namespace=own)
        for word, key in (("zebra", "deep"), ("otter", "deep"), ("heron", "list"), ("ibis", "list"), ("stork", "text")):
            assert keys_of(await adapter.search(word, namespace=own, mode="text")) == [key], word

    @clause("memory.text.given")
    async def test_the_text_that_is_given_counts(self, adapter: Memory) -> None:
        """Where *text* is given, that is what a record is found by, and the value is not."""
        own = space()
        await adapter.store("key", "about zebras", namespace=own, text="about otters")

        assert keys_of(await adapter.search("otters", namespace=own, mode="text")) == ["key"]
        assert await adapter.search("zebras", namespace=own, mode="text") == []
        assert (await adapter.retrieve("key", namespace=own)).value == "about zebras"

    @clause("memory.text.long")
    async def test_long_text_is_found_by_its_end(self, adapter: Memory) -> None:
        """A long text is found by a passage at its end as well as by its beginning, and once."""
        own = space()
        filler = " ".join(f"filler{number}" for number in range(6000))
        await adapter.store("long", f"beginning {filler} platypus burrows by the river", namespace=own)
        await adapter.store("short", "something else", namespace=own)
        for query in ("platypus burrows by the river", "beginning", "filler3000"):
            for mode in ("text", "hybrid"):
                found = await adapter.search(query, namespace=own, mode=mode, explain=True)

                assert keys_of(found)[:1] == ["long"], query
                assert keys_of(found).count("long") == 1
            assert query.split()[0] in (found[0].explanation.passage or "").lower(), query  # type: ignore[union-attr]

    @clause("memory.text.whole-words")
    async def test_words_are_whole_words(self, adapter: Memory) -> None:
        """By text a word is found and no part of it: `cat` does not find `concatenate`."""
        own = space()
        await adapter.store("part", "concatenate", namespace=own)
        await adapter.store("word", "the cat sat", namespace=own)

        assert keys_of(await adapter.search("cat", namespace=own, mode="text")) == ["word"]

    @clause("memory.text.beside-vectors")
    async def test_text_is_searched_beside_brought_vectors(self, adapter: Memory) -> None:
        """Records with vectors of the caller's own are found by their text too."""
        own = space()
        await adapter.store("zebra", "zebra in grass", namespace=own, embedding=angle(0))
        await adapter.store("otter", "otter in lake", namespace=own, embedding=angle(0))

        assert keys_of(await adapter.search("otter", namespace=own, mode="text")) == ["otter"]
