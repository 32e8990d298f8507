"""An agent's output as events: read from its files at any offset, then followed."""

# ruff: noqa: PTH110, PTH116
# Building a Path costs more than what is done with it here.

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import attrs

from agentbox.adapters._watch import Watch
from agentbox.adapters.orchestrator._folder import translated
from agentbox.adapters.orchestrator._records import Records, instant
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.orchestrator import Agent, AgentEvent

__all__ = ["PIECE", "Follower", "Position"]

PIECE = 65536
"""The longest `data` of an event, and how much is read at a time: a piece never needs more than one read."""

LOOK_AFTER_SECONDS = 1.0
CURSOR = re.compile(r"([a-z0-9]{1,40})\.([01])\.([01])\.([0-9]{1,16})\.([0-9]{1,16})")

NEVER = datetime.min.replace(tzinfo=UTC)

Look = Callable[[str], Awaitable[Agent]]

Channel = Literal["stdout", "stderr"]
CHANNELS: tuple[Channel, ...] = ("stdout", "stderr")


@attrs.define
class Position:
    """How much of an agent's doings has been told: its text is the cursor."""

    agent: str
    is_started: bool = False
    is_exited: bool = False
    stdout: int = 0
    stderr: int = 0

    @classmethod
    def of(cls, agent_id: str, cursor: str | None) -> Position:
        """Where *cursor* points; the beginning without one. Raises InvalidInput."""
        position = cls(agent_id.removeprefix("ag-"))
        if cursor is None:
            return position
        match = CURSOR.fullmatch(cursor)
        if match is None or match[1] != position.agent:
            raise _foreign(cursor, agent_id)
        return cls(match[1], match[2] == "1", match[3] == "1", int(match[4]), int(match[5]))

    def cursor(self) -> str:
        """What leads back here."""
        return f"{self.agent}.{self.is_started:d}.{self.is_exited:d}.{self.stdout}.{self.stderr}"

    def around(self, channel: Channel) -> tuple[str, str]:
        """What stands before and behind *channel*'s offset in the cursor."""
        head = f"{self.agent}.{self.is_started:d}.{self.is_exited:d}."
        return (head, f".{self.stderr}") if channel == "stdout" else (f"{head}{self.stdout}.", "")


