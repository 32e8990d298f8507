"""Spawning over HTTP: whoever leaves while waiting for its turn gives it up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from agentbox.host._answers import answer
from agentbox.host._requests import Disconnected, Request, arguments_of
from agentbox.host._routing import Endpoint
from agentbox_contracts.orchestrator import CONTRACT

__all__ = ["spawn"]

T = TypeVar("T")


def spawn(adapter: Any, state: Path, body_bytes: int) -> Endpoint:
    """The endpoint of `spawn`."""
    read = arguments_of(CONTRACT.methods["spawn"], body_bytes=body_bytes)

    async def handle(request: Request) -> Any:
        return answer(await _unless_gone(request, adapter.spawn(**await read(request))), 201)

    return handle


async def _unless_gone(request: Request, call: Awaitable[T]) -> T:
    """What *call* gives; it is taken back when nobody is there to hear it. One that is past waiting completes."""
    calling, leaving = asyncio.ensure_future(call), asyncio.ensure_future(request.gone())
    try:
        await asyncio.wait((calling, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise Disconnected
        return calling.result()
    finally:
        leaving.cancel()
        calling.cancel()
        await asyncio.wait((calling, leaving))
