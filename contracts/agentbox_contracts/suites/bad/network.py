"""Known-bad behaviour on a network in trouble, on top of an adapter of any slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Health
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput
from agentbox_contracts.suites.bad import Base, known_bad

__all__: list[str] = []

TOO_LONG = 2.5
PIECE = 7

Call = Callable[..., Awaitable[Any]]


class Around(Base):
    """Does something of its own around every call of the port."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name, method in contract_of(self.slot).methods.items():
            if not method.stream:
                setattr(self, name, partial(self.around, getattr(self, name)))

    async def around(self, call: Call, **arguments: Any) -> Any:
        """The call instead of *call*."""
        return await call(**arguments)


@known_bad(caught_by="network.call.deadline")
class GoesOnWhenTold(Around):
    """Does not stop when it is told to."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            return await call(**arguments)
        except asyncio.CancelledError:
            await asyncio.sleep(TOO_LONG)
            raise


@known_bad(caught_by="network.call.honest")
class TellsWhatItMet(Around):
    """Lets the errors of its connection out."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            return await call(**arguments)
        except AdapterUnavailable as error:
            raise ConnectionResetError(104, "Connection reset by peer") from error


@known_bad(caught_by="network.call.honest")
class BlamesTheCaller(Around):
    """Takes an answer that cannot be read for a question that cannot be asked."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            return await call(**arguments)
        except AdapterUnavailable as error:
            raise InvalidInput("JSON is malformed: invalid character") from error


@known_bad(caught_by="network.call.right")
class AnswersWithNothing(Around):
    """Takes no answer for an answer."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            return await call(**arguments)
        except AdapterUnavailable:
            return None


@known_bad(caught_by="network.call.right")
class AnswersWithTheLast(Around):
    """Gives the answer to the call before."""

    last: Any = None

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            self.last = await call(**arguments)
        except AdapterUnavailable:
            return self.last
        return self.last


@known_bad(caught_by="network.call.later")
class StaysBroken(Around):
    """Goes on using the connection that it lost."""

    is_broken = False

    async def around(self, call: Call, **arguments: Any) -> Any:
        if self.is_broken:
            raise AdapterUnavailable("the connection is closed")
        try:
            return await call(**arguments)
        except (AdapterUnavailable, asyncio.CancelledError):
            self.is_broken = True
            raise


@known_bad(caught_by="network.write.one-effect")
class LosesTheKeyOnTheWay(Around):
    """Keeps a key to itself, so that the server cannot know that it is asked again."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        return await call(**{name: value for name, value in arguments.items() if name != "key"})


@known_bad(caught_by="network.write.at-most-once")
class TriesAgainWhatHasNoKey(Around):
    """Repeats what was perhaps done, though nothing tells the server that it is the same."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        try:
            return await call(**arguments)
        except AdapterUnavailable:
            return await call(**arguments)


@known_bad(caught_by="network.health.honest")
class IsAlwaysWell(Base):
    """Says that it is healthy without asking the server."""

    async def health(self) -> Any:
        return Health("healthy")


@known_bad(caught_by="network.health.honest")
class NeverRecovers(Base):
    """Is ill for ever once it was."""

    found: Any = None

    async def health(self) -> Any:
        if self.found is None or self.found.state == "healthy":
            self.found = await super().health()
        return self.found


class InPieces(Base):
    """Breaks a stream and goes on, at the place that `resumed` says."""

    def resumed(self, cursors: list[str]) -> str:
        """The cursor to go on behind."""
        return cursors[-1]

    def left_out(self) -> int:
        """How many events are dropped after the break."""
        return 0

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[Any, None]:
        cursors: list[str] = []
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                yield event
                cursors.append(event.cursor)
                if len(cursors) == PIECE:
                    break
            else:
                return
        left_out = self.left_out()
        async with aclosing(super().stream(agent_id, after=self.resumed(cursors))) as events:
            async for event in events:
                if left_out == 0:
                    yield event
                left_out = max(left_out - 1, 0)


@known_bad(caught_by="network.stream.resumes")
class ResumesTooEarly(InPieces):
    """Goes on before the last event, which comes twice."""

    def resumed(self, cursors: list[str]) -> str:
        return cursors[-2]


@known_bad(caught_by="network.stream.resumes")
class ResumesTooLate(InPieces):
    """Goes on behind an event that it has not told."""

    def left_out(self) -> int:
        return 1


@known_bad(caught_by="network.stream.resumes")
class EndsInSilence(Base):
    """Takes the end of the connection for the end of the stream."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[Any, None]:
        told = 0
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                yield event
                told += 1
                if told == PIECE:
                    return


@known_bad(caught_by="network.stream.resumes")
class TellsWhatAStreamMet(Base):
    """Lets the errors of a stream's connection out."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[Any, None]:
        told = 0
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                yield event
                told += 1
                if told == PIECE:
                    raise ConnectionResetError(104, "Connection reset by peer")
