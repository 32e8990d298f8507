"""The HTTP host as an ASGI application: routes derived from the ports, the same errors, a token for everything."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import HTMLResponse, Response

from agentbox.app import App
from agentbox.federation import check_version
from agentbox.host import _docs, beads, orchestrator
from agentbox.host import events as events_transport
from agentbox.host._answers import Refusal, answer, told
from agentbox.host._guard import LOOPBACK, Guard, Rate
from agentbox.host._observed import Asgi, Observed, Receive, Scope, Send
from agentbox.host._requests import Disconnected, Request, arguments_of
from agentbox.host._routing import Endpoint, Routes, address_of
from agentbox.host._streams import Closing, events
from agentbox.host.auth import Tokens
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Method, Route
from agentbox_contracts.schema import openapi

__all__ = ["create_app"]

log = logging.getLogger("agentbox.host")

CONTRACT_HEADER = "agentbox-contract"
WRITTEN = {
    ("beads", "sync"): beads.sync,
    ("events", "dispatch"): events_transport.dispatch,
    ("orchestrator", "spawn"): orchestrator.spawn,
}
"""Methods whose transport is written by hand, because what they mean does not travel as it is."""


def create_app(app: App, *, closing: Closing | None = None) -> Asgi:
    """
    An ASGI application that serves the slots of *app*; mountable in any ASGI framework.

    Every address needs a token, except `/livez`, `/ready`, `/openapi.json` and `/docs`, which say nothing of the state.
    """
    settings = app.manifest.host
    guard = Guard(
        tokens=Tokens(app.manifest.state),
        rate=Rate(settings.requests_per_second),
        hosts=frozenset(name.lower() for name in (*LOOPBACK, settings.bind, *settings.allowed_hosts)),
        origins=frozenset(settings.allowed_origins),
    )
    return Observed(_Application(_Host(app, guard, closing or Closing()).routes()))


class _Application:
    """Finds the endpoint of each request, and turns whatever it raises into a problem document."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _other(scope["type"], receive, send)
            return
        try:
            scope["agentbox.route"], endpoint, parameters = self._routes.find(scope["method"], address_of(scope))
            response = await endpoint(Request(scope, receive, parameters))
        except Disconnected:
            return
        except Exception as error:
            response = told(error)
            if response.status_code == 500:
                log.exception("request failed", extra={"route": scope.get("agentbox.route")})
        await response(scope, receive, send)


async def _other(kind: str, receive: Receive, send: Send) -> None:
    """Startup and shutdown of a server, which this application leaves to who opened the app; no web sockets."""
    if kind == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send({"type": "websocket.close"})


class _Host:
    def __init__(self, app: App, guard: Guard, closing: Closing) -> None:
        self._app = app
        self._guard = guard
        self._closing = closing

    def routes(self) -> Routes:
        routes = Routes()
        for path, endpoint in (
            ("/livez", self._open(self._livez)),
            ("/ready", self._open(self._ready)),
            ("/openapi.json", self._open(_openapi)),
            ("/docs", self._open(_docs_page)),
            ("/health", self._guarded("host:read", self._health)),
            ("/v1/meta", self._guarded("host:read", self._meta)),
            ("/metrics", self._guarded("host:read", self._metrics)),
        ):
            routes.add("GET", path, endpoint)
        for slot in SLOTS:
            served: dict[Route, Endpoint] = {}
            for method in contract_of(slot).methods.values():
                if (route := method.route) is not None:
                    endpoint = self._endpoint(slot, method)
                    served[route] = _negotiated(served[route], endpoint) if route in served else endpoint
            for route, endpoint in served.items():
                how = "read" if route.verb == "GET" else "write"
                routes.add(route.verb, route.path, self._guarded(f"{slot}:{how}", endpoint, slot=slot))
        return routes

    def _endpoint(self, slot: str, method: Method) -> Endpoint:
        assert method.route is not None
        adapter = self._app.slots[slot].adapter
        call = getattr(adapter, method.name)
        settings = self._app.manifest.host
        if (written := WRITTEN.get((slot, method.name))) is not None:
            return written(adapter, self._app.manifest.state, settings.body_bytes)
        read, status = arguments_of(method, body_bytes=settings.body_bytes), method.route.status

        async def handle(request: Request) -> Response:
            return answer(await call(**await read(request)), status)

        async def follow(request: Request) -> Response:
            return await events(call(**await read(request)), self._closing)

        return follow if method.stream else handle

    def _open(self, endpoint: Endpoint) -> Endpoint:
        async def checked(request: Request) -> Response:
            self._guard.check_place(request)
            return await endpoint(request)

        return checked

    def _guarded(self, scope: str, endpoint: Endpoint, *, slot: str | None = None) -> Endpoint:
        async def checked(request: Request) -> Response:
            self._guard.check_place(request)
            token = self._guard.identify(request.headers)
            request.scope["agentbox.token"] = token.name
            if not token.allows(scope):
                raise Refusal(403, f"this token does not cover {scope}")
            if slot is not None and (version := request.headers.get(CONTRACT_HEADER)) is not None:
                check_version(slot, version[:50], self._app.slots[slot].accepts, who="the client")
            return await endpoint(request)

        return checked

    async def _livez(self, request: Request) -> Response:
        return answer({"state": "alive"})

    async def _ready(self, request: Request) -> Response:
        report = await self._app.health()
        needed = {"orchestrator", *self._app.manifest.health.required}
        down = any(probe.slot in needed and probe.state != "healthy" for probe in report.slots)
        return answer({"state": "not ready" if down else "ready"}, 503 if down else 200)

    async def _health(self, request: Request) -> Response:
        report = await self._app.health()
        return answer(report, 200 if report.state == "healthy" else 503)

    async def _meta(self, request: Request) -> Response:
        return answer(self._app.meta())

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._app.registry), media_type=CONTENT_TYPE_LATEST)


def _negotiated(page: Endpoint, stream: Endpoint) -> Endpoint:
    """Two methods at one address: who asks for events gets the stream."""

    async def chosen(request: Request) -> Response:
        wants_events = "text/event-stream" in request.headers.get("accept", "")
        return await (stream if wants_events else page)(request)

    return chosen


async def _openapi(request: Request) -> Response:
    return answer(_document())


async def _docs_page(request: Request) -> Response:
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return HTMLResponse(_docs.page(_document()), headers=headers)


@cache
def _document() -> dict[str, Any]:
    return openapi()
