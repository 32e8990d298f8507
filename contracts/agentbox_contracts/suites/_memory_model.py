"""
Memory in plain Python: what the port promises of records, filters and vector search, without a store or an index.

`passes` is the meaning of a filter. `Model` holds one namespace whose vectors callers bring themselves: each of its
methods gives what the port should give, or raises what the port raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbox_contracts.errors import NotFound
from agentbox_contracts.suites._memory_common import cosine
from agentbox_contracts.wire import encode

__all__ = ["Kept", "Model", "passes"]


def passes(filter: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a record with *metadata* is let through: every member of the filter must hold."""
    return all(_holds(name, wanted, metadata) for name, wanted in filter.items())


def _holds(name: str, wanted: Any, metadata: Mapping[str, Any]) -> bool:
    if name == "and":
        return all(passes(part, metadata) for part in wanted)
    if name == "or":
        return any(passes(part, metadata) for part in wanted)
    if name == "not":
        return not passes(wanted, metadata)
    asked = wanted if isinstance(wanted, dict) else {"eq": wanted}
    return all(_compares(how, value, name, metadata) for how, value in asked.items())


def _compares(how: str, value: Any, name: str, metadata: Mapping[str, Any]) -> bool:
    if how == "exists":
        return (name in metadata) is value
    if how == "ne":
        return not _compares("eq", value, name, metadata)
    if name not in metadata:
        return False
    have = metadata[name]
    if how == "eq":
        return _same(have, value)
    if how == "in":
        return any(_same(have, each) for each in value)
    if _kind(have) != _kind(value) or _kind(have) not in (str, float):
        return False
    return bool({"lt": have < value, "le": have <= value, "gt": have > value, "ge": have >= value}[how])


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _same(one: Any, other: Any) -> bool:
    return _kind(one) is _kind(other) and bool(one == other)


@attrs.frozen
class Kept:
    """A record of the model, and the order in which it was first written."""

    key: str
    value: Any
    vector: Sequence[float]
    metadata: Mapping[str, Any]


class Model:
    """One namespace."""

    def __init__(self) -> None:
        self.records: dict[str, Kept] = {}

    def store(self, key: str, value: Any, *, embedding: Sequence[float], metadata: Mapping[str, Any]) -> Kept:
        """Put the record there, whatever was there."""
        self.records[key] = Kept(key, value, embedding, metadata)
        return self.records[key]

    def retrieve(self, key: str) -> Kept:
        """The record of that key."""
        if key not in self.records:
            raise NotFound(key)
        return self.records[key]

    def delete(self, key: str) -> None:
        """Forget it."""
        self.retrieve(key)
        del self.records[key]

    def list_keys(self, prefix: str = "") -> list[str]:
        """The keys in order of code points, which is Python's."""
        return sorted(key for key in self.records if key.startswith(prefix))

    def search(self, embedding: Sequence[float], *, filter: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
        """The keys that pass, the most alike first; those with the same content in one list, by code point."""
        passing = [r for r in self.records.values() if r.key.startswith(prefix) and passes(filter, r.metadata)]
        ranked = sorted(passing, key=lambda r: (-round(cosine(embedding, r.vector), 6), r.key))
        groups: dict[Any, list[str]] = {}
        for record in ranked:
            groups.setdefault((encode(record.value), tuple(record.vector)), []).append(record.key)
        return list(groups.values())
