"""One request, observed: the caller's trace goes on, ids are bound, and one log line tells how it went."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import perf_counter
from typing import Any

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentbox.context import bound

__all__ = ["Asgi", "Observed", "Receive", "Scope", "Send"]

log = logging.getLogger("agentbox.host")
propagator = TraceContextTextMapPropagator()

Headers = Mapping[str, str]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]

ID_LENGTH = 200


class Observed:
    """ASGI middleware: outermost, so that refusals are logged too."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope["agentbox.headers"] = headers_of(scope)
        began, status = perf_counter(), 500
        context = propagator.extract({"traceparent": headers.get("traceparent", "")})

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = attach(context)
        try:
            with bound(session=_id(headers, "agentbox-session-id"), execution=_id(headers, "agentbox-execution-id")):
                await self._app(scope, receive, noted)
        finally:
            _tell(scope, status, began)
            detach(token)


def _tell(scope: Scope, status: int, began: float) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    span = trace.get_current_span().get_span_context()
    fields = {
        "verb": scope["method"],
        "route": scope.get("agentbox.route"),
        "status": status,
        "duration_ms": round((perf_counter() - began) * 1000, 3),
        "trace_id": f"{span.trace_id:032x}" if span.is_valid else None,
        "token": scope.get("agentbox.token"),
    }
    log.info("request", extra=fields)


def headers_of(scope: Scope) -> Headers:
    """The headers by their small names. They are read many times, so they are read into a dict; of two, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _id(headers: Headers, name: str) -> str | None:
    found = headers.get(name)
    return found[:ID_LENGTH] if found and found.isprintable() else None
