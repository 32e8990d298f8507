"""Known-bad subscriptions: late, leaky, deaf to others, or in each other's way; and names that lose their place."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import attrs

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._events_common import Remembers

KEPT: list[object] = []
"""What is leaked on purpose: the loop forgets tasks that nobody holds."""

Stream = AsyncGenerator[Event, None]


async def end_of(adapter: Any) -> int:
    """The seq of the last event there is."""
    last, page = 0, [None]
    while page:
        page = await adapter.read(after=last, limit=10_000)
        last = max((event.seq for event in page), default=last)
    return last


class Sifts(Base):
    """Gives a part of what a subscription should give, which `passes` says."""

    def passes(self, event: Event) -> bool:
        """Whether a subscriber gets *event*."""
        return True

    async def subscribe(self, **call: Any) -> Stream:
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                if self.passes(event):
                    yield event


@known_bad(caught_by="events.subscribe.replays-then-follows")
class GivesOnlyTheNew(Base):
    """Gives only what comes after one has subscribed."""

    async def subscribe(self, *, after: int | None = None, **call: Any) -> Stream:
        async with aclosing(super().subscribe(after=await end_of(self), **call)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.subscribe.replays-then-follows")
class GivesOnlyTheOld(Base):
    """Ends when everything that is there has been given."""

    async def subscribe(self, *, after: int | None = None, types: Any = (), **call: Any) -> Stream:
        for event in await self.read(after=after, types=types):
            yield event


@known_bad(caught_by="events.subscribe.replays-then-follows")
class GivesNoData(Base):
    """Gives events without their data."""

    async def subscribe(self, **call: Any) -> Stream:
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                yield attrs.evolve(event, data=None)


@known_bad(caught_by="events.subscribe.from-the-start")
class BeginsBehindTheFirst(Base):
    """Without a cursor begins behind the first event."""

    async def subscribe(self, *, after: int | None = None, **call: Any) -> Stream:
        async with aclosing(super().subscribe(after=after or 1, **call)) as events:
            async for event in events:
                yield event


class HasASeam(Base):
    """Reads what is there first, and follows from *gap* events behind the end later."""

    gap = 0
    pause = 0.0

    async def subscribe(self, *, after: int | None = None, types: Any = (), **call: Any) -> Stream:
        last = after or 0
        for event in await self.read(after=after, types=types):
            last = event.seq or 0
            yield event
        await asyncio.sleep(self.pause)
        behind = await end_of(self) if self.pause else last
        async with aclosing(super().subscribe(after=max(0, behind - self.gap), types=types, **call)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.subscribe.no-seam")
class LosesAtTheSeam(HasASeam):
    """Loses what comes between replaying and following."""

    pause = 0.05


@known_bad(caught_by="events.subscribe.no-seam")
class RepeatsAtTheSeam(HasASeam):
    """Gives the last of the old once more as the first of the new."""

    gap = 1


@known_bad(caught_by="events.subscribe.types")
class GivesAllTypes(Base):
    """Gives every type, whichever was chosen."""

    async def subscribe(self, *, types: Any = (), **call: Any) -> Stream:
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.subscribe.processes")
class HearsOnlyItself(Remembers, Sifts):
    """Hears only what its own process has dispatched."""

    async def dispatch(self, event: Event) -> Any:
        self.memory[event.id] = True
        return await super().dispatch(event)

    def passes(self, event: Event) -> bool:
        return event.id in self.memory


@known_bad(caught_by="events.subscribe.several")
class EndsForAll(Remembers):
    """Ends every subscription when one of them ends."""

    async def subscribe(self, **call: Any) -> Stream:
        try:
            async with aclosing(super().subscribe(**call)) as events:
                async for event in events:
                    if "over" in self.memory:
                        return
                    yield event
        finally:
            self.memory["over"] = True


@known_bad(caught_by="events.subscribe.several")
class GivesToTheFirst(Remembers):
    """Gives each event to one subscriber only, after the first one."""

    async def subscribe(self, **call: Any) -> Stream:
        count = 0
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                count += 1
                if count > 1 and self.memory.setdefault(event.id, id(events)) != id(events):
                    return
                yield event


@known_bad(caught_by="events.subscribe.slow")
class DropsForTheSlow(Base):
    """Keeps the last hundred events for a slow subscriber, and drops the others."""

    async def subscribe(self, **call: Any) -> Stream:
        waiting: deque[Event] = deque(maxlen=100)
        came = asyncio.Event()

        async def fill() -> None:
            async with aclosing(super(DropsForTheSlow, self).subscribe(**call)) as events:
                async for event in events:
                    waiting.append(event)
                    came.set()

        filling = asyncio.ensure_future(fill())
        try:
            while True:
                await came.wait()
                came.clear()
                while waiting:
                    yield waiting.popleft()
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)


@known_bad(caught_by="events.subscribe.slow")
class WaitsForTheSlow(Remembers):
    """Takes no event while a subscriber is busy with another."""

    async def subscribe(self, **call: Any) -> Stream:
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                self.memory["free"] = free = asyncio.Event()
                yield event
                free.set()

    async def dispatch_many(self, events: list[Event]) -> Any:
        if "free" in self.memory:
            await self.memory["free"].wait()
        return await super().dispatch_many(events)


@known_bad(caught_by="events.subscribe.leaves-nothing")
class LeavesATask(Base):
    """Leaves a task behind each subscriber."""

    async def subscribe(self, **call: Any) -> Stream:
        KEPT.append(asyncio.ensure_future(asyncio.sleep(60)))
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.subscribe.leaves-nothing")
class LeavesADescriptor(Base):
    """Leaves a descriptor behind each subscriber."""

    async def subscribe(self, **call: Any) -> Stream:
        os.open(os.devnull, os.O_RDONLY)
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                yield event


class Places(Remembers):
    """Keeps the places of names in its own memory."""

    async def ack(self, name: str, seq: int) -> None:
        await super().ack(name, seq)
        self.memory[name] = self.place(name, seq)

    def place(self, name: str, seq: int) -> int:
        """What it keeps for *name*."""
        return max(seq, int(self.memory.get(name, 0)))

    async def subscribe(self, *, after: int | None = None, name: str | None = None, types: Any = ()) -> Stream:
        after = self.memory.get(name, 0) if after is None and name is not None else after
        async with aclosing(super().subscribe(after=after, types=types)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.ack.resumes")
class ForgetsPlaces(Places):
    """Forgets where a name was when it is closed."""


@known_bad(caught_by="events.ack.resumes")
class AcknowledgesByItself(Base):
    """Takes what was given for acknowledged."""

    async def subscribe(self, *, name: str | None = None, **call: Any) -> Stream:
        async with aclosing(super().subscribe(name=name, **call)) as events:
            async for event in events:
                if name is not None:
                    await self.ack(name, event.seq)
                yield event


@known_bad(caught_by="events.ack.new-name")
class BeginsNewNamesLate(Base):
    """Begins a new name behind the first event."""

    async def subscribe(self, *, after: int | None = None, name: str | None = None, types: Any = ()) -> Stream:
        if after is None and name is not None:
            await self.ack(name, 1)
        async with aclosing(super().subscribe(after=after, name=name, types=types)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.ack.never-back")
class GoesBackwards(Places):
    """Keeps what was acknowledged last, whatever was before."""

    def place(self, name: str, seq: int) -> int:
        return seq


@known_bad(caught_by="events.ack.not-beyond")
class AcknowledgesAnything(Base):
    """Lets anything be acknowledged."""

    async def ack(self, name: str, seq: int) -> None:
        try:
            await super().ack(name, seq)
        except InvalidInput:
            return


@known_bad(caught_by="events.ack.not-beyond")
class GoesToTheEnd(Base):
    """Refuses to acknowledge what is not there, and goes to the end all the same."""

    async def ack(self, name: str, seq: int) -> None:
        try:
            await super().ack(name, seq)
        except InvalidInput:
            await super().ack(name, await end_of(self))
            raise


class Renames(Base):
    """Takes names for the same that are not."""

    def renamed(self, name: str) -> str:
        """The name it goes by."""
        raise NotImplementedError

    async def ack(self, name: str, seq: int) -> None:
        await super().ack(self.renamed(name), seq)

    async def subscribe(self, *, name: str | None = None, **call: Any) -> Stream:
        renamed = self.renamed(name) if name is not None else None
        async with aclosing(super().subscribe(name=renamed, **call)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.ack.names-apart")
class FoldsNames(Renames):
    """Takes names for the same that differ only in case or space."""

    def renamed(self, name: str) -> str:
        return name.casefold().strip()


@known_bad(caught_by="events.ack.names-apart")
class ComposesNames(Renames):
    """Takes names for the same that only look the same."""

    def renamed(self, name: str) -> str:
        return unicodedata.normalize("NFC", name)


@known_bad(caught_by="events.ack.after-decides")
class NameDecides(Base):
    """Begins where the name was, whatever cursor is given."""

    async def subscribe(self, *, after: int | None = None, name: str | None = None, types: Any = ()) -> Stream:
        async with aclosing(super().subscribe(after=None if name else after, name=name, types=types)) as events:
            async for event in events:
                yield event


@known_bad(caught_by="events.ack.processes")
class KnowsItsOwnPlaces(Places):
    """Does not look at what other processes have acknowledged."""
