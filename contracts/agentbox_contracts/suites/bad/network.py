"""Known-bad behaviour on a network in trouble, on top of an adapter of any slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Health
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput
from agentbox_contracts.suites.bad import Base, known_bad

__all__: list[str] = []

TOO_LONG = 2.5
PIECE = 7

Call = Callable[..., Awaitable[Any]]
Stream = AsyncGenerator[Any, None]


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
    """Keeps a key, or the id of an event, to itself, so that the server cannot know that it is asked again."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        if "event" in arguments:
            arguments["event"] = attrs.evolve(arguments["event"], id=None)
        if "events" in arguments:
            arguments["events"] = [attrs.evolve(event, id=None) for event in arguments["events"]]
        if self.slot == "memory":
            return await call(**_renamed(arguments))
        return await call(**{name: value for name, value in arguments.items() if name != "key"})


def _renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    """A record that is stored, under a key that nobody has."""
    return {**arguments, "key": f"{arguments['key']}-{uuid4().hex}"} if "value" in arguments else arguments


@known_bad(caught_by="network.write.at-most-once")
class TriesAgainWhatHasNoKey(Around):
    """Repeats what was perhaps done, though nothing tells the server that it is the same."""

    async def around(self, call: Call, **arguments: Any) -> Any:
        if getattr(arguments.get("event"), "id", "") is None:
            await call(**arguments)
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

    def resumed(self, cursors: list[Any]) -> Any:
        """The cursor to go on behind."""
        return cursors[-1]

    def left_out(self) -> int:
        """How many events are dropped after the break."""
        return 0

    def broken(self) -> bool:
        """Whether the stream goes on at all after the break."""
        return False

    async def stream(self, agent_id: str, *, after: str | None = None) -> Stream:
        async for event in self._pieces(partial(super().stream, agent_id), after, "cursor"):
            yield event

    async def subscribe(self, *, after: int | None = None, **call: Any) -> Stream:
        async for event in self._pieces(partial(super().subscribe, **call), after, "seq"):
            yield event

    async def _pieces(self, stream: Callable[..., Any], after: Any, cursor: str) -> Stream:
        cursors: list[Any] = []
        async with aclosing(stream(after=after)) as events:
            async for event in events:
                yield event
                cursors.append(getattr(event, cursor))
                if len(cursors) == PIECE:
                    break
            else:
                return
        if self.broken():
            return
        left_out = self.left_out()
        async with aclosing(stream(after=self.resumed(cursors))) as events:
            async for event in events:
                if left_out == 0:
                    yield event
                left_out = max(left_out - 1, 0)


@known_bad(caught_by="network.stream.resumes")
class ResumesTooEarly(InPieces):
    """Goes on before the last event, which comes twice."""

    def resumed(self, cursors: list[Any]) -> Any:
        return cursors[-2]


@known_bad(caught_by="network.stream.resumes")
class ResumesTooLate(InPieces):
    """Goes on behind an event that it has not told."""

    def left_out(self) -> int:
        return 1


@known_bad(caught_by="network.stream.resumes")
class EndsInSilence(InPieces):
    """Takes the end of the connection for the end of the stream."""

    def broken(self) -> bool:
        return True


@known_bad(caught_by="network.stream.resumes")
class TellsWhatAStreamMet(InPieces):
    """Lets the errors of a stream's connection out."""

    def broken(self) -> bool:
        raise ConnectionResetError(104, "Connection reset by peer")
