"""The server's part in a replayed connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import attrs

from agentbox_contracts.suites._recording_file import Turn
from agentbox_contracts.suites._recording_masks import Echo, Expected, Mask, Mismatch, around

__all__ = ["Player", "Stage"]

CHUNK = 65536


@attrs.define
class Stage:
    """What all connections of a replay share: what may differ, what has yet to be said, and the first difference."""

    masks: tuple[Mask, ...]
    echo: Echo
    silence_seconds: float
    left: list[Turn]
    mismatch: Mismatch | None = None


class Player:
    """Hears one client and answers it as recorded."""

    def __init__(self, client: socket.socket, number: int, turns: list[Turn], stage: Stage) -> None:
        self._client = client
        self._number = number
        self._turns = list(_parted(turns))
        self._stage = stage
        self._expected: Expected | None = None
        self._heard = b""
        self._total = 0
        self._is_over = False

    async def run(self) -> None:
        """Play until the client has left. The first difference goes to the stage, and the connection is over."""
        try:
            try:
                await self._play()
            except asyncio.CancelledError:
                self._finish()
                raise
        except Mismatch as mismatch:
            self._stage.mismatch = self._stage.mismatch or mismatch
        except OSError:
            return  # the client vanished; what it left unsaid is seen at the end

    async def _play(self) -> None:
        while self._turns:
            turn = self._turns[0]
            if turn.direction == "up" and turn.data:
                if not await self._hears(turn):
                    return
                continue
            await (self._say(turn) if turn.direction == "down" else self._hear_end())
            self._turns.pop(0)
        await self._hear_end()

    def _finish(self) -> None:
        """Compare what the client has said by now, and answer nothing: the block is over."""
        with contextlib.suppress(OSError):
            while data := self._client.recv(CHUNK):
                self._heard += data
        self._turns = [turn for turn in self._turns if turn.direction == "up" and turn.data]
        while self._turns:
            if not self._takes(self._turns[0]):
                return self._check_middle()
        self._check_surplus()

    async def _say(self, turn: Turn) -> None:
        await asyncio.get_running_loop().sock_sendall(self._client, self._stage.echo.answer(turn.data))
        if turn.end:
            self._client.shutdown(socket.SHUT_WR)

    async def _hears(self, turn: Turn) -> bool:
        """Whether the client says *turn*; it may also leave before the first byte of it."""
        while not self._takes(turn):
            try:
                # Before its first byte a turn may take its time: the client is busy with something else.
                async with asyncio.timeout(self._stage.silence_seconds if self._heard else None):
                    more = await self._more()
            except TimeoutError:
                more = False
            if not more:
                self._check_middle()
                return False
        return True

    async def _hear_end(self) -> None:
        self._check_surplus()
        while await self._more():
            self._check_surplus()

    async def _more(self) -> bool:
        data = b"" if self._is_over else await asyncio.get_running_loop().sock_recv(self._client, CHUNK)
        self._is_over = not data
        self._heard += data
        return bool(data)

    def _takes(self, turn: Turn) -> bool:
        """Whether *turn*, the first that is left, has been heard; then it is done with."""
        expected = self._expected = self._expected or Expected(turn.data, self._stage.masks)
        try:
            size = expected.take(self._heard)
        except ValueError as places:
            raise self._difference(expected, "the client said something else", places.args) from None
        if size is None:
            return False
        self._stage.left.remove(turn)
        self._stage.echo.learn(expected.values)
        self._turns.pop(0)
        self._expected, self._heard, self._total = None, self._heard[size:], self._total + size
        return True

    def _check_middle(self) -> None:
        if self._heard and self._expected is not None:
            raise self._difference(self._expected, "the client stopped in the middle")

    def _check_surplus(self) -> None:
        if self._heard:
            where = f"connection {self._number}, byte {self._total}: the client said more than was recorded"
            raise Mismatch(where, b"", around(self._heard, 0))

    def _difference(self, expected: Expected, what: str, places: tuple[int, ...] = ()) -> Mismatch:
        recorded, actual = places or expected.place
        line = self._heard.count(b"\n", 0, actual) + 1
        where = f"connection {self._number}, byte {self._total + actual} (line {line} of its turn): {what}"
        return Mismatch(where, around(expected.data, recorded), around(self._heard, actual))


def _parted(turns: list[Turn]) -> Iterator[Turn]:
    """The turns, what a client says apart from its leaving."""
    for turn in turns:
        if turn.direction == "up" and turn.data and turn.end:
            yield attrs.evolve(turn, end=False)
            yield attrs.evolve(turn, data=b"")
        else:
            yield turn
