"""Values, arguments and errors to JSON and back, checked the same way on every wire and in process."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import attrs
import msgspec

from agentbox_contracts._many import JSON_DEPTH, JSON_SCALARS, JSON_SIZE, are_surely_json, is_utf8, quick
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AdapterFailed, AgentboxError, InvalidInput, error_classes

__all__ = [
    "JSON_DEPTH",
    "JSON_SIZE",
    "argument_checker",
    "binary_arguments",
    "decode",
    "encode",
    "error_of",
    "problem_of",
]

SOME = 256
"""How many values of a list are looked at together."""

T = TypeVar("T")
Arguments = dict[str, Any]

_asdict = msgspec.structs.asdict
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<where>.*)`)?$", re.DOTALL)
_SCALARS = (*JSON_SCALARS, bytes, datetime)


def encode(value: Any) -> bytes:
    """*value* as JSON, mappings in the order of their keys, so that equal values are equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def decode(data: bytes | str, type: type[T]) -> T:
    """JSON as a value of *type*, validators and bounds checked. Raises InvalidInput."""
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(explained(error)) from None


def problem_of(error: AgentboxError) -> dict[str, Any]:
    """*error* as the members of an `application/problem+json` document."""
    members: dict[str, Any] = {
        "type": f"urn:agentbox:error:{error.code}",
        "title": type(error).__name__,
        "status": error.status,
        "code": error.code,
        "message": error.message,
    }
    details = {name: getattr(error, name) for name in ("resource", "id", "actor", "slot", "method", "impl")}
    return members | {name: value for name, value in details.items() if value is not None}


def error_of(problem: Mapping[str, Any]) -> AgentboxError:
    """The error that *problem* tells of, of the same class; a code from a newer peer becomes AdapterFailed."""
    classes = {cls.code: cls for cls in error_classes()}
    details = {
        name: value
        for name in ("resource", "id", "actor", "slot", "method", "impl")
        if isinstance(value := problem.get(name), str)
    }
    message = str(problem.get("message") or problem.get("title") or "the peer gave no reason")
    return classes.get(str(problem.get("code")), AdapterFailed)(message, **details)


def explained(error: Exception) -> str:
    """A validation error with the place first: `title: expected `str` of length >= 1`."""
    match = _PLACE.match(str(error))
    if match is None or not match["where"]:
        return (
            str(error)
            .replace("Object contains unknown field", "unknown argument")
            .replace("Object missing required field", "missing argument")
        )
    what = match["what"]
    return f"{match['where']}: {what[:1].lower()}{what[1:]}"


