"""The adapter under test in another process: this side asks, `_testing_child` answers, a line of JSON each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.suites.opening import Crash
from agentbox_contracts.wire import decode, encode, error_of

__all__ = ["opened"]

LINE_BYTES = 64 * 1024 * 1024


class Answer(msgspec.Struct):
    """One line from the other process."""

    n: int
    result: Raw = Raw(b"null")
    problem: dict[str, Any] | None = None


@asynccontextmanager
async def opened(
    text: str, slot: str, *, folder: Path, known_bad: str | None, crash: Crash | None
) -> AsyncIterator[RemoteAdapter]:
    """The slot of the manifest *text*, opened in a process that lives until the end of the block."""
    head = {
        "text": text,
        "slot": slot,
        "folder": str(folder),
        "known_bad": known_bad,
        "crash": attrs.asdict(crash) if crash else None,
    }
    remote = RemoteAdapter(slot, await _started(head))
    try:
        await remote.opened()
        yield remote
    finally:
        await remote.close()


async def _started(head: dict[str, Any]) -> subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agentbox._testing_child",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=LINE_BYTES,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(head).encode() + b"\n")
    return process


class RemoteAdapter:
    """The port's methods, each a question to the other process."""

    def __init__(self, slot: str, process: subprocess.Process) -> None:
        self.pid = process.pid
        self._slot = slot
        self._process = process
        self._methods = contract_of(slot).methods
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {0: asyncio.get_running_loop().create_future()}
        self._reading = asyncio.create_task(self._read())

    async def opened(self) -> None:
        """Wait until it is open. Raises what opening raised there."""
        answer = await self._answer(0)
        if answer.problem is not None:
            raise error_of(answer.problem)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = self.__dict__["_methods"].get(name)
        if method is None or method.stream:
            raise AttributeError(f"{self._slot} has no method {name} that another process could be asked for")
        return lambda *args, **kwargs: self._call(method, args, kwargs)

    def stop(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()

    async def ended(self) -> int:
        """Wait until it ends; its exit code, negative for a signal."""
        code = await self._process.wait()
        await self._reading
        return code

    async def close(self) -> None:
        """Let it close the adapter and end; kill it when it does not."""
        if self._process.returncode is None:
            assert self._process.stdin is not None
            with contextlib.suppress(ProcessLookupError):  # it may be gone, and the loop not know it yet
                self.resume()
            self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), 10)
            except TimeoutError:
                self._process.kill()
        await self.ended()

    async def _call(self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        names = list(method.arguments.__struct_fields__)
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        line = encode({"n": number, "method": method.name, "arguments": arguments})
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        answer = await self._answer(number)
        if answer.problem is not None:
            raise error_of(answer.problem)
        return decode(bytes(answer.result), method.result)

    async def _answer(self, number: int) -> Answer:
        try:
            return await self._waiting[number]
        finally:
            del self._waiting[number]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer = decode(line, Answer)
            future = self._waiting.get(answer.n)
            if future is not None and not future.done():
                future.set_result(answer)
        gone = AdapterUnavailable if 0 in self._waiting else ConnectionError
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(gone("the process that had the adapter is gone"))
