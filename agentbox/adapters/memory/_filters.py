"""
Filters over metadata: the JSON of a search as a small tree, and whether a record's metadata fits it.

`parse` refuses what is no filter. `fits` is the meaning of one, in Python; a store that answers in its own language
walks the same tree and must agree with it:

- a member equals text, a number, true, false or null; 1 and 1.0 are the same, 1 and true are not;
- a member that is missing equals nothing, so `ne` and `not` hold for it, and `exists` tells it from null;
- numbers are ordered among numbers and text among text, by code point; anything else is neither less nor greater.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.wire import encode

__all__ = [
    "EVERYTHING",
    "All",
    "Any_",
    "Compare",
    "Equal",
    "Exists",
    "Filter",
    "Not",
    "fits",
    "kind_of",
    "nearest",
    "parse",
]

Order = Literal["lt", "le", "gt", "ge"]


@attrs.frozen
class Equal:
    """The member is one of *values*: `eq` with one, `in` with any number."""

    name: str
    values: tuple[Any, ...]


@attrs.frozen
class Compare:
    """The member is a number, or a text, as *value* is, and stands to it as *order* says."""

    name: str
    order: Order
    value: int | float | str


@attrs.frozen
class Exists:
    """The member is there, be it null."""

    name: str


@attrs.frozen
class Not:
    """*part* does not hold."""

    part: Filter


@attrs.frozen
class All:
    """Every part holds; none is always true."""

    parts: tuple[Filter, ...]


@attrs.frozen
class Any_:  # noqa: N801 - `Any` is taken
    """At least one part holds; none is never true."""

    parts: tuple[Filter, ...]


Filter: TypeAlias = Equal | Compare | Exists | Not | All | Any_

EVERYTHING = All(())

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_OPERATORS = ("eq", "ne", "lt", "le", "gt", "ge", "in", "exists")


def parse(filter: Mapping[str, Any] | None) -> Filter:
    """The tree of *filter*; None and `{}` let everything pass. Raises InvalidInput for a filter that is none."""
    return EVERYTHING if filter is None else _parse(filter, "filter")


def fits(filter: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a record with *metadata* passes."""
    match filter:
        case Equal(name, values):
            return name in metadata and any(_same(metadata[name], value) for value in values)
        case Compare(name, order, value):
            have = metadata.get(name)
            return kind_of(have) == kind_of(value) and _ORDERS[order](have, value)
        case Exists(name):
            return name in metadata
        case Not(part):
            return not fits(part, metadata)
        case All(parts):
            return all(fits(part, metadata) for part in parts)
        case Any_(parts):
            return any(fits(part, metadata) for part in parts)


def nearest(value: int | float) -> float:
    """The float that is nearest to *value*; infinite where it is larger than any."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def kind_of(value: Any) -> Literal["number", "text", "other"]:
    """With what *value* can be ordered."""
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else "other"


def _same(have: Any, wanted: Any) -> bool:
    return bool(have == wanted) and isinstance(have, bool) == isinstance(wanted, bool)


def _parse(filter: Any, where: str) -> Filter:
    if not isinstance(filter, Mapping):
        raise InvalidInput(f"{where}: a filter is an object, not {_shown(filter)}")
    parts = tuple(_member(name, wanted, f"{where}.{name}") for name, wanted in filter.items())
    return parts[0] if len(parts) == 1 else All(parts)


def _member(name: str, wanted: Any, where: str) -> Filter:
    if name == "not":
        return Not(_parse(wanted, where))
    if name in ("and", "or"):
        if not isinstance(wanted, (list, tuple)):
            raise InvalidInput(f"{where}: takes a list of filters, not {_shown(wanted)}")
        parts = tuple(_parse(part, f"{where}[{index}]") for index, part in enumerate(wanted))
        return All(parts) if name == "and" else Any_(parts)
    if not isinstance(wanted, Mapping):
        return Equal(name, (_scalar(wanted, where),))
    if not wanted:
        raise InvalidInput(f"{where}: names no comparison; there are {', '.join(_OPERATORS)}")
    parts = tuple(_comparison(name, op, value, f"{where}.{op}") for op, value in wanted.items())
    return parts[0] if len(parts) == 1 else All(parts)


def _comparison(name: str, op: str, value: Any, where: str) -> Filter:
    if op == "eq":
        return Equal(name, (_scalar(value, where),))
    if op == "ne":
        return Not(Equal(name, (_scalar(value, where),)))
    if op == "in":
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"{where}: takes a list of values, not {_shown(value)}")
        return Equal(name, tuple(_scalar(item, f"{where}[{index}]") for index, item in enumerate(value)))
    if op == "exists":
        if not isinstance(value, bool):
            raise InvalidInput(f"{where}: takes true or false, not {_shown(value)}")
        return Exists(name) if value else Not(Exists(name))
    if op in _ORDERS:
        if kind_of(value) == "other":
            raise InvalidInput(f"{where}: takes a number or text, not {_shown(value)}")
        return Compare(name, cast("Order", op), value)
    raise InvalidInput(f"{where}: no such comparison; there are {', '.join(_OPERATORS)}")


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, (Mapping, list, tuple)):
        raise InvalidInput(f"{where}: takes text, a number, true, false or null, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return encode(value)[:40].decode(errors="replace")
