"""From an HTTP request to the arguments of a port method."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from agentbox.host._answers import JSON, Refusal
from agentbox.host._observed import Headers, Receive, Scope
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.wire import binary_arguments, explained

__all__ = ["Disconnected", "ReadArguments", "Request", "arguments_of"]


class Disconnected(Exception):
    """Whoever asked is gone."""


class Request:
    """One request: its headers by small names, what stands in its address, and its body."""

    __slots__ = ("_receive", "headers", "path_params", "scope")

    def __init__(self, scope: Scope, receive: Receive, path_params: dict[str, str]) -> None:
        self.scope = scope
        self.headers: Headers = scope["agentbox.headers"]
        self.path_params = path_params
        self._receive = receive

    def query(self) -> list[tuple[str, str]]:
        """What stands behind the question mark, in order."""
        return parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)

    def refuse_query(self, *known: str) -> None:
        """Refuse what stands behind the question mark, where arguments stand in the body, but for *known* names."""
        for name, _ in self.query():
            if name not in known:
                raise InvalidInput(f"{name}: unknown in the address; the arguments stand in the body")

    async def body(self, limit: int) -> bytes:
        """The body, at most *limit* bytes. Raises Refusal, or Disconnected when it does not come whole."""
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise Refusal(413, f"the body has {int(declared):,} bytes; at most {limit:,} are taken")
        body, more = b"", True
        pieces: list[bytes] = []
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body, more = message.get("body", b""), message.get("more_body", False)
            pieces.append(body)
            limit -= len(body)
            if limit < 0:
                raise Refusal(413, "the body has more bytes than are taken")
        return b"".join(pieces) if len(pieces) > 1 else body

    async def gone(self) -> None:
        """Wait until whoever asked is gone. The body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            continue


ReadArguments = Callable[[Request], Awaitable[dict[str, Any]]]


def arguments_of(method: Method, *, body_bytes: int) -> ReadArguments:
    """A function that reads *method*'s arguments: from path and query, or from path and a JSON body."""
    assert method.route is not None
    in_path = tuple(re.findall(r"\{(\w+)\}", method.route.path))
    if method.route.verb in ("GET", "DELETE"):
        return _from_query(method, in_path)
    binary = binary_arguments(method)

    async def read(request: Request) -> dict[str, Any]:
        _check_type(request)
        request.refuse_query()
        found = _object(await request.body(body_bytes))
        for name in in_path:
            if name in found:
                raise InvalidInput(f"{name}: it stands in the address and cannot be in the body too")
            found[name] = request.path_params[name]
        for name in binary:
            if type(found.get(name)) is str:  # dispatch takes no text for bytes
                found[name] = _bytes(name, found[name])
        return found

    return read


def _bytes(name: str, text: str) -> bytes:
    """What JSON holds as base64."""
    try:
        return msgspec.convert(text, bytes)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{name}: {explained(error)}") from None


def _from_query(method: Method, in_path: tuple[str, ...]) -> ReadArguments:
    struct = method.arguments
    lists = {field.name for field in msgspec.structs.fields(struct) if _is_list(field.type)}

    async def read(request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in request.query():
            if name in in_path or (name in found and name not in lists):
                raise InvalidInput(f"{name}: given more than once")
            if name in lists:
                found.setdefault(name, []).append(value)
            else:
                found[name] = value
        found |= {name: request.path_params[name] for name in in_path}
        if method.stream and (last := request.headers.get("last-event-id")) is not None:
            found["after"] = last
        try:
            # Text is all that an address can hold: numbers are read from it, and checked once more by dispatch.
            return msgspec.structs.asdict(msgspec.convert(found, struct, strict=False))
        except msgspec.ValidationError as error:
            raise InvalidInput(explained(error)) from None

    return read


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
