"""Clauses of memory: what nobody should store, and somebody will."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import all_keys, keys_of, space
from agentbox_contracts.suites.clauses import clause

__all__ = ["GarbageClauses"]

HOSTILE = (
    "' OR 1=1 --",
    "Robert'); DROP TABLE memory;--",
    "a_b%c",
    "\u00fc\u202eabc",
    "a\nb\r\nc\td",
    "\x01\x1b[31m\x7f",
    " two  spaces ",
    "../../etc/passwd",
    "\u200b\ufeff\uffff\U0010ffff",
    "$(id) `id` ${HOME}",
    "\U0001f701" * 50,
)


def deep(levels: int) -> dict[str, Any]:
    """An object with so many objects inside each other."""
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"d": found}
    return found


REFUSED: tuple[dict[str, Any], ...] = (
    {"value": float("nan")},
    {"value": float("-inf")},
    {"value": [1, {"a": float("nan")}]},
    {"value": object()},
    {"value": b"bytes"},
    {"value": {1: "x"}},
    {"value": "nul\0"},
    {"value": ["\ud800"]},
    {"value": {"nul\0": 1}},
    {"value": "x" * 1_048_576},
    {"value": "x" * 50_000_000},
    {"value": ["x" * 1000] * 1100},
    {"value": deep(200)},
    {"metadata": {"n": float("nan")}},
    {"metadata": {"n": object()}},
    {"metadata": {1: "x"}},
    {"metadata": {"nul\0": 1}},
    {"metadata": {"big": "x" * 2_000_000}},
    {"metadata": deep(200)},
    {"metadata": []},
    {"metadata": "x"},
    {"text": "nul\0"},
    {"text": "\ud800"},
    {"text": "x" * 1_000_001},
    {"text": 7},
    {"ttl_seconds": 0},
    {"ttl_seconds": -1},
    {"ttl_seconds": float("nan")},
    {"ttl_seconds": float("inf")},
    {"ttl_seconds": "soon"},
    {"source": ""},
    {"source": "x" * 501},
    {"session_id": 7},
    {"bead_id": "nul\0"},
    {"colour": "red"},
)


class GarbageClauses:
    """Refused with nothing stored, or kept exactly."""

    @clause("memory.garbage.refused")
    async def test_bad_input_is_refused_and_nothing_is_stored(self, adapter: Memory) -> None:
        """What the contract does not allow is InvalidInput, which names the call, and nothing is stored or changed."""
        own = space()
        before = await adapter.store("there", "zebra", namespace=own)
        for bad in REFUSED:
            for key in ("there", "new"):
                with pytest.raises(InvalidInput) as caught:
                    await adapter.store(key, **{"value": "otter", "namespace": own, **bad})
                named = (caught.value.slot, caught.value.method, caught.value.code)
                assert named == ("memory", "store", "invalid_input")

        assert await all_keys(adapter, own) == ["there"]
        assert await adapter.retrieve("there", namespace=own) == before
        assert keys_of(await adapter.search("otter", namespace=own, mode="text")) == []

    @clause("memory.garbage.kept")
    async def test_hostile_text_is_text(self, adapter: Memory) -> None:
        """Hostile text is text: in key, value, metadata and provenance it comes back exactly."""
        own = space()
        for name in HOSTILE:
            came: dict[str, Any] = {"source": name, "session_id": name, "bead_id": name}
            await adapter.store(name, {name: name}, namespace=own, metadata={name: name}, text=name, **came)
            kept = await adapter.retrieve(name, namespace=own)

            assert (kept.key, kept.value, kept.metadata) == (name, {name: name}, {name: name})
            assert {part: getattr(kept, part) for part in came} == came

    @clause("memory.garbage.most")
    async def test_the_most_that_is_allowed_is_kept(self, adapter: Memory) -> None:
        """The most that is allowed is kept and found: a value and metadata of almost 1 MiB, and the longest text."""
        own = space()
        big = "x" * 1_048_000
        await adapter.store("value", {"v": big}, namespace=own, text="zebra")
        await adapter.store("metadata", 1, namespace=own, text="zebra otter", metadata={"v": big, "n": 1})
        await adapter.store("deep", deep(64), namespace=own, text="heron", metadata=deep(64))
        await adapter.store("text", 1, namespace=own, text="word " * 199_999 + "last")

        assert (await adapter.retrieve("value", namespace=own)).value == {"v": big}
        found = await adapter.search("otter", namespace=own, mode="text", filter={"n": 1})
        assert [match.record.metadata for match in found] == [{"v": big, "n": 1}]
        assert (await adapter.retrieve("deep", namespace=own)).metadata == deep(64)
        assert keys_of(await adapter.search("last", namespace=own, mode="text")) == ["text"]
