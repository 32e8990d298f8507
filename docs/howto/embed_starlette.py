"""agentbox in a Starlette application: the app lives as long as the server, handlers read `request.app.adapters`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import agentbox
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.wire import encode, problem_of


@asynccontextmanager
async def lifespan(host_app: Starlette) -> AsyncIterator[None]:
    async with agentbox.open_app() as app:
        app.attach(host_app)
        yield


async def create_epic(request: Request) -> Response:
    body = await request.json()
    epic = await request.app.adapters.beads.create_epic(title=body["title"])
    return Response(encode(epic), status_code=201, media_type="application/json")


async def claim(request: Request) -> Response:
    actor = (await request.json())["actor"]
    bead = await request.app.adapters.beads.claim(request.path_params["bead_id"], actor=actor)
    return Response(encode(bead), media_type="application/json")


async def problem(request: Request, error: Exception) -> Response:
    """Every error of agentbox knows its HTTP status."""
    assert isinstance(error, AgentboxError)
    return JSONResponse(problem_of(error), status_code=error.status, media_type="application/problem+json")


web = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/epics", create_epic, methods=["POST"]),
        Route("/beads/{bead_id}/claim", claim, methods=["POST"]),
    ],
    exception_handlers={AgentboxError: problem},
)
