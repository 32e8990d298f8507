"""One connection through the proxy: two pumps, and what befalls them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import socket
import struct
from collections.abc import Iterable
from typing import Protocol

from agentbox_contracts.suites._faults_script import After, Direction, Harm

__all__ = ["Connection", "Owner"]

CHUNK = 65536
SLICES_PER_SECOND = 20
UNSENT = 0x894B  # SIOCOUTQNSD: how much the kernel has taken and not sent
LOOK_SECONDS = 0.001


class Owner(Protocol):
    """What a connection tells its proxy."""

    def passed(self, number: int, direction: Direction, data: bytes) -> None:
        """*data* is being passed on; none of it is the end of the direction."""

    def stop_listening(self) -> None:
        """New connections are to be refused."""


class Over(Exception):
    """A step has ended the connection."""


class Connection:
    """A client, a target, and the two directions between them."""

    def __init__(self, owner: Owner, number: int, client: socket.socket, steps: Iterable[After]) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self._owner = owner
        self._client = client
        self._target: socket.socket | None = None
        self._is_reset = False
        steps = tuple(steps)
        self.pumps: dict[Direction, Pump] = {
            "up": Pump(owner, number, "up", steps),
            "down": Pump(owner, number, "down", steps),
        }

    async def run(self, host: str, port: int) -> None:
        """Pass on what comes until both sides have ended, a side has vanished, or a step says otherwise."""
        self._target = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._target.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(self._target, (host, port))
        except OSError:
            self._is_reset = True
            return
        self._target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._pump(self._client, self._target)

    async def _pump(self, client: socket.socket, target: socket.socket) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.pumps["up"].run(client, target))
                tasks.create_task(self.pumps["down"].run(target, client))
        except* Over as group:
            self._is_reset = any(str(over) == "reset" for over in group.exceptions)
        else:
            self._is_reset = any(pump.is_broken for pump in self.pumps.values())

    async def end(self, *, reset: bool) -> None:
        """Close or reset both sides now."""
        if self.task is not None and not self.task.done():
            self._is_reset = reset
            self.task.cancel()
            await asyncio.wait([self.task])

    def close(self) -> None:
        """Close both sockets, once nothing waits for them any more."""
        for side in filter(None, (self._client, self._target)):
            if self._is_reset:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                _shut(side)  # a close with input unread would be a reset
            side.close()


class Pump:
    """One direction. It stops at the exact byte that a step names."""

    def __init__(self, owner: Owner, number: int, direction: Direction, steps: Iterable[After]) -> None:
        self.is_broken = False
        self._owner = owner
        self._number = number
        self._direction = direction
        mine = ((step.bytes, step.do) for step in steps if step.direction == direction)
        self._steps = sorted(mine, key=lambda step: step[0])
        self._sink: socket.socket | None = None
        self._passed = 0
        self._is_shut = False
        self._delay = Harm("delay")
        self._rate = 0
        self._free = asyncio.Event()
        self._free.set()

    async def run(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass on until *source* ends or one of the two vanishes."""
        self._sink = sink
        if self._is_shut:
            _shut(sink)
        await self._reach(sink)
        while data := await self._receive(source, sink):
            try:
                await self._pass_on(sink, data)
            except OSError:
                self.is_broken = True  # what the sink said before it vanished is for the other pump to pass on
                return
        await self._free.wait()
        self._shut()

    async def _receive(self, source: socket.socket, sink: socket.socket) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(source, CHUNK)
        except OSError:
            await self._free.wait()
            await _delivered(sink)
            raise Over("reset") from None

    def suffer(self, harm: Harm) -> None:
        """Do to this direction what does not end the connection."""
        if harm.kind == "hang":
            self._free.clear()
        elif harm.kind == "delay":
            self._delay = harm
        elif harm.kind == "throttle":
            self._rate = harm.bytes_per_second
        elif harm.kind == "half-close":
            self._shut()

    def end_after(self, count: int, harm: Harm) -> None:
        """Do *harm* when *count* more bytes have passed."""
        self._steps = sorted([*self._steps, (self._passed + count, harm)], key=lambda step: step[0])

    def heal(self) -> None:
        """Forget every step to come, delay, rate and hanging. What is closed stays closed."""
        self._steps, self._delay, self._rate = [], Harm("delay"), 0
        self._free.set()

    async def _pass_on(self, sink: socket.socket, data: bytes) -> None:
        await self._free.wait()
        await self._reach(sink)
        await self._wait_for_delay()
        while data:
            piece = data[: self._room(len(data))]
            data = data[len(piece) :]
            if self._rate:
                await asyncio.sleep(len(piece) / self._rate)
            await self._free.wait()
            if self._is_shut:
                return
            self._passed += len(piece)
            self._owner.passed(self._number, self._direction, piece)
            await asyncio.get_running_loop().sock_sendall(sink, piece)
            await self._reach(sink)

    def _room(self, size: int) -> int:
        """How many bytes may go at once: up to the next step, and as the rate has it."""
        if self._steps:
            size = min(size, max(self._steps[0][0] - self._passed, 1))
        return min(size, max(self._rate // SLICES_PER_SECOND, 1)) if self._rate else size

    async def _wait_for_delay(self) -> None:
        delay = self._delay
        if delay.once:
            self._delay = Harm("delay")
        if delay.seconds:
            await asyncio.sleep(delay.seconds)

    async def _reach(self, sink: socket.socket) -> None:
        """Do what is due at this byte."""
        while self._steps and self._steps[0][0] <= self._passed:
            _, harm = self._steps.pop(0)
            if harm.kind in ("cut", "reset"):
                await _delivered(sink)
                raise Over(harm.kind)
            if harm.kind == "nonsense":
                await _say_nonsense(sink, harm.bytes)
                raise Over("cut")
            if harm.kind == "refuse":
                self._owner.stop_listening()
            self.suffer(harm)

    def _shut(self) -> None:
        if self._is_shut:
            return
        self._is_shut = True
        self._owner.passed(self._number, self._direction, b"")
        if self._sink is not None:
            _shut(self._sink)


def _shut(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_WR)


async def _say_nonsense(side: socket.socket, count: int) -> None:
    """The same every time: no protocol's words, with every byte in it."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(side, random.Random(0).randbytes(count))
    await _delivered(side)


async def _delivered(side: socket.socket) -> None:
    """Wait until the kernel has sent all it took: what it still holds when a connection is reset, it drops."""
    while _unsent(side):  # noqa: ASYNC110 - the kernel rings no bell for this
        await asyncio.sleep(LOOK_SECONDS)


def _unsent(side: socket.socket) -> int:
    try:
        answer = fcntl.ioctl(side, UNSENT, b"\0\0\0\0")
    except OSError:
        return 0
    return int.from_bytes(answer, "little")
