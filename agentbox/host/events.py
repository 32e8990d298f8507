"""Events over HTTP: one or several, as CloudEvents in any of their three JSON forms or as plain JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import msgspec
from starlette.responses import Response

from agentbox.host._answers import Refusal, answer
from agentbox.host._requests import Request
from agentbox.host._routing import Endpoint
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event

__all__ = ["BATCH", "CLOUDEVENT", "dispatch"]

JSON = "application/json"
CLOUDEVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
BINARY = "ce-"
STATUS = 201

EXTENSIONS = {"sessionid": "session_id", "executionid": "execution_id"}
"""The names that CloudEvents allows for what this log has besides: only small letters and digits."""
KNOWN = frozenset(field.name for field in attrs.fields(Event))

Members = dict[str, Any]


def dispatch(adapter: Any, state: Path, body_bytes: int) -> Endpoint:
    """
    `POST /v1/events`: an object is one event and its receipt, an array several and theirs, all or none.

    Extension attributes of other producers are refused by name: the log has no place for them, and what it does not
    keep it does not take.
    """

    async def handle(request: Request) -> Response:
        request.refuse_query()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, CLOUDEVENT, BATCH):
            raise Refusal(415, f"{JSON}, {CLOUDEVENT} or {BATCH} is taken here, not {kind[:100] or 'nothing'}")
        body = _json(await request.body(body_bytes))
        if f"{BINARY}specversion" in request.headers:
            body = _from_headers(request, kind, body)
        if isinstance(body, list) and kind != CLOUDEVENT:
            events = [_event(f"events[{number}]", item, kind) for number, item in enumerate(body)]
            return answer(await adapter.dispatch_many(events=events), STATUS)
        if kind == BATCH:
            raise InvalidInput("events: a batch is an array of events")
        return answer(await adapter.dispatch(event=_event("event", body, kind)), STATUS)

    return handle


def _event(name: str, body: Any, kind: str) -> Members:
    """The members of an event as the port has them. What is wrong with their values, dispatch says."""
    if not isinstance(body, dict):
        raise InvalidInput(f"{name}: an event is an object")
    members: Members = {EXTENSIONS.get(str(member), str(member)): value for member, value in body.items()}
    version = members.pop("specversion", None if kind == JSON else "missing")
    if version not in (None, "1.0"):
        raise InvalidInput(f"{name}.specversion: {str(version)[:20]!r} is not taken, only '1.0'")
    for member in members:
        if member == "data_base64":
            raise InvalidInput(f"{name}.data_base64: data is JSON here; send it as `data`")
        if member not in KNOWN:
            raise InvalidInput(
                f"{name}: unknown member `{member}`; extension attributes are not kept, put it into data"
            )
    return members


def _from_headers(request: Request, kind: str, data: Any) -> Members:
    """The event of the binary form: its attributes stand in headers, its data in the body."""
    if kind != JSON:
        raise InvalidInput(f"event: attributes stand in headers and in a body of type {kind}; use one of the two")
    named = {name: value for name, value in request.headers.items() if name.startswith(BINARY)}
    members: Members = {name.removeprefix(BINARY): unquote(value) for name, value in named.items()}
    return members | {"datacontenttype": JSON} | ({} if data is None else {"data": data})


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None
