"""One program at the other end of a bridge: requests, streams, and what happens when it dies, hangs or raves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import Any

import attrs

from agentbox.adapters._jsonrpc import LINE_BYTES, NOTHING, WINDOW, Message, line_of, read_line
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable, AgentboxError, InvalidInput
from agentbox_contracts.wire import decode, error_of

__all__ = ["Peer"]

LAST_WORDS_SECONDS = 0.5
LEAVE_SECONDS = 5.0
STDERR_BYTES = 4096


@attrs.define
class _Stream:
    """Items that came for one request and are not yet taken."""

    items: deque[bytes] = attrs.field(factory=deque)
    came: asyncio.Event = attrs.field(factory=asyncio.Event)


class Peer:
    """
    A running program that speaks JSON-RPC on its standard input and output.

    When it ends, is silent for too long or says what cannot be understood, it is killed, `failure` says why, and every
    call under way fails at once.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str, silence_seconds: float) -> None:
        self._process = process
        self._name = name
        self._silence = silence_seconds
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._streams: dict[int, _Stream] = {}
        self._taken_back: set[int] = set()
        self._stderr = b""
        self._heard = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        self.failure = ""

    @classmethod
    async def start(cls, command: Sequence[str], *, env: Mapping[str, str], name: str, silence_seconds: float) -> Peer:
        """Start *command*. Raises AdapterUnavailable when it cannot be."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                limit=LINE_BYTES,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AdapterUnavailable(f"the bridge {name} cannot be started: {error}") from error
        peer = cls(process, name, silence_seconds)
        peer._begin(peer._listen(), peer._keep_stderr(), peer._watch(), peer._await_end())
        return peer

    def _begin(self, *work: Coroutine[Any, Any, None]) -> None:
        self._tasks = [asyncio.ensure_future(task) for task in work]

    async def request(self, method: str, params: Any = None, context: dict[str, str] | None = None) -> bytes:
        """The result as JSON. Raises the error that came instead, or AdapterUnavailable when nothing will come."""
        number, answer = self._ask()
        try:
            await self._say(id=number, method=method, params=params, context=context)
            return await answer
        finally:
            self._let_go(number, answer)

    async def stream(
        self, method: str, params: Any, context: dict[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The items of a stream as JSON. Raises as `request` does; ends when the stream has."""
        number, answer = self._ask()
        stream = self._streams[number] = _Stream()
        answer.add_done_callback(lambda _: stream.came.set())
        taken = 0
        try:
            await self._say(id=number, method=method, params=params, context=context)
            while True:
                while stream.items:
                    yield stream.items.popleft()
                    taken += 1
                    if taken == WINDOW // 2:
                        await self._say(method="more", params={"id": number, "count": taken})
                        taken = 0
                if answer.done():
                    answer.result()
                    return
                stream.came.clear()
                await stream.came.wait()
        finally:
            self._let_go(number, answer)

    async def close(self) -> None:
        """Let it end by closing its input; kill it when it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), LEAVE_SECONDS)
        except TimeoutError:
            self._break("it did not leave")
        finally:
            self._break("it was closed")
            await self._process.wait()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            # The transport of a child that was killed is closed by nobody else.
            self._process._transport.close()  # type: ignore[attr-defined]

    def _ask(self) -> tuple[int, asyncio.Future[bytes]]:
        if self.failure:
            raise self._gone()
        self._numbers += 1
        self._answers[self._numbers] = asyncio.get_running_loop().create_future()
        return self._numbers, self._answers[self._numbers]

    def _let_go(self, number: int, answer: asyncio.Future[bytes]) -> None:
        self._answers.pop(number, None)
        self._streams.pop(number, None)
        if not answer.done() or answer.cancelled():
            answer.cancel()
            self._taken_back.add(number)
            if not self.failure and self._process.stdin is not None and not self._process.stdin.is_closing():
                self._process.stdin.write(line_of(method="cancel", params={"id": number}))
        else:
            answer.exception()  # looked at, so that the loop does not complain that nobody did

    async def _say(self, **members: Any) -> None:
        if self.failure:
            raise self._gone()
        assert self._process.stdin is not None
        try:
            if self._process.stdin.is_closing():
                raise ConnectionResetError  # what a loop does with a write to a closed pipe is its own affair
            self._process.stdin.write(line_of(**members))
            await self._process.stdin.drain()
        except ConnectionError:
            await asyncio.wait(self._tasks[:1], timeout=LAST_WORDS_SECONDS)  # how it ended says more, if it did
            self._break("it closed its standard input")
            raise self._gone() from None

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                if not line.endswith(b"\n"):
                    self._break(f"it ended in the middle of a line: {_shown(line)}")
                    return
                self._heard = asyncio.get_running_loop().time()
                self._take(read_line(line))
        except (ValueError, InvalidInput) as error:
            self._break(f"it does not speak JSON-RPC: {error}")
            return
        code = await self._process.wait()
        await asyncio.wait(self._tasks[1:2], timeout=LAST_WORDS_SECONDS)  # its last words may say why
        self._break(_ended(code))

    async def _await_end(self) -> None:
        """See it end also where something that it started keeps its output open, once all is heard that it said."""
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux; or it has ended already, and silence will tell
            return
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        since = loop.time()
        while not self._tasks[0].done() and loop.time() < max(self._heard, since) + LAST_WORDS_SECONDS:
            await asyncio.wait(self._tasks[:1], timeout=LAST_WORDS_SECONDS)
        self._break(_ended(self._process.returncode))

    def _take(self, message: Message) -> None:
        if message.method == "event":
            params = decode(bytes(message.params) or b"{}", dict[str, Any])
            self._item(params.get("id"), bytes(message.params))
        elif message.method is not None or not isinstance(message.id, int):
            reason = message.error.message if message.error else "neither an answer nor an event"
            raise ValueError(f"a message that nobody asked for: {reason}")
        elif message.id in self._taken_back:
            self._taken_back.discard(message.id)
        elif (answer := self._answers.get(message.id)) is None or answer.done():
            raise ValueError(f"an answer to {message.id}, which was not asked")
        elif message.error is not None:
            answer.set_exception(_error(message))
        else:
            answer.set_result(bytes(message.result) if message.result is not NOTHING else b"null")

    def _item(self, number: Any, params: bytes) -> None:
        if number in self._taken_back:
            return
        stream = self._streams.get(number)
        if stream is None:
            raise ValueError(f"an event of {number}, which is no stream")
        if len(stream.items) >= 2 * WINDOW:
            raise ValueError("more events than were granted")
        stream.items.append(params)
        stream.came.set()

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(65536):
            self._stderr = (self._stderr + piece)[-STDERR_BYTES:]

    async def _watch(self) -> None:
        """Ask for a sign of life now and then; a call that takes long is no silence."""
        loop = asyncio.get_running_loop()
        while not self.failure:
            quiet = loop.time() - self._heard
            if quiet >= self._silence:
                self._break(f"it has not answered for {quiet:.0f} s")
            elif quiet < self._silence / 3:
                await asyncio.sleep(self._silence / 3 - quiet)
            else:
                with contextlib.suppress(AgentboxError, TimeoutError):
                    async with asyncio.timeout_at(self._heard + self._silence):
                        await self.request("ping")

    def _break(self, reason: str) -> None:
        """It is of no more use: kill it with all it started, and fail what waits for it."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self.failure:
            return
        words = _shown(self._stderr.strip().rpartition(b"\n")[2])
        self.failure = f"{reason}; its last words: {words}" if words else reason
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._gone())

    def _gone(self) -> AdapterUnavailable:
        return AdapterUnavailable(f"the bridge {self._name} is gone: {self.failure}")


def _error(message: Message) -> AgentboxError:
    assert message.error is not None
    if message.error.data is not None and "code" in message.error.data:
        return error_of(message.error.data)
    return AdapterFailed(f"the other side of the bridge answered: {message.error.message}")


def _ended(code: int | None) -> str:
    if code is None:
        return "it ended"
    return f"it ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace").strip()
