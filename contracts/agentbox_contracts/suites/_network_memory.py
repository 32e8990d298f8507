"""A call of each method of memory, for a network in trouble."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agentbox_contracts.contract import Page
from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Memory, Record
from agentbox_contracts.suites._memory_common import all_keys, all_namespaces, angle, is_there
from agentbox_contracts.suites._network_watch import Sample

__all__ = ["samples"]


def samples() -> dict[str, Sample]:
    """One of each method. A scene is a namespace of its own, or the record in it."""
    return {
        "store": Sample(
            arrange=_space,
            call=lambda memory, space, key: memory.store("key", {"is": space}, namespace=space, embedding=angle(0)),
            is_right=lambda record, space: (record.namespace, record.value) == (space, {"is": space}),
            effects=_records,
        ),
        "search": Sample(
            arrange=_record,
            call=lambda memory, record, key: memory.search(embedding=angle(0), namespace=record.namespace),
            is_right=lambda found, record: [match.record for match in found] == [record],
        ),
        "retrieve": Sample(
            arrange=_record,
            call=lambda memory, record, key: memory.retrieve("key", namespace=record.namespace),
            is_right=lambda found, record: bool(found == record),
        ),
        "delete": Sample(
            arrange=_record,
            call=_deleted,
            is_right=lambda answer, record: answer is None,
            effects=_deletions,
        ),
        "list_keys": Sample(
            arrange=_record,
            call=lambda memory, record, key: memory.list_keys(namespace=record.namespace),
            is_right=lambda page, record: bool(page == Page(items=["key"])),
        ),
        "list_namespaces": Sample(
            arrange=_record,
            call=lambda memory, record, key: all_namespaces(memory),
            is_right=lambda names, record: record.namespace in names,
        ),
    }


async def _space(memory: Memory, word: str) -> str:
    return word


async def _record(memory: Memory, word: str) -> Record:
    return await memory.store("key", {"is": word}, namespace=word, embedding=angle(0))


async def _deleted(memory: Memory, record: Record, key: str | None) -> Any:
    """Deleted once more it is not found, which is as right."""
    with suppress(NotFound):
        return await memory.delete("key", namespace=record.namespace)


async def _records(memory: Memory, space: str) -> int:
    return len(await all_keys(memory, space))


async def _deletions(memory: Memory, record: Record) -> int:
    return int(not await is_there(memory, "key", record.namespace))
