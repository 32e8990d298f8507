"""Filters as SQL, with the meaning that `_filters` gives them: a condition is true or false, and never null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from agentbox.adapters.memory._filters import (
    EVERYTHING,
    All,
    Any_,
    Compare,
    Equal,
    Exists,
    Filter,
    Not,
    kind_of,
    nearest,
)
from agentbox_contracts.errors import InvalidInput

__all__ = ["Arguments", "condition"]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


MOST = 32_000
"""The server takes 32,767 arguments."""
EXACT = 2**53
"""Up to here a float is written down in decimals that say what it is."""
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
            large = [value for value in values if _is_large(value)]
            small = [value for value in values if not _is_large(value)]
            if len(small) > FEW:
                parts = [_is_one_of(name, small, arguments)]
            else:
                parts = [_equal(name, value, arguments) for value in small]
            parts += [_is_large_one_of(name, large, arguments)] if large else []
            return _joined(" OR ", parts, "false")
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


def _is_large_one_of(name: str, values: Sequence[int | float], arguments: Arguments) -> str:
    have = f"record.facts -> {arguments(name)}::text"
    floats = arguments([near for value in values if (near := nearest(value)) == value])
    integers = arguments([str(int(value)) for value in values])
    as_float = f"::float8 = ANY({floats}::float8[])"
    as_integer = f"({have})::numeric = ANY({integers}::text[]::numeric[])"
    compared = _either(arguments(name), as_float, as_integer)
    return f"CASE WHEN jsonb_typeof({have}) = 'number' THEN {compared} ELSE false END"


def _is_large(value: Any) -> bool:
    """Whether it is a number whose float, as decimals, may be another number: `1e23` is less than it says."""
    return kind_of(value) == "number" and abs(value) >= EXACT


def _either(name: str, as_float: str, as_integer: str) -> str:
    """A float is compared as a float, which is what it was written down as; an integer, and what is small, exactly."""
    have = f"record.metadata ->> {name}::text"
    return f"CASE WHEN {have} ~ '[.eE]' THEN ({have}){as_float} ELSE {as_integer} END"


def _limit(value: int, sign: str) -> float:
    """The float to which floats stand as *sign* says when they so stand to *value*."""
    near = nearest(value)
    if sign in ("<", ">="):
        return near if near >= value else math.nextafter(near, math.inf)
    return near if near <= value else math.nextafter(near, -math.inf)


def _compare(name: str, sign: str, value: int | float | str, arguments: Arguments) -> str:
    have = f"record.facts -> {name}::text"
    if isinstance(value, str):
        kind, compared = "string", f'(record.facts ->> {name}::text) COLLATE "C" {sign} {arguments(value)}::text'
    elif _is_large(value):
        limit, integer = arguments(_limit(int(value), sign)), arguments(str(int(value)))
        as_float, as_integer = f"::float8 {sign} {limit}::float8", f"({have})::numeric {sign} {integer}::text::numeric"
        kind, compared = "number", _either(name, as_float, as_integer)
    else:
        kind, compared = "number", f"({have})::numeric {sign} {arguments(repr(value))}::text::numeric"
    return f"CASE WHEN jsonb_typeof({have}) = '{kind}' THEN {compared} ELSE false END"


def _joined(word: str, parts: list[str], none: str) -> str:
    return f"({word.join(parts)})" if parts else none
