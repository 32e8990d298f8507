"""Seeing at once that many values are as they should be. Whatever is in doubt is left to who looks at each."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from operator import attrgetter, is_not
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import attrs
import msgspec

__all__ = ["JSON_DEPTH", "JSON_SCALARS", "JSON_SIZE", "are_surely_json", "is_utf8", "quick"]

JSON_SIZE = 1_048_576
JSON_DEPTH = 64
JSON_SCALARS = (bool, int, float, type(None))
SHALLOW = 6
"""Up to how many levels JSON is checked by decoding it; what is deeper is walked."""

Fine = Callable[[Sequence[Any]], bool]

_json_encode = msgspec.json.Encoder().encode
_NESTING = {dict, list}
_PLAIN = {str, *JSON_SCALARS, *_NESTING}


def is_utf8(text: str) -> bool:
    """Whether *text* can be written down."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def are_surely_json(values: list[Any]) -> bool:
    """Whether it can be seen without looking at each part: they can be written down, and all in them is plain."""
    try:
        encoded = _json_encode(values)  # which ends where something is within itself
        if len(encoded) > JSON_SIZE:
            middle = len(values) // 2  # together they may be longer than one may be
            return middle > 0 and are_surely_json(values[:middle]) and are_surely_json(values[middle:])
        if b"\\u0000" in encoded:
            return False
        # Of one value what comes back is soonest compared, of many what they are is soonest asked.
        plain = len(values) > 1 and _are_plain(values)
        return plain or bool(_shallow_decoder().decode(encoded) == values)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return False


def _are_plain(values: list[Any]) -> bool:
    """Whether *values*, and what is in them, are of the types that JSON has; found out for a whole level at once."""
    for _ in range(JSON_DEPTH):
        kinds = set(map(type, values))
        if not kinds <= _PLAIN:
            return False
        if float in kinds and not all(math.isfinite(value) for value in values if type(value) is float):
            return False
        if kinds.isdisjoint(_NESTING):
            return True
        objects, arrays = _of(dict, values, kinds), _of(list, values, kinds)
        if not set(map(type, set().union(*objects))) <= {str}:
            return False
        values = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
    return False


def _of(kind: type, values: list[Any], kinds: set[type]) -> list[Any]:
    """Those of *values* that are of *kind*, when *kinds* are what there is."""
    if kind not in kinds:
        return []
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]


@cache
def _shallow_decoder() -> msgspec.json.Decoder[Any]:
    """Decodes a list of JSON values that are nested no deeper than SHALLOW."""
    scalar: Any = str | int | float | bool | None
    kind = scalar
    for _ in range(SHALLOW):
        kind = scalar | list[kind] | dict[str, kind]  # type: ignore[valid-type]
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


@cache
def quick(kind: type) -> Fine:
    """
    Whether values of *kind* are surely as they should be, found out for many at once; False only says that it is not
    sure.

    It can tell for a kind whose fields are all scalars or any JSON. A list may hold thousands of those, and looking at
    each field of each by itself would cost more than writing them to the disk.
    """
    hints = get_type_hints(kind, include_extras=True)
    sorts = {name: _scalars(hint) for name, hint in hints.items()}
    if None in sorts.values():
        return lambda values: False
    loose = [attrgetter(name) for name, sort in sorts.items() if sort == {Any}]
    firm = {name: hint for name, hint in hints.items() if sorts[name] != {Any}}
    needed = {field.name for field in attrs.fields(kind) if field.default is not None}
    of_text = _all_text(firm, needed)
    as_mirrored = _mirrored(kind.__name__, firm, needed, [name for name in firm if sorts[name] != {str}])

    def is_fine(values: Sequence[Any]) -> bool:
        # Columns are worth their while only when they are long.
        return ((len(values) > 1 and of_text(values)) or as_mirrored(values)) and all(
            are_surely_json(list(map(getter, values))) for getter in loose
        )

    return is_fine


def _all_text(hints: dict[str, Any], needed: set[str]) -> Fine:
    """Sure when each field is text of the right length in all values, or None in all: a look at each column tells."""
    columns = [(attrgetter(name), name in needed, _bounds(hint)) for name, hint in hints.items()]

    def is_fine(values: Sequence[Any]) -> bool:
        texts: list[str] = []
        for getter, is_needed, bounds in columns:
            column = list(map(getter, values))
            if not is_needed and column.count(None) == len(column):
                continue
            if bounds is None or set(map(type, column)) != {str}:
                return False
            lengths = set(map(len, column))
            if min(lengths) < bounds[0] or max(lengths) > bounds[1]:
                return False
            texts += column
        text = "".join(texts)
        return "\0" not in text and (text.isascii() or is_utf8(text))

    return is_fine


def _bounds(hint: Any) -> tuple[int, int] | None:
    """The least and the greatest length of the text that *hint* allows; None when it is no text, or more is asked."""
    is_one = get_origin(hint) is Annotated or not get_args(hint)
    kinds = [hint] if is_one else [part for part in get_args(hint) if part is not type(None)]
    if len(kinds) != 1:
        return None
    kind, metas = kinds[0], [msgspec.Meta()]
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
    if kind is not str or len(metas) > 1 or type(meta := metas[0]) is not msgspec.Meta:
        return None
    least, most = meta.min_length, meta.max_length
    if meta != msgspec.Meta(min_length=least, max_length=most):
        return None
    return least or 0, sys.maxsize if most is None else most


def _mirrored(name: str, hints: dict[str, Any], needed: set[str], others: Sequence[str]) -> Fine:
    """Sure when a conversion of all of them finds nothing wrong, and changes nothing in the fields of *others*."""
    fields = [(field, hint) if field in needed else (field, hint, None) for field, hint in hints.items()]
    mirror = msgspec.defstruct(name, fields, kw_only=True, omit_defaults=True, gc=False)
    holder = msgspec.defstruct(f"{name}s", [("items", list[mirror])])  # type: ignore[valid-type]
    getters = [attrgetter(other) for other in others]

    def is_fine(values: Sequence[Any]) -> bool:
        try:
            mirrored = msgspec.convert({"items": values}, holder, from_attributes=True).items  # type: ignore[attr-defined]
        except msgspec.ValidationError:
            return False
        for getter in getters:
            given = list(map(getter, values))
            # What the conversion had to change is not what was given; the careful way hands on the changed one.
            if given.count(None) < len(given) and any(map(is_not, given, map(getter, mirrored))):
                return False
        try:
            return b"\\u0000" not in _json_encode(mirrored)  # which refuses unpaired surrogates
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False

    return is_fine


def _scalars(hint: Any) -> set[Any] | None:
    """The scalar types that *hint* allows besides None, Any for any JSON; None when it allows something else."""
    if hint is Any or hint in (*JSON_SCALARS, str, datetime):
        return set() if hint is type(None) else {hint}
    parts = [_scalars(part) for part in get_args(hint) if not isinstance(part, msgspec.Meta)]
    if not parts or None in parts:
        return None
    return {sort for part in parts if part is not None for sort in part}
