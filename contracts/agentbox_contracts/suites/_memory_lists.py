"""Clauses of memory: keys and namespaces, a page at a time."""

from __future__ import annotations

import pytest

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import all_keys, all_namespaces, space
from agentbox_contracts.suites._memory_isolation import ALIKE
from agentbox_contracts.suites.clauses import clause

__all__ = ["ListClauses"]


class ListClauses:
    """list_keys and list_namespaces."""

    @clause("memory.keys.order")
    async def test_keys_are_in_order_of_code_points(self, adapter: Memory) -> None:
        """Keys come in order of code points, whatever the order of writing."""
        own = space()
        for key in ALIKE:
            await adapter.store(key, 1, namespace=own)

        assert (await adapter.list_keys(namespace=own)).items == sorted(ALIKE)

    @clause("memory.keys.pages")
    async def test_keys_come_page_by_page(self, adapter: Memory) -> None:
        """A page has at most *limit* keys and says where the next begins; together they are all, each once."""
        own = space()
        for key in ALIKE:
            await adapter.store(key, 1, namespace=own)
        for limit in (1, 7, len(ALIKE), 1000):
            page = await adapter.list_keys(namespace=own, limit=limit)

            assert len(page.items) == min(limit, len(ALIKE))
            assert (page.next is None) == (limit >= len(ALIKE))
            assert await all_keys(adapter, own, limit=limit) == sorted(ALIKE)

    @clause("memory.keys.after")
    async def test_a_page_begins_behind_any_key(self, adapter: Memory) -> None:
        """*after* need not be a key that is there: what follows it by code point comes."""
        own = space()
        for key in ("a", "c", "e"):
            await adapter.store(key, 1, namespace=own)
        for after, keys in (
            ("a", ["c", "e"]),
            ("b", ["c", "e"]),
            ("e", []),
            ("\U0010ffff", []),
            ("A", ["a", "c", "e"]),
        ):
            assert (await adapter.list_keys(namespace=own, after=after)).items == keys

    @clause("memory.keys.prefix")
    async def test_a_prefix_is_taken_literally(self, adapter: Memory) -> None:
        """Only keys that begin with *prefix*, to the letter, come, page by page too."""
        own = space()
        for key in ALIKE:
            await adapter.store(key, 1, namespace=own)
        for prefix in ("", "a", "a%", "a_", "%", "A", "a/", "e", "\u00e9", "[", "\U0001f701", "nothing"):
            expected = sorted(key for key in ALIKE if key.startswith(prefix))

            assert await all_keys(adapter, own, prefix=prefix, limit=2) == expected, prefix

    @clause("memory.keys.empty")
    async def test_a_namespace_that_holds_nothing_has_no_keys(self, adapter: Memory) -> None:
        """A namespace that holds nothing has no keys, and is no error."""
        page = await adapter.list_keys(namespace=space())

        assert (page.items, page.next) == ([], None)

    @clause("memory.namespaces.order")
    async def test_namespaces_are_in_order_of_code_points(self, adapter: Memory) -> None:
        """Namespaces that hold a record come in order of code points, each once, page by page."""
        own = space()
        names = [f"{own}{name}" for name in ALIKE[:12]]
        for name in names:
            for key in ("one", "two"):
                await adapter.store(key, 1, namespace=name)
        for limit in (1, 5, 1000):
            found = await all_namespaces(adapter, limit=limit, after=own)

            assert [name for name in found if name.startswith(own)] == sorted(names)

    @clause("memory.namespaces.empty")
    async def test_an_empty_namespace_is_not_listed(self, adapter: Memory) -> None:
        """A namespace whose last record was deleted is not listed any more, and is again when one comes."""
        own = space()
        await adapter.store("key", 1, namespace=own)
        shown = [own in await all_namespaces(adapter)]
        await adapter.delete("key", namespace=own)
        shown.append(own in await all_namespaces(adapter))
        await adapter.store("key", 2, namespace=own)
        shown.append(own in await all_namespaces(adapter))

        assert shown == [True, False, True]

    @clause("memory.lists.refused")
    async def test_bad_pages_are_refused(self, adapter: Memory) -> None:
        """A limit or a beginning that is none is InvalidInput; the largest that is allowed is a limit."""
        own = space()
        await adapter.store("key", 1, namespace=own)
        assert (await adapter.list_keys(namespace=own, limit=1000)).items == ["key"]
        for bad in (
            {"limit": 0},
            {"limit": -1},
            {"limit": 1001},
            {"limit": "x"},
            {"after": ""},
            {"after": "nul\0"},
            {"after": 7},
        ):
            for call in (adapter.list_keys, adapter.list_namespaces):
                with pytest.raises(InvalidInput):
                    await call(**bad)
