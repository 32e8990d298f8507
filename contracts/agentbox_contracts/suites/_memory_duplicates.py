"""Clauses of memory: the same content twice is reported when it is written, and comes once when it is found."""

from __future__ import annotations

from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import BRIEF, all_keys, angle, expired, keys_of, space
from agentbox_contracts.suites.clauses import clause

__all__ = ["DuplicateClauses"]


class DuplicateClauses:
    """`duplicate_of` and `duplicates`."""

    @clause("memory.duplicate.reported")
    async def test_the_same_content_is_reported(self, adapter: Memory) -> None:
        """The same content under another key is kept, and `duplicate_of` names the key that held it."""
        own = space()
        first = await adapter.store("first", {"a": "zebra"}, namespace=own)
        second = await adapter.store("second", {"a": "zebra"}, namespace=own)

        assert (first.duplicate_of, second.duplicate_of) == (None, "first")
        assert await adapter.retrieve("second", namespace=own) == second
        assert await all_keys(adapter, own) == ["first", "second"]

    @clause("memory.duplicate.not-itself")
    async def test_nothing_is_its_own_duplicate(self, adapter: Memory) -> None:
        """Storing the same again under the same key is no duplicate."""
        own = space()
        await adapter.store("key", "zebra", namespace=own)
        again = await adapter.store("key", "zebra", namespace=own)

        assert again.duplicate_of is None

    @clause("memory.duplicate.only-exact")
    async def test_other_content_is_no_duplicate(self, adapter: Memory) -> None:
        """What differs in its value is no duplicate, however little; nor is the same in another namespace."""
        own = space()
        values = ("zebra", "Zebra", "zebra ", ["zebra"], {"a": "zebra"}, {"b": "zebra"}, 1, 1.5, True, "1", None)
        for number, value in enumerate(values):
            assert (await adapter.store(f"{number}", value, namespace=own)).duplicate_of is None, value
        assert (await adapter.store("other", "zebra", namespace=space())).duplicate_of is None

    @clause("memory.duplicate.gone")
    async def test_what_is_gone_has_no_duplicates(self, adapter: Memory) -> None:
        """What was deleted, changed or has expired is not what a later record is a duplicate of."""
        own = space()
        await adapter.store("deleted", "zebra", namespace=own)
        await adapter.delete("deleted", namespace=own)
        await adapter.store("changed", "zebra", namespace=own)
        await adapter.store("changed", "otter", namespace=own)
        await adapter.store("brief", "zebra", namespace=own, ttl_seconds=BRIEF)
        await expired(adapter, "brief", own)

        assert (await adapter.store("key", "zebra", namespace=own)).duplicate_of is None

    @clause("memory.duplicate.found-once")
    async def test_duplicates_are_found_once(self, adapter: Memory) -> None:
        """A search gives records with the same content once, with the keys of the others, and fills its limit."""
        own = space()
        for key in ("c", "a", "b"):
            await adapter.store(key, "zebra", namespace=own, embedding=angle(0))
        await adapter.store("other", "a zebra", namespace=own, embedding=angle(0.5))
        for asked in (
            {"embedding": angle(0)},
            {"query": "zebra", "mode": "text"},
            {"query": "zebra", "embedding": angle(0)},
        ):
            found = await adapter.search(namespace=own, limit=2, **asked)

            assert sorted((match.record.key, *match.duplicates) for match in found) == [("a", "b", "c"), ("other",)], (
                asked
            )

    @clause("memory.duplicate.filtered")
    async def test_duplicates_that_do_not_pass_are_not_told(self, adapter: Memory) -> None:
        """A duplicate that the filter or the prefix does not let through is neither found nor told."""
        own = space()
        for key, lang in (("a-1", "en"), ("a-2", "de"), ("b-3", "de")):
            await adapter.store(key, "zebra", namespace=own, embedding=angle(0), metadata={"lang": lang})
        found = await adapter.search(embedding=angle(0), namespace=own, filter={"lang": "de"})
        narrow = await adapter.search(embedding=angle(0), namespace=own, filter={"lang": "de"}, prefix="a-")

        assert [(match.record.key, match.duplicates) for match in found] == [("a-2", ("b-3",))]
        assert [(match.record.key, match.duplicates) for match in narrow] == [("a-2", ())]

    @clause("memory.duplicate.outlives")
    async def test_a_duplicate_outlives_the_first(self, adapter: Memory) -> None:
        """When the first of several is deleted the others are still there, and found."""
        own = space()
        for key in ("a", "b"):
            await adapter.store(key, "zebra", namespace=own, embedding=angle(0))
        await adapter.delete("a", namespace=own)
        for asked in ({"embedding": angle(0)}, {"query": "zebra", "mode": "text"}):
            found = await adapter.search(namespace=own, **asked)

            assert [(match.record.key, match.duplicates) for match in found] == [("b", ())]
        assert keys_of(found) == await all_keys(adapter, own)
