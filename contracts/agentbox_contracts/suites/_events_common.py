"""What the clauses of events share: a corner of the log of their own, and the patience to let events arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts.events import Event, Events, Receipt

__all__ = ["MOMENT", "PATIENCE", "Corner", "Following", "corner_of", "everything", "following", "ids", "taken"]

PATIENCE = 5.0
"""How long an event that is only spooled may take, and a subscriber to hear of one."""
MOMENT = 0.01
END = "end"


@attrs.frozen
class Corner:
    """What one test writes: events of a source of its own, behind `start`, whoever else writes to the same log."""

    adapter: Any
    name: str
    start: int

    @property
    def types(self) -> tuple[str, ...]:
        """What chooses this corner's events and no others."""
        return (f"{self.name}.*",)

    def event(self, kind: str = "told", **fields: Any) -> Event:
        """An event of this corner, with an id that says nothing."""
        return Event(**{"type": f"{self.name}.{kind}", "source": self.name, "id": uuid4().hex, **fields})

    def events(self, count: int, kind: str = "told") -> list[Event]:
        """So many events, numbered, with what some take for the end of a line."""
        ends = "\x85 \u2028 \u2029 \x0b \x0c \x1e \r \n"
        return [self.event(kind, id=f"{n}-{uuid4().hex}", data={"n": n, "ends": ends}) for n in range(count)]

    async def told(self, count: int, *, side: Any = None) -> list[Event]:
        """So many events, dispatched one after another."""
        events = self.events(count)
        for event in events:
            await (side or self.adapter).dispatch(event)
        return events

    async def settled(self, *, side: Any = None) -> list[Event]:
        """Everything of this corner, once all that was acknowledged until now has come to the log."""
        mark = self.event(END)
        await (side or self.adapter).dispatch(mark)
        return [event for event in await everything(self.adapter, self.start, until=mark.id) if self.owns(event)]

    def owns(self, event: Event) -> bool:
        """Whether a test of this corner has written *event*; marks are nobody's."""
        return event.source.startswith(self.name) and not event.type.endswith(f".{END}")


async def corner_of(adapter: Events) -> Corner:
    """A corner that begins at what is now the end of the log."""
    name = f"suite.{uuid4().hex[:12]}"
    mark = Event(type=f"mark.{name}", source=f"mark-{name}", id=uuid4().hex)
    receipt = await adapter.dispatch(mark)
    return Corner(adapter, name, receipt.seq or await _seq_of(adapter, mark))


async def _seq_of(adapter: Events, mark: Event) -> int:
    """The place of an event that was only spooled when it was acknowledged."""
    for _ in range(round(PATIENCE / MOMENT)):
        if found := await adapter.read(types=(mark.type,)):
            return found[-1].seq or 0
        await asyncio.sleep(MOMENT)
    raise AssertionError(f"an acknowledged event did not come to the log within {PATIENCE:g} s")


async def everything(side: Any, after: int, *, until: str | None = None) -> list[Event]:
    """All events behind *after*: now, or once the one with the id *until* is there, if it ever comes."""
    found: list[Event] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while True:
        page: list[Event] = await side.read(after=after)
        found += page
        after = max((event.seq or 0 for event in page), default=after)
        if until is None and not page:
            return found
        if any(event.id == until for event in page) or loop.time() > deadline:
            return found
        if not page:
            await asyncio.sleep(MOMENT)


async def taken(stream: Any, count: int, *, seconds: float = PATIENCE) -> list[Event]:
    """The first *count* events of a subscription, or those that came in time."""
    found: list[Event] = []
    try:
        async with asyncio.timeout(seconds), aclosing(stream) as events:
            async for event in events:
                found.append(event)
                if len(found) >= count:
                    break
    except TimeoutError:
        pass
    return found


class Following:
    """A subscription that is read as fast as it can be."""

    def __init__(self) -> None:
        self.found: list[Event] = []
        self._is_over = False
        self._came = asyncio.Event()

    async def run(self, stream: Any) -> None:
        """Take what comes."""
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    self.found.append(event)
                    self._came.set()
        finally:
            self._is_over = True
            self._came.set()

    async def until(self, count: int) -> list[Event]:
        """What has come, once that is *count*, or all that came in time or before the end."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(self.found) < count and not self._is_over:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            pass
        return self.found


@asynccontextmanager
async def following(stream: Any) -> AsyncIterator[Following]:
    """*stream*, read in the background until the end of the block."""
    follower = Following()
    task = asyncio.ensure_future(follower.run(stream))
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ids(events: list[Event] | list[Receipt]) -> list[str | None]:
    """Their ids, in order."""
    return [event.id for event in events]


def is_recent(moment: datetime | None) -> bool:
    """Whether *moment* is aware, in UTC, and about now."""
    if moment is None or moment.utcoffset() is None:
        return False
    return not moment.utcoffset() and abs((datetime.now(UTC) - moment).total_seconds()) < 600
