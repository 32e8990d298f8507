"""Values, arguments and errors to JSON and back, checked the same way on every wire and in process."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, get_args

import attrs
import msgspec

from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AdapterFailed, AgentboxError, InvalidInput, error_classes

__all__ = ["JSON_DEPTH", "JSON_SIZE", "argument_checker", "decode", "encode", "error_of", "problem_of"]

JSON_SIZE = 1_048_576
JSON_DEPTH = 64

T = TypeVar("T")
Arguments = dict[str, Any]

_asdict = msgspec.structs.asdict
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<where>.*)`)?$", re.DOTALL)
_SCALARS = (bool, int, float, type(None), bytes, datetime)


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
    names = struct.__struct_fields__
    parameters = [p for p in _parameters(method) if p.kind is p.POSITIONAL_OR_KEYWORD]
    positional = [p.name for p in parameters]
    convert = msgspec.convert
    shaped = {field.name: kind for field in msgspec.structs.fields(struct) if (kind := _shape(field.type)) is not None}

    def check(args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
        if args:
            kwargs = _named(method.name, positional, args, kwargs)
        for name, kind in shaped.items():
            _refuse_strangers(name, kwargs.get(name), kind)
        try:
            values = _asdict(convert(kwargs, struct))
        except msgspec.ValidationError as error:
            raise InvalidInput(explained(error)) from None
        for name in names:
            value = values[name]
            kind = type(value)
            if kind is str:
                if "\0" in value or not (value.isascii() or _is_utf8(value)):
                    raise _bad_text(name)
            elif kind is dict:
                if value:
                    check_json(name, value)
            elif value is not None and kind not in _SCALARS and value != ():
                values[name] = _checked(name, value, kind)
        return values

    return check


def check_json(name: str, value: Any) -> None:
    """Refuse what JSON cannot hold, is deeper than JSON_DEPTH or longer than JSON_SIZE."""
    _walk(name, value, 0)
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name}: {error}") from None
    if size > JSON_SIZE:
        raise InvalidInput(f"{name}: {size:,} bytes of JSON; at most {JSON_SIZE:,} are allowed")


def _parameters(method: Method) -> list[Any]:
    return list(inspect.signature(method.function).parameters.values())[1:]


def _named(method: str, positional: list[str], args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    if len(args) > len(positional):
        raise InvalidInput(f"{method} takes {len(positional)} positional arguments, got {len(args)}")
    given = dict(zip(positional, args, strict=False))
    if twice := given.keys() & kwargs.keys():
        raise InvalidInput(f"{method} got {', '.join(sorted(twice))} twice")
    return given | kwargs


def _shape(kind: Any) -> type | None:
    """The contract's own type within *kind*: itself, perhaps None, or each of a list."""
    if isinstance(kind, type) and attrs.has(kind):
        return kind
    return next((found for part in get_args(kind) if (found := _shape(part)) is not None), None)


def _refuse_strangers(name: str, value: Any, kind: type) -> None:
    """Refuse members that *kind* does not have; the conversion would leave them out without a word."""
    if isinstance(value, dict):
        known = {field.name for field in attrs.fields(kind)}
        for member in value:
            if member not in known:
                raise InvalidInput(f"{name}: unknown member `{member}`")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_strangers(f"{name}[{index}]", item, kind)


def _checked(name: str, value: Any, kind: type) -> Any:
    """A value of a contract's own type, checked anew: constructing one checks nothing."""
    if attrs.has(kind):
        plain = {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
        try:
            value = msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{name}.{explained(error)}") from None
        _walk(name, {key: item for key, item in plain.items() if type(item) not in _SCALARS}, 0)
        return value
    if kind in (list, tuple) and value and attrs.has(type(value[0])):
        return kind(_checked(f"{name}[{index}]", item, type(item)) for index, item in enumerate(value))
    _walk(name, value, 0)
    return value


def _walk(name: str, value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if "\0" in value or not _is_utf8(value):
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
    elif kind not in _SCALARS:
        raise InvalidInput(f"{name}: {kind.__name__} is not a JSON value")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bad_text(name: str) -> InvalidInput:
    return InvalidInput(f"{name}: text must be valid Unicode without NUL characters")
