"""`python -m agentbox._testing_child`: one adapter, asked by another process over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from agentbox._testing_open import open_slot
from agentbox.dispatch import Dispatched
from agentbox_contracts import contract_of
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.suites.opening import Crash
from agentbox_contracts.wire import encode, problem_of

__all__ = ["main"]

LINE_BYTES = 64 * 1024 * 1024


class Crashing:
    """The moment at which this process kills itself, if there is one."""

    def __init__(self, crash: Crash | None) -> None:
        self._crash = crash
        self._left = crash.count if crash else 0

    def counted(self, method: str) -> bool:
        """Whether this call of *method* is the one."""
        if self._crash is None or self._crash.method != method:
            return False
        self._left -= 1
        return self._left == 0

    def at(self, point: str) -> None:
        """Die here, if this is the point."""
        if self._crash is not None and self._crash.point == point:
            os.kill(os.getpid(), signal.SIGKILL)


async def _called(adapter: Dispatched, request: dict[str, Any], crashing: Crashing) -> Any:
    name = request["method"]
    arguments = _arguments(contract_of(adapter.slot).methods[name].arguments, request["arguments"])
    if not crashing.counted(name):
        return await getattr(adapter, name)(**arguments)
    crashing.at("received")
    call = asyncio.ensure_future(getattr(adapter, name)(**arguments))
    for _ in range(2):
        await asyncio.sleep(0)
    crashing.at("begun")
    result = await call
    crashing.at("done")
    return result


def _arguments(struct: type[msgspec.Struct], given: dict[str, Any]) -> dict[str, Any]:
    """What came as JSON as the method's own types, such as bytes; as it came where it is nothing of the kind."""
    try:
        return msgspec.structs.asdict(msgspec.convert(given, struct))
    except msgspec.ValidationError:
        return given  # dispatch says what is wrong


async def _answered(adapter: Dispatched, line: bytes, crashing: Crashing) -> None:
    request = json.loads(line)
    try:
        answer = {"result": await _called(adapter, request, crashing)}
    except AgentboxError as error:
        answer = {"problem": problem_of(error)}
    _say({"n": request["n"], **answer})


def _say(answer: dict[str, Any]) -> None:
    os.write(1, encode(answer) + b"\n")


async def main() -> None:
    """Open what the first line names, then answer every further line, until there are no more."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    head = json.loads(await reader.readline())
    crashing = Crashing(Crash(**head["crash"]) if head["crash"] else None)
    try:
        async with (
            open_slot(head["text"], head["slot"], folder=Path(head["folder"]), known_bad=head["known_bad"]) as adapter,
            asyncio.TaskGroup() as calls,
        ):
            _say({"n": 0})
            while line := await reader.readline():
                calls.create_task(_answered(adapter, line, crashing))
    except AgentboxError as error:
        _say({"n": 0, "problem": problem_of(error)})


if __name__ == "__main__":
    asyncio.run(main())
