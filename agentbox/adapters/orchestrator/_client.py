"""Talking to the keeper and to supervisors, and starting a keeper where there is none."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from agentbox.adapters.orchestrator._keeper import PROTOCOL, SOCKET
from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["Answer", "KeeperClient", "Line", "open_line"]

ANSWER_SECONDS = 10.0
PAUSE_SECONDS = 0.01
ATTEMPTS = 5
# What the interpreter itself may need; the keeper has no use for anything else of the host's environment.
KEEPER_ENV = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE")

Answer = dict[str, object]


class Line(asyncio.Protocol):
    """A connection that asks and is answered in any order. It ends with ConnectionError for all that wait."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def ask(self, request: Answer) -> Answer:
        """Send *request* and wait for its answer. Once sent it is carried out, whether or not anybody still waits."""
        if self._transport is None or not self.is_open:
            raise ConnectionResetError("the connection is closed")
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._transport.write(json.dumps({**request, "n": number}).encode() + b"\n")
            answer: Answer = await future
            return answer
        finally:
            del self._waiting[number]

    def tell(self, request: Answer) -> None:
        """Send *request*, to which there is no answer; nothing if the other side is gone."""
        if self._transport is not None and self.is_open:
            self._transport.write(json.dumps(request).encode() + b"\n")

    def close(self) -> None:
        """Close it, at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # Other loops' transports need not be subclasses.
        self._transport, self.is_open = cast("asyncio.Transport", transport), True

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            future = self._waiting.get(answer.get("n"))
            if future is not None and not future.done():
                future.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop."""
        self.is_open = False
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the other side is gone"))


async def open_line(folder: str, name: str) -> Line:
    """Connect to the socket *name* in *folder*. Raises OSError; BlockingIOError when it is too busy just now."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{name}")  # a path of its own may be too long for a socket
        finally:
            os.close(directory)
        _, line = await asyncio.get_running_loop().create_unix_connection(Line, sock=connection)
    except BaseException:
        connection.close()
        raise
    return line


class KeeperClient:
    """The keeper of one folder, whichever process started it, and started again whenever it has gone."""

    def __init__(self, folder: str, idle_seconds: float) -> None:
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._line: Line | None = None
        self._opening = asyncio.Lock()
        self._tickets = itertools.count(1)

    async def ask(self, request: Answer) -> Answer:
        """
        The keeper's answer. A request that a dying keeper took with it is asked again: all of them bear that.

        Raises AdapterUnavailable when there is no keeper to be had.
        """
        for _ in range(ATTEMPTS):
            line = await self.open()
            try:
                return await line.ask(request)
            except ConnectionError:
                continue
        raise AdapterUnavailable(f"the keeper of {self._folder} ended {ATTEMPTS} times while it was asked")

    @contextlib.asynccontextmanager
    async def turn(self, bound: int | None, most: int, caller: str | None) -> AsyncIterator[int | None]:
        """
        Wait for the turn to start an agent, *bound* being how many may run; the ticket for it, None without a bound.

        A ticket is good for one start, within the block. Whoever is cancelled leaves the queue.
        """
        if bound is None:
            yield None
            return
        ticket = next(self._tickets)
        try:
            answer = await self.ask({"op": "turn", "ticket": ticket, "bound": bound, "most": most, "caller": caller})
            if "error" in answer:
                raise AdapterUnavailable(f"{bound} agents run, as many as may, and {answer['message']}")
            yield ticket
        finally:
            self.tell({"op": "leave", "ticket": ticket})

    def tell(self, request: Answer) -> None:
        """Ask without waiting for an answer, if there is a keeper."""
        if self._line is not None:
            self._line.tell(request)

    async def open(self) -> Line:
        """The connection, made anew if need be."""
        async with self._opening:
            if self._line is None or not self._line.is_open:
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        self._line = await self._connected()
                except TimeoutError:
                    raise AdapterUnavailable(
                        f"the keeper of {self._folder} did not answer within {ANSWER_SECONDS:g} s"
                    ) from None
            return self._line

    def close(self) -> None:
        """Leave the keeper to itself."""
        if self._line is not None:
            self._line.close()
            self._line = None

    async def _connected(self) -> Line:
        while True:
            try:
                line = await open_line(self._folder, SOCKET)
            except (FileNotFoundError, ConnectionRefusedError):
                await self._launch()
                continue
            except BlockingIOError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            try:
                self._check(await line.ask({"op": "hello"}))
                return line
            except ConnectionError:
                continue  # it was just leaving
            except BaseException:
                line.close()
                raise

    async def _launch(self) -> None:
        said, complaint = await asyncio.to_thread(_launch, self._folder, self._idle_seconds)
        # Taken is the folder by one that is about to listen, or about to leave; one that was killed says nothing.
        if said == "taken" or not said + complaint.strip():
            await asyncio.sleep(PAUSE_SECONDS)
        elif said != "ready":
            reason = complaint.strip().rpartition("\n")[2]
            raise AdapterUnavailable(f"the keeper of {self._folder} could not be started: {reason or said}")

    def _check(self, hello: Answer) -> None:
        if "error" in hello:
            raise AdapterUnavailable(str(hello.get("message")))
        if hello.get("protocol") != PROTOCOL:
            raise AdapterUnavailable(
                f"the keeper of {self._folder} (pid {hello.get('pid')}) speaks protocol {hello.get('protocol')}, this "
                f"version of agentbox {PROTOCOL}; it leaves when its agents have ended and nobody is connected"
            )


def _launch(folder: str, idle_seconds: float) -> tuple[str, str]:
    """Start a keeper and wait for the launcher, which leaves at once; the keeper itself is nobody's child."""
    program = str(Path(__file__).with_name("_keeper.py"))
    env = {name: os.environ[name] for name in KEEPER_ENV if name in os.environ}
    command = [sys.executable, "-E", "-S", "-s", "-X", "utf8", program, folder, str(idle_seconds)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True
    ) as launcher:
        try:
            said, complaint = launcher.communicate(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.kill()
            return "", f"it was not ready within {ANSWER_SECONDS:g} s"
    return said.strip(), complaint
