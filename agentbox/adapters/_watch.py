"""Waiting for a change in a folder: by inotify, or by looking again and again where there is none to be had."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from types import TracebackType

from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["Change", "Watch"]

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE_SELF = 0x2, 0x80, 0x100, 0x400
IN_Q_OVERFLOW, IN_ONESHOT = 0x4000, 0x80000000
# One event and the watch is gone: a flood of output wakes a reader once, when it waits, and otherwise costs nothing.
MASK = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_DELETE_SELF | IN_ONESHOT
HEADER = struct.Struct("iIII")
LOOK_SECONDS = 0.01


class Change:
    """A folder that is being watched from now on, until the end of the `with` block."""

    def __init__(self, watch: Watch, folder: str) -> None:
        self._watch = watch
        self._number = watch._add(folder)
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch._waiting.setdefault(self._number, set()).add(self._future)

    def __enter__(self) -> Change:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._watch._remove(self._number, self._future)

    async def wait(self, seconds: float) -> None:
        """Until the folder has changed since the watching began, or for *seconds*, or for no reason."""
        if self._number < 0:
            seconds = min(seconds, LOOK_SECONDS)
        timer = asyncio.get_running_loop().call_later(seconds, _wake, self._future)
        try:
            await self._future
        finally:
            timer.cancel()


class Watch:
    """One inotify instance for all folders of one loop: a user has 128 of them by default."""

    def __init__(self, *, by_looking: bool = False) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._is_closed = False
        self._descriptor = -1 if by_looking else self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def on(self, folder: str) -> Change:
        """Watch *folder*. Look at it once more before waiting: what changed earlier is not told."""
        if self._is_closed:
            raise AdapterUnavailable(f"{folder} is no longer watched: the adapter was disconnected")
        return Change(self, folder)

    def close(self) -> None:
        """Stop watching and wake everybody. A second time does nothing."""
        self._is_closed = True
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._wake_all()

    def _add(self, folder: str) -> int:
        """The watch's number; negative when there can be none, and the waiting is short then."""
        if self._descriptor < 0:
            return -1
        number: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), MASK)
        return number

    def _remove(self, number: int, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(number, set())
        waiting.discard(future)
        if not waiting and self._waiting.pop(number, None) is not None and self._descriptor >= 0 <= number:
            self._libc.inotify_rm_watch(self._descriptor, number)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data, at = os.read(self._descriptor, 65536), 0
            while at < len(data):
                number, mask, _, length = HEADER.unpack_from(data, at)
                at += HEADER.size + length
                if mask & IN_Q_OVERFLOW:
                    self._wake_all()
                for future in self._waiting.pop(number, ()):
                    _wake(future)

    def _wake_all(self) -> None:
        for futures in self._waiting.values():
            for future in futures:
                _wake(future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
