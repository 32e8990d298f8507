"""How soon a program at the other end of a bridge is found to hang, on a clock of its own."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any, cast

from agentbox.adapters._peer import Peer


class Leap(selectors.DefaultSelector):
    """Never waits: the clock goes on by what would have been waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class Mute:
    """A program that takes everything and says nothing, and is nobody that could be killed."""

    def __init__(self) -> None:
        self.stdin = self.stdout = self.stderr = self
        self.returncode, self.pid = 0, 0

    async def readline(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def read(self, _: int) -> bytes:
        return await self.readline()

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    async def drain(self) -> None:
        """There is always room."""


def test_who_is_silent_is_found_out_when_the_time_is_over() -> None:
    clock = Leap()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now  # type: ignore[method-assign]

    async def watched() -> tuple[str, float]:
        peer = Peer(cast("asyncio.subprocess.Process", cast("Any", Mute())), "mute", 15.0)
        await peer._watch()
        return peer.failure, loop.time()

    try:
        failure, at = loop.run_until_complete(watched())
    finally:
        loop.close()
    assert failure == "it has not answered for 15 s"
    assert 15.0 <= at < 15.1
