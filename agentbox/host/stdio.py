"""The host on standard input and output: JSON-RPC 2.0 for whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from opentelemetry.context import attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentbox import __version__
from agentbox.adapters._jsonrpc import (
    FAILED,
    INVALID,
    LINE_BYTES,
    NO_METHOD,
    PARSE,
    WINDOW,
    Fault,
    Message,
    line_of,
    read_line,
)
from agentbox.app import App
from agentbox.context import bound
from agentbox.federation import check_version
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.errors import AdapterFailed, AgentboxError, InvalidInput
from agentbox_contracts.wire import decode, explained, problem_of

__all__ = ["MOST_REQUESTS", "serve"]

MOST_REQUESTS = 1000
SPAWN = "orchestrator.spawn"
END_SECONDS = 10.0

log = logging.getLogger("agentbox.host")
_propagator = TraceContextTextMapPropagator()


async def serve(app: App, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """
    Answer what comes until the other side is gone.

    Streams then end at once and calls get a while, as they do when they are taken back: half a write is none of the
    choices. Agents go on.
    """
    await _Session(app, writer).run(reader)


class _Unknown(Exception):
    """There is no such method."""


class _Session:
    def __init__(self, app: App, writer: asyncio.StreamWriter) -> None:
        self._app = app
        self._writer = writer
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._grants: dict[int | str, asyncio.Semaphore] = {}
        self._waiting: set[int | str] = set()

    async def run(self, reader: asyncio.StreamReader) -> None:
        try:
            while (line := await _next(reader)) is not None:
                await self._take(line)
        except ValueError:
            await self._say(error=Fault(code=PARSE, message=f"a line has at most {LINE_BYTES:,} bytes"))
        except ConnectionError:
            log.info("the other side of the bridge is gone")
        finally:
            for which in (*self._grants, *self._waiting):
                self._tasks[which].cancel()
            if self._tasks:
                _, late = await asyncio.wait(self._tasks.values(), timeout=END_SECONDS)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)

    async def _take(self, line: bytes) -> None:
        try:
            message = read_line(line)
        except ValueError as error:
            await self._say(error=Fault(code=PARSE, message=str(error)))
            return
        if message.method is None:
            await self._say(id=message.id, error=Fault(code=INVALID, message="a method is needed"))
        elif message.id is None:
            self._notified(message)
        elif message.id in self._tasks:
            await self._say(id=message.id, error=Fault(code=INVALID, message="that id is under way"))
        elif len(self._tasks) >= MOST_REQUESTS:
            text = f"at most {MOST_REQUESTS:,} requests at once"
            await self._say(id=message.id, error=Fault(code=INVALID, message=text))
        else:
            self._tasks[message.id] = asyncio.ensure_future(self._answered(message.id, message))

    def _notified(self, message: Message) -> None:
        """A word about a stream, or a spawn taken back: one that is over, or that never was, is no mistake."""
        try:
            params = _params(message)
        except InvalidInput:
            return  # a notification has no answer, not even that it makes no sense
        which = params.get("id")
        if not isinstance(which, int | str) or which not in (*self._grants, *self._waiting):
            return
        if message.method == "cancel":
            self._tasks[which].cancel()
        elif which in self._grants and message.method == "more" and isinstance(count := params.get("count"), int):
            for _ in range(min(count, WINDOW)):
                self._grants[which].release()

    async def _answered(self, which: int | str, message: Message) -> None:
        answer: dict[str, Any]
        try:
            with _context(message.context or {}):
                answer = {"result": await self._result(which, message)}
        except _Unknown:
            answer = {"error": Fault(code=NO_METHOD, message=f"there is no method {str(message.method)[:100]!r}")}
        except asyncio.CancelledError:
            answer = {"error": Fault(code=FAILED, message="taken back")}
        except AgentboxError as error:
            answer = {"error": Fault(code=FAILED, message=error.message, data=problem_of(error))}
        except Exception:
            log.exception("request failed", extra={"method": message.method})
            failed = AdapterFailed("the host failed; its log says why")
            answer = {"error": Fault(code=FAILED, message=failed.message, data=problem_of(failed))}
        finally:
            self._waiting.discard(which)
            self._grants.pop(which, None)
            del self._tasks[which]
        with contextlib.suppress(ConnectionError):  # whoever asked is gone
            await self._say(id=which, **answer)

    async def _result(self, which: int | str, message: Message) -> Any:
        params = _params(message)
        if message.method == "ping":
            return None
        if message.method == "health":
            return await self._app.health()
        if message.method == "hello":
            return self._hello(params)
        slot, _, name = (message.method or "").partition(".")
        method = contract_of(slot).methods.get(name) if slot in SLOTS else None
        if method is None:
            raise _Unknown
        arguments = _arguments(method.arguments, params)
        call = getattr(self._app.slots[slot].adapter, name)
        if message.method == SPAWN:
            self._waiting.add(which)  # it may wait for its turn, and whoever leaves must not take one
        if not method.stream:
            return await call(**arguments)
        return await self._follow(which, call(**arguments))

    def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        slot, version = params.get("slot"), params.get("contract")
        if slot not in SLOTS or not isinstance(version, str):
            raise InvalidInput(f"hello names a slot, one of {', '.join(SLOTS)}, and the contract that is spoken")
        check_version(slot, version[:50], self._app.slots[slot].accepts, who="the client")
        return {"agentbox": __version__, **self._app.meta()["slots"][slot]}

    async def _follow(self, which: int | str, items: AsyncIterator[Any]) -> None:
        granted = self._grants[which] = asyncio.Semaphore(WINDOW)
        async with contextlib.aclosing(items):  # type: ignore[type-var]
            async for item in items:
                await granted.acquire()
                await self._say(method="event", params={"id": which, "item": item})

    async def _say(self, **members: Any) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError  # the loop would take the words, and complain of each
        # One write each, so that lines never mix; waiting afterwards holds back who says much.
        self._writer.write(line_of(**members))
        await self._writer.drain()


async def _next(reader: asyncio.StreamReader) -> bytes | None:
    """The next line, None at the end. Half a line at the end is nothing: its writer died."""
    line = await reader.readline()
    return line if line.endswith(b"\n") else None


def _params(message: Message) -> dict[str, Any]:
    raw = bytes(message.params)
    return decode(raw, dict[str, Any]) if raw else {}


def _arguments(struct: type[msgspec.Struct], params: dict[str, Any]) -> dict[str, Any]:
    """What came as JSON as the method's own types: bytes, specs. Dispatch checks it once more."""
    try:
        return msgspec.structs.asdict(msgspec.convert(params, struct))
    except msgspec.ValidationError as error:
        raise InvalidInput(explained(error)) from None


@contextlib.contextmanager
def _context(ids: Mapping[str, str]) -> Any:
    """The caller's trace and ids, for as long as its request takes."""
    token = attach(_propagator.extract(ids))
    try:
        with bound(session=ids.get("session"), execution=ids.get("execution")):
            yield
    finally:
        detach(token)
