"""Clauses of memory: what is stored comes back as it was, until it is replaced or forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import all_keys, angle, is_there, keys_of, space
from agentbox_contracts.suites._memory_random import examples
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter
from agentbox_contracts.wire import encode

__all__ = ["RecordClauses"]

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1 << 80,
    0.1,
    -0.0,
    1e308,
    5e-324,
    1e3,
    "",
    "x" * 1_000_000,
    "\x01\x1b[31m\x7f\u202e\u200b\ufeff\uffff\U0010ffff e\u0301 \u00e9",
    [],
    {},
    [1, 1.0, True, "1", None],
    {"": {"a.b": [[]], "$ref": "#", "__proto__": {"x": 1}}, "value": {"key": "key"}},
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class RecordClauses:
    """store, retrieve and delete."""

    @clause("memory.store.kept")
    async def test_what_is_stored_comes_back(self, adapter: Memory) -> None:
        """What `store` returns is the record, and `retrieve` gives the same."""
        fields: dict[str, Any] = {"metadata": {"lang": "en", "tags": ["a"]}, "source": "notes.md"}
        record = await adapter.store("key", {"a": [1]}, namespace=(own := space()), ttl_seconds=600, **fields)

        assert (record.key, record.namespace, record.value, record.metadata) == (
            "key",
            own,
            {"a": [1]},
            fields["metadata"],
        )
        assert await adapter.retrieve("key", namespace=own) == record

    @clause("memory.store.times")
    async def test_a_record_tells_its_times(self, adapter: Memory) -> None:
        """A record tells when it was made, when it was changed last, and when it expires: that many seconds later."""
        own = space()
        first = await adapter.store("key", 1, namespace=own, ttl_seconds=600)
        second = await adapter.store("key", 2, namespace=own)

        assert first.created_at == first.updated_at
        assert first.expires_at is not None
        assert abs((first.expires_at - first.updated_at).total_seconds() - 600) < 1
        assert (second.created_at, second.expires_at) == (first.created_at, None)
        assert second.updated_at >= first.updated_at

    @clause("memory.store.provenance")
    async def test_where_it_came_from_is_kept(self, adapter: Memory) -> None:
        """Source, session and bead of a record are kept, found with it, and replaced with it."""
        own = space()
        came: dict[str, Any] = {"source": "notes.md", "session_id": "s-1", "bead_id": "bd-7k2f"}
        await adapter.store("key", "whence", namespace=own, **came)
        kept = await adapter.retrieve("key", namespace=own)
        found = await adapter.search("whence", namespace=own, mode="text")
        await adapter.store("key", "whence", namespace=own, source="other.md")
        replaced = await adapter.retrieve("key", namespace=own)

        assert {name: getattr(kept, name) for name in came} == came
        assert [match.record for match in found] == [kept]
        assert (replaced.source, replaced.session_id, replaced.bead_id) == ("other.md", None, None)

    @clause("memory.store.values-exact")
    async def test_any_json_comes_back_exactly(self, adapter: Memory) -> None:
        """A value is any JSON and comes back exactly, numbers with their type; so does metadata."""
        own = space()
        for value in (*VALUES, *examples(JSON, 40)):
            record = await adapter.store(
                "key", value, namespace=own, metadata={"n": value} if value != VALUES[11] else {}
            )
            kept = await adapter.retrieve("key", namespace=own)

            assert encode(kept.value) == encode(value), "a value changed"
            assert encode(kept.metadata) == encode(record.metadata), "metadata changed"
            assert kept == record

    @clause("memory.store.found-exact")
    async def test_what_is_found_is_what_is_stored(self, adapter: Memory) -> None:
        """The record of a match is the one that `retrieve` gives."""
        own = space()
        stored = await adapter.store("key", {"a": [1, 1.0]}, namespace=own, embedding=angle(0), metadata={"n": 1e3})
        found = await adapter.search(embedding=angle(0), namespace=own)

        assert [encode(match.record) for match in found] == [encode(stored)]

    @clause("memory.store.replaced")
    async def test_storing_again_replaces(self, adapter: Memory) -> None:
        """Storing under the same key replaces value and metadata wholly, and it is one record."""
        own = space()
        await adapter.store("key", {"a": 1, "b": 2}, namespace=own, metadata={"x": 1, "y": 2})
        await adapter.store("key", {"a": 3}, namespace=own, metadata={"x": 4})
        record = await adapter.retrieve("key", namespace=own)

        assert (record.value, record.metadata) == ({"a": 3}, {"x": 4})
        assert await all_keys(adapter, own) == ["key"]

    @clause("memory.store.old-vector-gone")
    async def test_an_update_drops_the_old_vector(self, adapter: Memory) -> None:
        """After an update nothing is found by the old vector: there is one match, and its score is the new one's."""
        own = space()
        await adapter.store("key", 1, namespace=own, embedding=angle(0))
        await adapter.store("key", 2, namespace=own, embedding=angle(1))
        old = await adapter.search(embedding=angle(0), namespace=own)
        new = await adapter.search(embedding=angle(1), namespace=own)

        assert [(match.record.value, round(match.score, 2)) for match in old] in ([(2, 0.0)], [(2, -0.0)])
        assert [(match.record.value, round(match.score, 2)) for match in new] == [(2, 1.0)]

    @clause("memory.store.old-text-gone")
    async def test_an_update_drops_the_old_text(self, adapter: Memory) -> None:
        """After an update the old words find nothing and the new ones find it."""
        own = space()
        await adapter.store("key", "a word about zebras", namespace=own)
        await adapter.store("key", "a word about otters", namespace=own)

        assert keys_of(await adapter.search("zebras", namespace=own, mode="text")) == []
        assert keys_of(await adapter.search("otters", namespace=own, mode="text")) == ["key"]

    @clause("memory.retrieve.missing")
    async def test_what_is_not_there_is_not_found(self, adapter: Memory) -> None:
        """A key that is not there is NotFound, which names it, also beside others like it and in another namespace."""
        own = space()
        await adapter.store("key", 1, namespace=own)
        for key, namespace in (("other", own), ("key", space()), ("ke", own), ("key ", own)):
            with pytest.raises(NotFound) as caught:
                await adapter.retrieve(key, namespace=namespace)
            assert caught.value.id == key

    @clause("memory.delete.gone")
    async def test_what_is_deleted_is_gone(self, adapter: Memory) -> None:
        """What was deleted is in no answer of any method, and deleting it again is NotFound."""
        own = space()
        await adapter.store("key", "about zebras", namespace=own, embedding=angle(0))
        assert await adapter.delete("key", namespace=own) is None  # type: ignore[func-returns-value]

        assert not await is_there(adapter, "key", own)
        assert await adapter.search(embedding=angle(0), namespace=own) == []
        assert await adapter.search("zebras", namespace=own, mode="text") == []
        assert await all_keys(adapter, own) == []
        with pytest.raises(NotFound):
            await adapter.delete("key", namespace=own)

    @clause("memory.delete.only-it")
    async def test_only_what_was_named_is_deleted(self, adapter: Memory) -> None:
        """Deleting one key leaves every other one, and the same key of another namespace."""
        own, other = space(), space()
        names = ("key", "key2", "ke", "KEY", "k%", "k_y")
        for name in names:
            await adapter.store(name, name, namespace=own)
        await adapter.store("key", 1, namespace=other)
        await adapter.delete("key", namespace=own)
        await adapter.delete("k%", namespace=own)

        assert sorted(await all_keys(adapter, own)) == sorted({*names} - {"key", "k%"})
        assert await all_keys(adapter, other) == ["key"]

    @clause("memory.delete.final")
    async def test_what_is_deleted_stays_deleted(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """What was deleted stays so after reopening, for whoever looks; only the rest is there."""
        own = space()
        async with open_adapter(manifest) as adapter:
            keys = [f"key-{number}" for number in range(20)]
            await asyncio.gather(*(adapter.store(key, key, namespace=own, embedding=angle(0)) for key in keys))
            await asyncio.gather(*(adapter.delete(key, namespace=own) for key in keys[::2]))
        async with open_adapter(manifest) as adapter:
            found = keys_of(await adapter.search(embedding=angle(0), namespace=own, limit=100))

            assert sorted(found) == sorted(await all_keys(adapter, own)) == sorted(keys[1::2])

    @clause("memory.delete.anew")
    async def test_stored_after_deletion_it_is_new(self, adapter: Memory) -> None:
        """What is stored again after it was deleted is a new record, with nothing of the old one."""
        own = space()
        first = await adapter.store(
            "key", "zebras", namespace=own, metadata={"x": 1}, source="notes.md", ttl_seconds=600
        )
        await adapter.delete("key", namespace=own)
        second = await adapter.store("key", "otters", namespace=own)

        assert second.created_at > first.created_at
        assert (second.metadata, second.source, second.expires_at) == ({}, None, None)
        assert await adapter.search("zebras", namespace=own, mode="text") == []

    @clause("memory.ack.reopened")
    async def test_what_was_acknowledged_is_there_after_reopening(
        self, open_adapter: OpenAdapter, manifest: str
    ) -> None:
        """What was acknowledged is there when the store is opened again, and is found by vector and by text."""
        own, words = space(), space()
        async with open_adapter(manifest) as adapter:
            numbers = range(30)
            made = await asyncio.gather(
                *(adapter.store(f"{n:02}", n, namespace=own, embedding=angle(n / 30)) for n in numbers)
            )
            await asyncio.gather(*(adapter.store(f"{n:02}", f"number word{n}", namespace=words) for n in numbers))
        async with open_adapter(manifest) as adapter:
            found = await adapter.search(embedding=angle(0), namespace=own, limit=30)
            by_text = await adapter.search("number", namespace=words, mode="text", limit=30)

        assert [match.record for match in found] == [attrs.evolve(record) for record in made]
        assert sorted(keys_of(by_text)) == [record.key for record in made]