def argument_checker(method: Method) -> Callable[[tuple[Any, ...], Arguments], Arguments]:
    """
    A function that turns the arguments of a call into complete, checked keyword arguments.

    It raises InvalidInput for whatever the signature does not allow: unknown or missing names, wrong types, values out
    of bounds, NUL or unpaired surrogates in any text, and JSON that could not be written down.
    """
    struct = method.arguments
    parameters = [p for p in _parameters(method) if p.kind is p.POSITIONAL_OR_KEYWORD]
    positional = [p.name for p in parameters]
    convert = msgspec.convert
    isfinite = math.isfinite
    untyped = [field.name for field in msgspec.structs.fields(struct) if field.type is Any]
    typed = [name for name in struct.__struct_fields__ if name not in untyped]
    binary = binary_arguments(method)
    shaped = {field.name: kind for field in msgspec.structs.fields(struct) if (kind := _shape(field.type)) is not None}

    def check(args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
        if args:
            kwargs = _named(method.name, positional, args, kwargs)
        for name in binary:
            if type(kwargs.get(name)) is str:  # which the conversion would take for base64
                raise InvalidInput(f"{name}: expected `bytes`, got `str`")
        for name, wanted in shaped.items():
            if type(given := kwargs.get(name)) is not wanted:
                _refuse_strangers(name, given, wanted)
        try:
            values = _asdict(convert(kwargs, struct))
        except msgspec.ValidationError as error:
            raise InvalidInput(explained(error)) from None
        for name in typed:
            value = values[name]
            kind: Any = type(value)
            if kind is str:
                if "\0" in value or not (value.isascii() or is_utf8(value)):
                    raise _bad_text(name)
            elif kind is float:
                if not isfinite(value):
                    raise InvalidInput(f"{name}: {value} is not a finite number")
            elif kind is dict:
                if value:
                    check_json(name, value)
            elif kind is tuple and value and type(value[0]) is float:
                _check_vector(name, value)
            elif name in shaped and kind is shaped[name]:
                if not quick(shaped[name])((value,)):
                    values[name] = _checked(name, value, kind)
            elif value is not None and kind not in _SCALARS and value != ():
                values[name] = _checked(name, value, kind)
        for name in untyped:
            check_json(name, values[name])
        return values

    return check


def check_json(name: str, value: Any) -> None:
    """Refuse what JSON cannot hold, is deeper than JSON_DEPTH or longer than JSON_SIZE."""
    if are_surely_json([value]):
        return
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _walk(name, value, 0)
        raise InvalidInput(f"{name}: {error}") from None
    if len(encoded) > JSON_SIZE:
        raise InvalidInput(f"{name}: {len(encoded):,} bytes of JSON; at most {JSON_SIZE:,} are allowed")
    _walk(name, value, 0)


def _check_vector(name: str, value: tuple[Any, ...]) -> None:
    """Refuse a vector with a number that is none; it is long, and comes with every call."""
    if not all(map(math.isfinite, value)):
        index = next(index for index, item in enumerate(value) if not math.isfinite(item))
        raise InvalidInput(f"{name}[{index}]: {value[index]} is not a finite number")


def _parameters(method: Method) -> list[Any]:
    return list(inspect.signature(method.function).parameters.values())[1:]


def _named(method: str, positional: list[str], args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    if len(args) > len(positional):
        raise InvalidInput(f"{method} takes {len(positional)} positional arguments, got {len(args)}")
    given = dict(zip(positional, args, strict=False))
    if twice := given.keys() & kwargs.keys():
        raise InvalidInput(f"{method} got {', '.join(sorted(twice))} twice")
    return given | kwargs


def binary_arguments(method: Method) -> list[str]:
    """The arguments of *method* that are bytes, which JSON has only as base64."""
    fields = msgspec.structs.fields(method.arguments)
    return [field.name for field in fields if field.type is bytes or bytes in get_args(field.type)]


def _shape(kind: Any) -> type | None:
    """The contract's own type within *kind*: itself, perhaps None, or each of a list."""
    if isinstance(kind, type) and attrs.has(kind):
        return kind
    return next((found for part in get_args(kind) if (found := _shape(part)) is not None), None)


@cache
def _members(kind: type) -> dict[str, type | None]:
    """The fields of *kind*, each with the contract's own type within it."""
    hints = get_type_hints(kind)
    return {field.name: _shape(hints[field.name]) for field in attrs.fields(kind)}


def _refuse_strangers(name: str, value: Any, kind: type) -> None:
    """Refuse members that *kind* does not have; the conversion would leave them out without a word."""
    if isinstance(value, dict):
        known = _members(kind)
        for member, item in value.items():
            if member not in known:
                raise InvalidInput(f"{name}: unknown member `{member}`")
            if (nested := known[member]) is not None:
                _refuse_strangers(f"{name}.{member}", item, nested)
    elif isinstance(value, (list, tuple)) and set(map(type, value)) != {kind}:
        for index, item in enumerate(value):
            if type(item) is not kind:  # one that is has no room for a stranger
                _refuse_strangers(f"{name}[{index}]", item, kind)


def _checked(name: str, value: Any, kind: type) -> Any:
    """A value of a contract's own type, checked anew: constructing one checks nothing."""
    if attrs.has(kind):
        plain = {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(kind)}
        try:
            value = msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{name}.{explained(error)}") from None
        loose = _loose(kind)
        for key, item in plain.items():
            if key in loose:
                check_json(f"{name}.{key}", item)
            elif type(item) not in _SCALARS:
                _walk(f"{name}.{key}", item, 0)
        return value
    if kind in (list, tuple) and value and attrs.has(type(value[0])):
        return _checked_items(name, value, kind)
    _walk(name, value, 0)
    return value


def _checked_items(name: str, values: Sequence[Any], kind: type) -> Any:
    checked: list[Any] = []
    for first in range(0, len(values), SOME):
        some = values[first : first + SOME]
        sorts = set(map(type, some))
        if len(sorts) == 1 and quick(*sorts)(some):
            checked += some
        else:
            checked += (_checked(f"{name}[{first + index}]", item, type(item)) for index, item in enumerate(some))
    return kind(checked)


def _plain(value: Any) -> Any:
    """*value* as a mapping if it is of a contract's own type: as it is, the conversion would not look into it."""
    return attrs.asdict(value) if hasattr(value, "__attrs_attrs__") else value


@cache
def _loose(kind: type) -> frozenset[str]:
    """The fields of *kind* that take any JSON value."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if hint is Any)


def _walk(name: str, value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if "\0" in value or not is_utf8(value):
            raise _bad_text(name)
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidInput(f"{name}: {value} is not a finite number")
    elif kind in (dict, list, tuple):
        if depth >= JSON_DEPTH:
            raise InvalidInput(f"{name}: nested deeper than {JSON_DEPTH} levels")
        if kind is dict:
            for key, item in value.items():
                if type(key) is not str:
                    raise InvalidInput(f"{name}: the key {key!r} is not text")
                _walk(name, key, depth)
                _walk(f"{name}.{key}", item, depth + 1)
        else:
            for index, item in enumerate(value):
                _walk(f"{name}[{index}]", item, depth + 1)
    elif kind not in JSON_SCALARS:
        raise InvalidInput(f"{name}: {kind.__name__} is not a JSON value")


def _bad_text(name: str) -> InvalidInput:
    return InvalidInput(f"{name}: text must be valid Unicode without NUL characters")
