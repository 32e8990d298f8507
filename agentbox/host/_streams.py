"""A port's stream as server-sent events: each with its cursor as id, so that `Last-Event-ID` goes on where it broke."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from agentbox_contracts.errors import AdapterFailed, AgentboxError
from agentbox_contracts.events import Event
from agentbox_contracts.wire import encode, problem_of

__all__ = ["Closing", "events"]

FIRST_SECONDS = 0.5
PING_SECONDS = 15.0


class Closing:
    """Told when the host shuts down: streams then end, so that it can."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """The host shuts down."""
        self._event.set()

    async def wait(self) -> None:
        """Until the host shuts down."""
        await self._event.wait()


async def events(items: AsyncIterator[Any], closing: Closing) -> StreamingResponse:
    """
    *items* as a response. What goes wrong before the first of them is raised; later it is an event `problem`.

    The end of the stream is an event `end`; a stream that stops without one was cut and can be asked for again.
    """
    first = asyncio.ensure_future(anext(items))
    await asyncio.wait([first], timeout=FIRST_SECONDS)
    if first.done() and not isinstance(first.exception(), StopAsyncIteration | None):
        error = first.exception()
        assert error is not None
        raise error
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(first, items, closing), media_type="text/event-stream", headers=headers)


async def _lines(first: asyncio.Future[Any], items: AsyncIterator[Any], closing: Closing) -> AsyncIterator[bytes]:
    coming, stopping = first, asyncio.ensure_future(closing.wait())
    try:
        while True:
            await asyncio.wait([coming, stopping], timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                yield _line(coming.result())
                coming = asyncio.ensure_future(anext(items))
            elif stopping.done():
                return
            else:
                yield b": still here\n\n"
    except StopAsyncIteration:
        yield b"event: end\ndata: {}\n\n"
    except Exception as error:
        told = error if isinstance(error, AgentboxError) else AdapterFailed("the stream failed; the log says why")
        yield b"event: problem\ndata: " + encode(problem_of(told)) + b"\n\n"
    finally:
        stopping.cancel()
        coming.cancel()
        with contextlib.suppress(BaseException):
            await coming
        await items.aclose()  # type: ignore[attr-defined]


def _line(item: Any) -> bytes:
    cursor = item.seq if isinstance(item, Event) else getattr(item, "cursor", None)
    head = f"id: {cursor}\n".encode() if cursor is not None else b""
    return head + b"data: " + encode(item) + b"\n\n"
