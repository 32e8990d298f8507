"""Filters as SQL, with the meaning that `_filters` gives them: a condition is true or false, and never null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentbox.adapters.memory._filters import EVERYTHING, All, Any_, Compare, Equal, Exists, Filter, Not
from agentbox_contracts.errors import InvalidInput

__all__ = ["Arguments", "condition"]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


MOST = 32_000
"""The server takes 32,767 arguments."""
FEW = 16
"""So many values are looked up one by one in an index; more are compared with each record's."""


class Arguments:
    """The arguments of a statement; adding one gives its place. Text that is there already is not added again."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)
        self._places: dict[str, str] = {}

    def __call__(self, value: Any) -> str:
        if isinstance(value, str) and value in self._places:
            return self._places[value]
        if len(self.values) >= MOST:
            raise InvalidInput(f"filter: it names more than {MOST:,} names and values, which Postgres does not take")
        self.values.append(value)
        place = f"${len(self.values)}"
        if isinstance(value, str):
            self._places[value] = place
        return place


def condition(filter: Filter, prefix: str, arguments: Arguments) -> str:
    """What records must fulfil that pass *filter* and whose keys begin with *prefix*; empty when all do."""
    parts = [] if filter == EVERYTHING else [_sql(filter, arguments)]
    if prefix:
        place = arguments(prefix)
        parts.append(f'record.key >= {place}::text COLLATE "C" AND starts_with(record.key, {place}::text)')
    return "".join(f" AND {part}" for part in parts)


def _sql(filter: Filter, arguments: Arguments) -> str:
    match filter:
        case Equal(name, values):
            if len(values) > FEW:
                return _is_one_of(name, values, arguments)
            return _joined(" OR ", [_equal(name, value, arguments) for value in values], "false")
        case Compare(name, order, value):
            return _compare(arguments(name), _SIGNS[order], value, arguments)
        case Exists(name):
            return f"record.facts ? {arguments(name)}::text"
        case Not(part):
            return f"NOT {_sql(part, arguments)}"
        case All(parts):
            return _joined(" AND ", [_sql(part, arguments) for part in parts], "true")
        case Any_(parts):
            return _joined(" OR ", [_sql(part, arguments) for part in parts], "false")


def _equal(name: str, value: Any, arguments: Arguments) -> str:
    # Containment has an index, and holds where the member is there; equality alone is exact.
    member = arguments(msgspec.json.encode({name: value}).decode())
    exact = f"record.facts -> {arguments(name)}::text = {arguments(msgspec.json.encode(value).decode())}::text::jsonb"
    return f"(record.facts @> {member}::text::jsonb AND {exact})"


def _is_one_of(name: str, values: Sequence[Any], arguments: Arguments) -> str:
    every = arguments([msgspec.json.encode(value).decode() for value in values])
    # What is missing is null, and then so is the comparison.
    return f"coalesce(record.facts -> {arguments(name)}::text = ANY({every}::text[]::jsonb[]), false)"


def _compare(name: str, sign: str, value: int | float | str, arguments: Arguments) -> str:
    have = f"record.facts -> {name}::text"
    if isinstance(value, str):
        kind, compared = "string", f'(record.facts ->> {name}::text) COLLATE "C" {sign} {arguments(value)}::text'
    else:
        kind, compared = "number", f"({have})::numeric {sign} {arguments(repr(value))}::text::numeric"
    return f"CASE WHEN jsonb_typeof({have}) = '{kind}' THEN {compared} ELSE false END"


def _joined(word: str, parts: list[str], none: str) -> str:
    return f"({word.join(parts)})" if parts else none
