"""From an HTTP request to the arguments of a port method."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request

from agentbox.host._answers import JSON, Refusal
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.wire import explained

__all__ = ["ReadArguments", "arguments_of", "body_of"]

ReadArguments = Callable[[Request], Awaitable[dict[str, Any]]]


def arguments_of(method: Method, *, body_bytes: int) -> ReadArguments:
    """A function that reads *method*'s arguments: from path and query, or from path and a JSON body."""
    assert method.route is not None
    in_path = tuple(re.findall(r"\{(\w+)\}", method.route.path))
    if method.route.verb in ("GET", "DELETE"):
        return _from_query(method, in_path)

    async def read(request: Request) -> dict[str, Any]:
        _check_type(request)
        found = _object(await body_of(request, body_bytes))
        for name in in_path:
            if name in found:
                raise InvalidInput(f"{name}: it stands in the address and cannot be in the body too")
            found[name] = request.path_params[name]
        return found

    return read


def _from_query(method: Method, in_path: tuple[str, ...]) -> ReadArguments:
    struct = method.arguments
    lists = {field.name for field in msgspec.structs.fields(struct) if _is_list(field.type)}

    async def read(request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in request.query_params.multi_items():
            if name in in_path or (name in found and name not in lists):
                raise InvalidInput(f"{name}: given more than once")
            if name in lists:
                found.setdefault(name, []).append(value)
            else:
                found[name] = value
        found |= {name: request.path_params[name] for name in in_path}
        try:
            # Text is all that an address can hold: numbers are read from it, and checked once more by dispatch.
            return msgspec.structs.asdict(msgspec.convert(found, struct, strict=False))
        except msgspec.ValidationError as error:
            raise InvalidInput(explained(error)) from None

    return read


async def body_of(request: Request, limit: int) -> bytes:
    """The body, at most *limit* bytes."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise Refusal(413, f"the body has {int(declared):,} bytes; at most {limit:,} are taken")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refusal(413, f"the body has more than {limit:,} bytes")
    return bytes(body)


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and (kind or request.headers.get("content-length", "0") != "0"):
        raise Refusal(415, f"a body of type {JSON} is taken here, not {kind[:100] or 'one without a type'}")


def _object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput("the body is not a JSON object")
    return found


def _is_list(kind: Any) -> bool:
    return getattr(kind, "__origin__", None) in (tuple, list) or (
        hasattr(kind, "__metadata__") and _is_list(kind.__origin__)
    )
