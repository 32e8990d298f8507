"""
A proxy that does harm: a connection is cut, reset, delayed, left hanging or garbled at a byte that the test names.

    async with faults.Proxy(host, port) as proxy:
        proxy.follow([faults.After(bytes=100, direction="down", do=faults.reset())])
        ...                                     # the client talks to proxy.port
        await proxy.refuse()                    # and now to nobody
        await proxy.heal()

The same script as text, one step a line, so that it can be kept in a file:

    down after 100: reset                       # every connection to come
    connection 2 up after 0: hang               # only the second one
    down after 0: delay 0.5 once
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from types import TracebackType

from agentbox_contracts.suites._faults_connection import Connection, Pump
from agentbox_contracts.suites._faults_listener import Listening
from agentbox_contracts.suites._faults_script import (
    After,
    BadScript,
    Direction,
    Harm,
    cut,
    delay,
    half_close,
    hang,
    nonsense,
    parse,
    refuse,
    reset,
    throttle,
    truncate,
)

__all__ = [
    "After",
    "BadScript",
    "Direction",
    "Harm",
    "Proxy",
    "cut",
    "delay",
    "half_close",
    "hang",
    "nonsense",
    "parse",
    "refuse",
    "reset",
    "throttle",
    "truncate",
]

Tap = Callable[[int, Direction, bytes], None]


class Proxy(Listening):
    """
    Passes on every connection to its port on loopback, until told to do harm.

    Methods harm the connections that are open now; `follow` is for those to come. `connections` counts what was
    accepted, `up_bytes` and `down_bytes` what was passed on to the target and to the client. *tap* is called with the
    connection's number, the direction and the bytes, and with none at the end of a direction.
    """

    kind = "proxy"

    def __init__(self, host: str, port: int, script: str | Iterable[After] = (), *, tap: Tap | None = None) -> None:
        self.connections = 0
        self.up_bytes = 0
        self.down_bytes = 0
        self._target = (host, port)
        self._steps = parse(script)
        self._tap = tap
        self._live: set[Connection] = set()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            await self._listener.finish()

    def follow(self, script: str | Iterable[After]) -> None:
        """Have every connection to come follow *script*, steps or text, in place of the one before."""
        self._steps = parse(script)

    async def cut(self) -> None:
        """Close both sides of every connection."""
        await self._end(reset=False)

    async def reset(self) -> None:
        """Reset both sides of every connection."""
        await self._end(reset=True)

    async def half_close(self, direction: Direction) -> None:
        """End *direction* of every connection; the other lives on."""
        self._do(half_close(), direction)

    async def truncate(self, bytes: int, direction: Direction = "down") -> None:
        """Pass *bytes* more in *direction*, then cut."""
        for pump in self._pumps(direction):
            pump.end_after(bytes, cut())

    async def delay(self, seconds: float, direction: Direction | None = None, *, once: bool = False) -> None:
        """Hold every chunk back for *seconds*, or only the next one, in one direction or both."""
        self._do(delay(seconds, once=once), direction)

    async def throttle(self, bytes_per_second: int, direction: Direction | None = None) -> None:
        """Pass on no more than *bytes_per_second*, in one direction or in each."""
        self._do(throttle(bytes_per_second), direction)

    async def hang(self, direction: Direction | None = None) -> None:
        """Pass nothing on any more and close nothing, in one direction or both."""
        self._do(hang(), direction)

    async def nonsense(self, bytes: int, direction: Direction = "down") -> None:
        """Say *bytes* of nonsense in place of what comes next in *direction*, then cut."""
        for pump in self._pumps(direction):
            pump.end_after(0, nonsense(bytes))

    async def refuse(self) -> None:
        """Refuse new connections; those that are open live on."""
        self.stop_listening()

    async def heal(self) -> None:
        """Do no more harm: listen, follow no script, and let open connections go on with what was held back."""
        self._steps = ()
        for pump in self._pumps(None):
            pump.heal()
        self._opened.open()

    def passed(self, number: int, direction: Direction, data: bytes) -> None:
        """Called by connections."""
        if direction == "up":
            self.up_bytes += len(data)
        else:
            self.down_bytes += len(data)
        if self._tap is not None:
            self._tap(number, direction, data)

    def stop_listening(self) -> None:
        """Called by connections."""
        self._opened.close()

    def _accept(self, client: socket.socket) -> None:
        self.connections += 1
        number = self.connections
        steps = [step for step in self._steps if step.connection in (None, number)]
        connection = Connection(self, number, client, steps)
        self._live.add(connection)
        connection.task = self._opened.start(connection.run(*self._target), lambda: self._ended(connection))

    def _ended(self, connection: Connection) -> None:
        self._live.discard(connection)
        connection.close()

    async def _end(self, *, reset: bool) -> None:
        self._opened.accept_waiting()
        for connection in list(self._live):
            await connection.end(reset=reset)

    def _do(self, harm: Harm, direction: Direction | None) -> None:
        for pump in self._pumps(direction):
            pump.suffer(harm)

    def _pumps(self, direction: Direction | None) -> list[Pump]:
        self._opened.accept_waiting()
        wanted: tuple[Direction, ...] = ("up", "down") if direction is None else (direction,)
        return [connection.pumps[each] for connection in self._live for each in wanted]