class Follower:
    """One reader of one agent's output. It holds no descriptor while the reader has the word."""

    def __init__(self, records: Records, agent_id: str, watch: Watch, heartbeat_seconds: float, look: Look) -> None:
        self._look = look
        self._id = agent_id
        self._home = f"{records.folder}/{agent_id}"
        self._watch = watch
        self._heartbeat_seconds = heartbeat_seconds
        self._now = asyncio.get_running_loop().time
        self._seen: dict[Channel, int] = {"stdout": 0, "stderr": 0}

    async def events(self, after: str | None) -> AsyncGenerator[AgentEvent, None]:
        """Everything behind *after*, then what comes, to the end."""
        agent, position = await self._look(self._id), Position.of(self._id, after)
        self._check(position)
        self._seen = {"stdout": position.stdout, "stderr": position.stderr}
        heard = looked = self._now()
        while not position.is_exited:
            # The end is looked for before the output is read, so that all which came before it is told before it.
            if self._may_have_changed(agent, looked):
                agent, looked = await self._look(self._id), self._now()
            if agent.started_at is not None and not position.is_started:
                position.is_started = True
                yield self._event("started", position, agent.started_at)
            told = False
            for channel in CHANNELS:
                offset = self._kept(channel, position)
                pieces, at = await self._read(channel, offset, agent)
                if not pieces:
                    continue
                head, tail = position.around(channel)
                for piece in pieces:
                    offset += len(piece)
                    yield _output(channel, self._id, f"{head}{offset}{tail}", at, piece)
                setattr(position, channel, offset)
                told = True
            if told:
                heard = self._now()
            elif not agent.is_alive:
                position.is_exited = True
                yield self._exited(position, agent)
                return
            elif self._now() - heard >= self._heartbeat_seconds:
                heard = self._now()
                yield self._event("heartbeat", position, datetime.now(UTC))
            await self._wait(agent, heard + self._heartbeat_seconds)

    def _check(self, position: Position) -> None:
        for channel in CHANNELS:
            if getattr(position, channel) > _size(f"{self._home}/{channel}.log"):
                raise _foreign(position.cursor(), self._id)

    def _may_have_changed(self, agent: Agent, looked: float) -> bool:
        """Whether to look at the agent again. Its supervisor's death changes no file, so now and then in any case."""
        if not agent.is_alive:
            return False
        is_due = agent.status == "starting" or self._now() - looked >= LOOK_AFTER_SECONDS
        return is_due or os.path.exists(f"{self._home}/exit.json")

    def _kept(self, channel: Channel, position: Position) -> int:
        """How much of *channel* was told: nothing of what is there now when the agent has cut its own file short."""
        if _size(f"{self._home}/{channel}.log") < getattr(position, channel):
            setattr(position, channel, 0)
            self._seen[channel] = 0
        told: int = getattr(position, channel)
        return told

    async def _read(self, channel: Channel, offset: int, agent: Agent) -> tuple[list[bytes], datetime]:
        """The lines and pieces from *offset* on that are complete, and when the last of them was written."""
        path = f"{self._home}/{channel}.log"
        size = _size(path)
        if size <= (self._seen[channel] if agent.is_alive else offset):
            return [], NEVER
        with translated(path):
            data, written = await _read(path, offset, min(size - offset, PIECE))
        self._seen[channel] = offset + len(data)
        pieces = _cut(data, is_final=not agent.is_alive and offset + len(data) >= size)
        return pieces, max(instant(written), agent.started_at or NEVER)

    async def _wait(self, agent: Agent, until: float) -> None:
        """Until there may be news. Also when there are some, others run first: there may be some for ever."""
        if self._is_behind(agent):  # in a flood the watch would cost more than the reading
            await asyncio.sleep(0)
            return
        with self._watch.on(self._home) as change:
            if not self._is_behind(agent):  # what changed before the watching began is not told
                await change.wait(min(until - self._now(), LOOK_AFTER_SECONDS))

    def _is_behind(self, agent: Agent) -> bool:
        if not agent.is_alive:
            return True
        if any(_size(f"{self._home}/{channel}.log") != self._seen[channel] for channel in CHANNELS):
            return True
        news = "started.json" if agent.status == "starting" else "exit.json"
        return os.path.exists(f"{self._home}/{news}")

    def _event(self, kind: Literal["started", "heartbeat"], position: Position, at: datetime) -> AgentEvent:
        return AgentEvent(type=kind, agent_id=self._id, cursor=position.cursor(), at=at)

    def _exited(self, position: Position, agent: Agent) -> AgentEvent:
        return AgentEvent(
            type="exited",
            agent_id=self._id,
            cursor=position.cursor(),
            at=agent.ended_at or datetime.now(UTC),
            exit_code=agent.exit_code,
            signal=agent.signal,
            reason=agent.reason,
        )


_new = AgentEvent.__new__
_set_type, _set_agent_id, _set_cursor, _set_at, _set_data, _set_exit_code, _set_signal, _set_reason = (
    getattr(AgentEvent, field.name).__set__ for field in attrs.fields(AgentEvent)
)


def _output(channel: Channel, agent_id: str, cursor: str, at: datetime, data: bytes) -> AgentEvent:
    """An event of output. A frozen class's own `__init__` takes twice as long, and there is one of these a line."""
    event = _new(AgentEvent)
    _set_type(event, channel)
    _set_agent_id(event, agent_id)
    _set_cursor(event, cursor)
    _set_at(event, at)
    _set_data(event, data)
    _set_exit_code(event, None)
    _set_signal(event, None)
    _set_reason(event, "")
    return event


def _cut(data: bytes, *, is_final: bool) -> list[bytes]:
    """Lines with their newlines; then, if it is as long as a piece may be or nothing can follow, what has none."""
    *lines, rest = data.split(b"\n")
    pieces = [line + b"\n" for line in lines]
    if rest and (is_final or len(rest) == PIECE):
        pieces.append(rest)
    return pieces


async def _read(path: str, offset: int, size: int) -> tuple[bytes, float]:
    """*size* bytes and the time of the last write: at once when the kernel has them in memory, else in a thread."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        buffer = bytearray(size)
        try:
            count = os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
                raise
            count = 0
        data = bytes(buffer) if count == size else await asyncio.to_thread(os.pread, descriptor, size, offset)
        return data, os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _foreign(cursor: str, agent_id: str) -> InvalidInput:
    return InvalidInput(f"{cursor!r} is not a cursor of agent {agent_id}", resource="agent", id=agent_id)
