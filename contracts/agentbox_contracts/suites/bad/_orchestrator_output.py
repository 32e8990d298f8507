"""Known-bad streams."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import attrs

from agentbox_contracts.errors import InvalidInput, NotFound
from agentbox_contracts.orchestrator import AgentEvent
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import Retelling

__all__: list[str] = []


@known_bad(caught_by="orchestrator.stream.started-first")
class NeverTellsTheStart(Retelling):
    """Leaves `started` out."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if event.type == "started" else [event]


@known_bad(caught_by="orchestrator.stream.exited-last")
class NeverTellsTheEnd(Retelling):
    """Leaves `exited` out."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if event.type == "exited" else [event]


@known_bad(caught_by="orchestrator.stream.exited-last")
class EndsTwice(Retelling):
    """Tells `exited` twice."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [event, event] if event.type == "exited" else [event]


@known_bad(caught_by="orchestrator.stream.tells-the-exit")
class EndsWell(Retelling):
    """Tells of every end that it was a good one."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, exit_code=0, signal=None) if event.type == "exited" else event]


@known_bad(caught_by="orchestrator.stream.every-byte")
class TakesOutputForText(Retelling):
    """Puts replacement characters where the output is not UTF-8."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, data=event.text.encode())]


@known_bad(caught_by="orchestrator.stream.channels")
class MixesChannels(Retelling):
    """Tells errors as output."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [event, attrs.evolve(event, type="stdout")] if event.type == "stderr" else [event]


@known_bad(caught_by="orchestrator.stream.channels")
class LosesErrors(Retelling):
    """Does not listen to standard error."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if event.type == "stderr" else [event]


@known_bad(caught_by="orchestrator.stream.lines")
class StripsNewlines(Retelling):
    """Tells lines without their newlines."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, data=event.data.rstrip(b"\n"))]


@known_bad(caught_by="orchestrator.stream.long-lines")
class HoldsLongLines(Retelling):
    """Waits for the end of a line, however long it is."""

    held = b""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        self.held += event.data
        if event.type == "stdout" and not event.data.endswith(b"\n"):
            return []
        data, self.held = self.held, b""
        return [attrs.evolve(event, data=data)]


class NeedsNewlines(Retelling):
    """Tells only what has a newline."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if event.type == "stdout" and not event.data.endswith(b"\n") else [event]


@known_bad(caught_by="orchestrator.stream.long-lines")
class LosesLongLines(NeedsNewlines):
    """Loses all of a long line but its last piece."""


@known_bad(caught_by="orchestrator.stream.tail")
class LosesTheTail(NeedsNewlines):
    """Loses what an agent writes last when it has no newline."""


@known_bad(caught_by="orchestrator.stream.replay")
class TellsEverythingOnce(Base):
    """Has nothing left to tell the second time."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.told: set[tuple[str, str]] = set()

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                if (agent_id, event.cursor) not in self.told:
                    self.told.add((agent_id, event.cursor))
                    yield event


@known_bad(caught_by="orchestrator.stream.every-reader")
class ServesOneReader(TellsEverythingOnce):
    """Tells each event to whoever happens to listen."""


@known_bad(caught_by="orchestrator.stream.behind-a-cursor")
class SkipsOne(Base):
    """Goes on one event too far behind a cursor."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(super().stream(agent_id, after=after)) as events:
            if after is not None:
                await anext(events, None)
            async for event in events:
                yield event


@known_bad(caught_by="orchestrator.stream.behind-a-cursor")
class BeginsAnew(Base):
    """Does not care for cursors."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(super().stream(agent_id)) as events:
            async for event in events:
                yield event


class BeginsAnewWhenLost(Base):
    """Takes a cursor that it does not know for none."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with contextlib.AsyncExitStack() as stack:
            events = await stack.enter_async_context(aclosing(super().stream(agent_id, after=after)))
            try:
                first = await anext(events, None)
            except InvalidInput:
                events = await stack.enter_async_context(aclosing(super().stream(agent_id)))
                first = await anext(events, None)
            if first is not None:
                yield first
            async for event in events:
                yield event


@known_bad(caught_by="orchestrator.stream.foreign-cursor")
class TakesForeignCursors(BeginsAnewWhenLost):
    """Takes another agent's cursor for none."""


@known_bad(caught_by="orchestrator.stream.unknown-cursor")
class TakesAnyCursor(BeginsAnewWhenLost):
    """Takes what is no cursor for none."""


@known_bad(caught_by="orchestrator.stream.cursor-lasts")
class ForgetsItsCursors(Base):
    """Knows only the cursors that it gave out since it was opened."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.token = secrets.token_hex(4)

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        if after is not None and not after.startswith(self.token):
            raise InvalidInput(f"{after} is not known here")
        behind = after.removeprefix(self.token) if after else None
        async with aclosing(super().stream(agent_id, after=behind)) as events:
            async for event in events:
                yield attrs.evolve(event, cursor=self.token + event.cursor)


@known_bad(caught_by="orchestrator.stream.cursor-lasts")
class BeginsAnewWhenReopened(ForgetsItsCursors):
    """Takes a cursor from before it was opened for none."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        known = after if after is not None and after.startswith(self.token) else None
        async with aclosing(super().stream(agent_id, after=known)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="orchestrator.stream.live")
class TellsAtTheEnd(Base):
    """Tells everything when it is over."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        for event in [event async for event in super().stream(agent_id, after=after)]:
            yield event


@known_bad(caught_by="orchestrator.stream.slow-reader")
class WaitsForItsReader(Base):
    """Has the agent stand still until its reader has taken an event."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        pid = (await super().status(agent_id)).pid
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                _signal(pid, signal.SIGSTOP)
                yield event
                _signal(pid, signal.SIGCONT)


@known_bad(caught_by="orchestrator.stream.left-early")
class EndsWithItsReader(Base):
    """Ends the agent when nobody listens any more."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        try:
            async with aclosing(super().stream(agent_id, after=after)) as events:
                async for event in events:
                    yield event
        finally:
            await super().terminate(agent_id, grace_seconds=0)


@known_bad(caught_by="orchestrator.stream.not-found")
class TellsNothingOfNobody(Base):
    """Has an empty stream of an agent that is not there."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        try:
            async with aclosing(super().stream(agent_id, after=after)) as events:
                async for event in events:
                    yield event
        except NotFound:
            return


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
