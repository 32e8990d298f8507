"""The HTTP host as an ASGI application: routes derived from the ports, the same errors, a token for everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agentbox.app import App
from agentbox.federation import check_version
from agentbox.host import _docs, beads
from agentbox.host._answers import Refusal, answer, told
from agentbox.host._guard import LOOPBACK, Guard, Rate
from agentbox.host._observed import Observed
from agentbox.host._requests import arguments_of
from agentbox.host._streams import Closing, events
from agentbox.host.auth import Tokens
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Method
from agentbox_contracts.schema import openapi

__all__ = ["create_app"]

Endpoint = Callable[[Request], Awaitable[Response]]

CONTRACT_HEADER = "agentbox-contract"
WRITTEN = {("beads", "sync"): beads.sync}
"""Methods whose transport is written by hand, because what they mean does not travel as it is."""


def create_app(app: App, *, closing: Closing | None = None) -> Starlette:
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
    host = _Host(app, guard, closing or Closing())
    return Starlette(
        routes=[*host.own_routes(), *host.slot_routes()],
        middleware=[Middleware(Observed)],
        exception_handlers={Exception: told, 404: told, 405: told, Refusal: told},
    )


class _Host:
    def __init__(self, app: App, guard: Guard, closing: Closing) -> None:
        self._app = app
        self._guard = guard
        self._closing = closing

    def own_routes(self) -> list[Route]:
        return [
            Route("/livez", self._open(self._livez)),
            Route("/ready", self._open(self._ready)),
            Route("/openapi.json", self._open(_openapi)),
            Route("/docs", self._open(_docs_page)),
            Route("/health", self._guarded("host:read", self._health)),
            Route("/v1/meta", self._guarded("host:read", self._meta)),
            Route("/metrics", self._guarded("host:read", self._metrics)),
        ]

    def slot_routes(self) -> list[Route]:
        routes = []
        for slot in SLOTS:
            for method in contract_of(slot).methods.values():
                if method.route is not None:
                    how = "read" if method.route.verb == "GET" else "write"
                    endpoint = self._guarded(f"{slot}:{how}", self._endpoint(slot, method), slot=slot)
                    routes.append((method.route.path, Route(method.route.path, endpoint, methods=[method.route.verb])))
        # A fixed address goes before one with a name in its place: /v1/beads/ready before /v1/beads/{bead_id}.
        return [route for _, route in sorted(routes, key=lambda pair: ("{" in pair[0], pair[0].count("{")))]

    def _endpoint(self, slot: str, method: Method) -> Endpoint:
        assert method.route is not None
        call = getattr(self._app.slots[slot].adapter, method.name)
        settings = self._app.manifest.host
        if (written := WRITTEN.get((slot, method.name))) is not None:
            return written(call, self._app.manifest.state, settings.body_bytes)
        read, status = arguments_of(method, body_bytes=settings.body_bytes), method.route.status

        async def handle(request: Request) -> Response:
            return answer(await call(**await read(request)), status)

        async def follow(request: Request) -> Response:
            arguments = await read(request)
            if (last := request.headers.get("last-event-id")) is not None:
                arguments["after"] = last
            return await events(call(**arguments), self._closing)

        return follow if method.stream else handle

    def _open(self, endpoint: Endpoint) -> Endpoint:
        async def checked(request: Request) -> Response:
            self._guard.check_place(request.headers)
            return await endpoint(request)

        return checked

    def _guarded(self, scope: str, endpoint: Endpoint, *, slot: str | None = None) -> Endpoint:
        async def checked(request: Request) -> Response:
            self._guard.check_place(request.headers)
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


async def _openapi(request: Request) -> Response:
    return answer(_document())


async def _docs_page(request: Request) -> Response:
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return HTMLResponse(_docs.page(_document()), headers=headers)


@cache
def _document() -> dict[str, Any]:
    return openapi()
