"""A port of loopback, and a task for each connection to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Self

__all__ = ["HOST", "Listener", "Listening"]

HOST = "127.0.0.1"


class Listener:
    """
    Calls *accept* with each new connection's socket.

    The port stays ours while nobody listens on it: a second socket is bound to it and never listens. Tasks are kept in
    a set rather than in a group, since fixtures leave in another task than the one they entered in.
    """

    def __init__(self, accept: Callable[[socket.socket], None]) -> None:
        self._accept = accept
        self._holder = _bound(0)
        self._listening: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: list[BaseException] = []
        self.port: int = self._holder.getsockname()[1]

    def open(self) -> None:
        """Listen. A second time does nothing."""
        if self._listening is None:
            self._listening = _bound(self.port)
            self._listening.listen(1024)
            asyncio.get_running_loop().add_reader(self._listening, self.accept_waiting)

    def close(self) -> None:
        """Listen no more. Whoever is connected by now stays so; new connections are refused."""
        self.accept_waiting()
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def start(self, work: Coroutine[Any, Any, None], done: Callable[[], None]) -> asyncio.Task[None]:
        """Run *work*, then *done*, which is also called when the task is cancelled before it began."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, done))
        return task

    async def finish(self) -> None:
        """Give up the port and end every task. Raises what one of them broke with."""
        self.close()
        self._holder.close()
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        if self._broken:
            raise self._broken[0]

    def _ended(self, task: asyncio.Task[None], done: Callable[[], None]) -> None:
        self._tasks.discard(task)
        done()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken.append(error)

    def accept_waiting(self) -> None:
        """Accept every client whose kernel says that it is connected."""
        while self._listening is not None:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # nobody waits any more, left before we looked, or must wait until a descriptor is free
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accept(connection)


class Listening:
    """Something with a port of loopback, for as long as its block lasts."""

    kind: ClassVar[str]
    _listener: Listener | None = None

    async def __aenter__(self) -> Self:
        self._listener = Listener(self._accept)
        self._listener.open()
        return self

    def _accept(self, client: socket.socket) -> None:
        raise NotImplementedError

    @property
    def host(self) -> str:
        """Where it listens."""
        return HOST

    @property
    def port(self) -> int:
        """Where it listens; the same for as long as it is open."""
        return self._opened.port

    @property
    def address(self) -> str:
        """Host and port, as an URL has them."""
        return f"{self.host}:{self.port}"

    @property
    def _opened(self) -> Listener:
        if self._listener is None:
            raise RuntimeError(f"the {self.kind} has no port yet: enter it with `async with`")
        return self._listener


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((HOST, port))
    except BaseException:
        bound.close()
        raise
    return bound
