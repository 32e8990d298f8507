"""
JSON-RPC 2.0, one object a line: what both ends of a bridge agree on.

Requests are `hello`, `health`, `ping` and `<slot>.<method>`. A stream is a request that is answered when it ends; until
then each item is a notification `event` with the request's id. The asker grants items with `more`, at most WINDOW ahead
of what it has taken, and takes a request back with `cancel`. An error's `data` is the problem document.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agentbox_contracts.wire import encode

__all__ = [
    "FAILED",
    "INVALID",
    "LINE_BYTES",
    "NO_METHOD",
    "PARSE",
    "WINDOW",
    "Fault",
    "Message",
    "line_of",
    "read_line",
]

LINE_BYTES = 8 * 1024 * 1024
WINDOW = 64
PARSE, INVALID, NO_METHOD, FAILED = -32700, -32600, -32601, -32000

NOTHING = msgspec.Raw(b"")


class Fault(msgspec.Struct, kw_only=True):
    """Why a request was not answered."""

    code: int
    message: str
    data: dict[str, Any] | None = None


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A request, a notification (no id), or an answer (no method). `context` carries the ids of the caller."""

    jsonrpc: Literal["2.0"]
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: Fault | None = None
    context: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(Message)


def line_of(*, params: Any = None, result: Any = NOTHING, **members: Any) -> bytes:
    """A message as one line. Newlines cannot occur: JSON escapes them."""
    if params is not None:
        members["params"] = msgspec.Raw(encode(params))
    if result is not NOTHING:
        members["result"] = msgspec.Raw(encode(result))
    return msgspec.json.encode(Message(jsonrpc="2.0", **members)) + b"\n"


def read_line(line: bytes) -> Message:
    """The message in *line*. Raises ValueError in words for people."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = line[:80].decode("utf-8", "replace").strip()
        raise ValueError(f"{shown!r} is no JSON-RPC message: {error}") from None
