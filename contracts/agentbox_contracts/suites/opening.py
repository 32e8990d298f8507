"""What is handed to a suite: ways to open the adapter under test, in this process and in another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import attrs

__all__ = ["Crash", "OpenAdapter", "OpenProcess", "Process"]

OpenAdapter = Callable[[str], AbstractAsyncContextManager[Any]]
"""Open the adapter that manifest text chooses, through resolver and dispatch."""

Point = Literal["received", "begun", "done"]


@attrs.frozen
class Crash:
    """
    Where a process kills itself with SIGKILL: in the *count*-th call of *method*.

    `received` is before the call, `begun` is while it runs, `done` is after it returned and before anybody was told.
    """

    point: Point
    method: str
    count: int = 1


class Process(Protocol):
    """
    The adapter, opened in a process of its own. Its port's methods are called as if it were here.

    A call whose process dies before it answered raises ConnectionError: what became of it is unknown.
    """

    pid: int

    def __getattr__(self, name: str) -> Any:
        """A method of the port, except streams."""

    def stop(self) -> None:
        """SIGSTOP: it stands still as it is."""

    def resume(self) -> None:
        """SIGCONT."""

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""

    async def ended(self) -> int:
        """Wait until it ends by itself; its exit code, negative for a signal."""


class OpenProcess(Protocol):
    """Open the adapter that manifest text chooses in another process, on the same state folder as `OpenAdapter`."""

    def __call__(self, manifest: str, *, crash: Crash | None = None) -> AbstractAsyncContextManager[Process]: ...
