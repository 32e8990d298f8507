"""Clauses of memory: an expired record is invisible at once, to every method."""

from __future__ import annotations

import pytest

from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import (
    BRIEF,
    all_keys,
    all_namespaces,
    angle,
    expired,
    is_there,
    keys_of,
    space,
)
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["ExpiryClauses"]


class ExpiryClauses:
    """Time is the store's: what it says has expired is in no answer."""

    @clause("memory.expiry.retrieve")
    async def test_an_expired_record_is_not_found(self, adapter: Memory) -> None:
        """A record with a time to live is there, and once that is over it is NotFound."""
        own = space()
        await adapter.store("brief", 1, namespace=own, ttl_seconds=BRIEF)
        await adapter.store("long", 1, namespace=own, ttl_seconds=600)

        assert await expired(adapter, "brief", own)
        assert await is_there(adapter, "long", own)

    @clause("memory.expiry.search")
    async def test_an_expired_record_is_in_no_search(self, adapter: Memory) -> None:
        """An expired record is found neither by vector nor by text nor by both, and takes nobody's place."""
        own = space()
        await adapter.store("long", "a zebra", namespace=own, embedding=angle(0.5))
        await adapter.store("brief", "zebra", namespace=own, embedding=angle(0), ttl_seconds=BRIEF)
        await expired(adapter, "brief", own)
        for asked in (
            {"embedding": angle(0)},
            {"query": "zebra", "mode": "text"},
            {"query": "zebra", "embedding": angle(0)},
        ):
            assert keys_of(await adapter.search(namespace=own, limit=1, **asked)) == ["long"]

    @clause("memory.expiry.lists")
    async def test_an_expired_record_is_in_no_list(self, adapter: Memory) -> None:
        """An expired key is not listed, nor is a namespace in which all have expired."""
        own, other = space(), space()
        await adapter.store("brief", 1, namespace=own, ttl_seconds=BRIEF)
        await adapter.store("brief", 1, namespace=other, ttl_seconds=BRIEF)
        await adapter.store("long", 1, namespace=own)
        await expired(adapter, "brief", own)
        await expired(adapter, "brief", other)
        listed = await all_namespaces(adapter)

        assert await all_keys(adapter, own) == ["long"]
        assert (own in listed, other in listed) == (True, False)

    @clause("memory.expiry.delete")
    async def test_an_expired_record_cannot_be_deleted(self, adapter: Memory) -> None:
        """Deleting what has expired is NotFound: it is gone already."""
        own = space()
        await adapter.store("brief", 1, namespace=own, ttl_seconds=BRIEF)
        await expired(adapter, "brief", own)

        with pytest.raises(NotFound):
            await adapter.delete("brief", namespace=own)

    @clause("memory.expiry.anew")
    async def test_stored_after_it_expired_it_is_new(self, adapter: Memory) -> None:
        """What is stored under an expired key is a new record, which lives as long as its own time says."""
        own = space()
        first = await adapter.store("key", 1, namespace=own, metadata={"a": 1}, ttl_seconds=BRIEF)
        await expired(adapter, "key", own)
        second = await adapter.store("key", 2, namespace=own)

        assert second.created_at > first.created_at
        assert (second.value, second.metadata, second.expires_at) == (2, {}, None)
        assert await adapter.retrieve("key", namespace=own) == second

    @clause("memory.expiry.replaced")
    async def test_an_update_replaces_the_time_to_live(self, adapter: Memory) -> None:
        """An update sets the time to live anew: without one the record stays, with one it goes."""
        own = space()
        for key, first, second in (("stays", BRIEF, None), ("goes", None, BRIEF), ("longer", BRIEF, 600)):
            await adapter.store(key, 1, namespace=own, ttl_seconds=first)
            await adapter.store(key, 2, namespace=own, ttl_seconds=second)
        await adapter.store("last", 1, namespace=own, ttl_seconds=BRIEF)

        assert await expired(adapter, "goes", own)
        assert await expired(adapter, "last", own)
        assert await all_keys(adapter, own) == ["longer", "stays"]

    @clause("memory.expiry.reopened")
    async def test_what_expired_does_not_come_back(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """What has expired is not there when the store is opened again, and the rest is."""
        own = space()
        async with open_adapter(manifest) as adapter:
            await adapter.store("brief", 1, namespace=own, embedding=angle(0), ttl_seconds=BRIEF)
            await adapter.store("long", 1, namespace=own, embedding=angle(1), ttl_seconds=600)
            await expired(adapter, "brief", own)
        async with open_adapter(manifest) as adapter:
            assert await all_keys(adapter, own) == ["long"]
            assert keys_of(await adapter.search(embedding=angle(0), namespace=own)) == ["long"]
