"""Clauses of events: subscriptions replay, follow, resume where they stopped, and hurt nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._events_common import PATIENCE, Corner, corner_of, everything, following, ids, taken
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.lifecycle import given_back, held
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

__all__ = ["AckClauses", "SubscribeClauses"]

MANY = 1000


class SubscribeClauses:
    """All of these need `subscribe`."""

    @clause("events.subscribe.replays-then-follows", needs=("subscribe",))
    async def test_it_replays_and_then_follows(self, adapter: Events) -> None:
        """A subscription gives what lies behind its cursor, and then what comes, in order and with every field."""
        corner = await corner_of(adapter)
        before = await corner.told(5)
        await corner.settled()
        async with following(adapter.subscribe(after=corner.start, types=corner.types)) as follower:
            await follower.until(6)
            after = await corner.told(5)
            found = [event for event in await follower.until(11) if corner.owns(event)]

        assert ids(found) == ids(before + after)
        assert found == [event for event in await everything(adapter, corner.start) if corner.owns(event)]

    @clause("events.subscribe.from-the-start", needs=("subscribe",))
    async def test_without_a_cursor_it_begins_at_the_start(self, adapter: Events) -> None:
        """Without a cursor a subscription begins with the first event there is."""
        corner = await corner_of(adapter)
        await corner.told(2)
        await corner.settled()

        assert await taken(adapter.subscribe(), 3) == await adapter.read(limit=3)

    @clause("events.subscribe.no-seam", needs=("subscribe",))
    async def test_there_is_no_seam_between_replay_and_live(self, adapter: Events) -> None:
        """While events come all the time, a subscription that begins anywhere among them misses and repeats none."""
        corner = await corner_of(adapter)
        events = corner.events(150)
        async with AsyncExitStack() as stack:
            followers = []
            for number, event in enumerate(events):
                await adapter.dispatch(event)
                if number % 30 == 10:
                    stream = adapter.subscribe(after=corner.start, types=corner.types)
                    followers.append(await stack.enter_async_context(following(stream)))
            await asyncio.gather(*(follower.until(150) for follower in followers))
            await corner.settled()
            found = await asyncio.gather(*(follower.until(151) for follower in followers))

        assert [ids([event for event in each if corner.owns(event)]) for each in found] == [ids(events)] * 5

    @clause("events.subscribe.types", needs=("subscribe",))
    async def test_it_gives_only_the_types_that_were_chosen(self, adapter: Events) -> None:
        """A subscription to some types gives those, replayed and live, and no others."""
        corner = await corner_of(adapter)
        types = (f"{corner.name}.one.*", f"{corner.name}.three")
        await adapter.dispatch_many([corner.event(kind) for kind in ("one.a", "two.a", "three", "one")])
        async with following(adapter.subscribe(after=corner.start, types=types)) as follower:
            await follower.until(2)
            await adapter.dispatch_many([corner.event(kind) for kind in ("two.b", "one.b", "threes", "three")])
            found = [event.type.removeprefix(f"{corner.name}.") for event in await follower.until(4)]

        assert found == ["one.a", "three", "one.b", "three"]

    @clause("events.subscribe.processes", needs=("subscribe",))
    async def test_it_hears_of_other_processes_events(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """A subscription that waits hears of what another process dispatches."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            corner = await corner_of(here)
            async with following(here.subscribe(after=corner.start, types=corner.types)) as follower:
                events = await corner.told(1, side=here)
                await follower.until(1)
                events += await corner.told(3, side=there)
                found = list(await follower.until(4))

        assert ids(found) == ids(events)

    @clause("events.subscribe.several", needs=("subscribe",))
    async def test_every_subscriber_gets_every_event(self, adapter: Events) -> None:
        """Of several subscriptions each gets every event, also when one of them fails or goes away."""
        corner = await corner_of(adapter)
        first = await corner.told(1)
        async with AsyncExitStack() as stack:
            streams = [adapter.subscribe(after=corner.start, types=corner.types) for _ in range(5)]
            followers = [await stack.enter_async_context(following(stream)) for stream in streams]
            await asyncio.gather(*(follower.until(1) for follower in followers))
            with pytest.raises(ZeroDivisionError):
                await _fail_at_the_first(adapter.subscribe(after=corner.start, types=corner.types))
            events = first + await corner.told(10)
            found = await asyncio.gather(*(follower.until(11) for follower in followers))

        assert [ids(each) for each in found] == [ids(events)] * 5

    @clause("events.subscribe.slow", needs=("subscribe",))
    async def test_a_slow_subscriber_slows_nobody(self, adapter: Events) -> None:
        """A subscriber that stands still holds nobody up, and gets everything when it goes on."""
        corner = await corner_of(adapter)
        first = await corner.told(1)
        async with aclosing(_any(adapter.subscribe(after=corner.start, types=corner.types))) as stream:
            found = [await asyncio.wait_for(anext(stream), PATIENCE)]
            events = corner.events(MANY)
            batches = (adapter.dispatch_many(events[start : start + 100]) for start in range(0, MANY, 100))
            _, late = await asyncio.wait([asyncio.ensure_future(_each(batches))], timeout=2 * PATIENCE)
            found += await taken(stream, MANY, seconds=2 * PATIENCE)

        assert not late, "nobody could dispatch while one subscriber stood still"
        assert ids(found) == ids(first + events)

    @clause("events.subscribe.leaves-nothing", needs=("subscribe",))
    async def test_a_subscriber_that_went_away_leaves_nothing(self, adapter: Events) -> None:
        """Subscribers that were cancelled or closed have left no descriptor, thread or task."""
        corner = await corner_of(adapter)
        await corner.told(2)
        await corner.settled()
        await _come_and_go(adapter, corner)
        before = held()
        for _ in range(5):
            await _come_and_go(adapter, corner)

        assert await given_back(before) == before


class AckClauses:
    """All of these need `subscribe` and `ack`."""

    @clause("events.ack.resumes", needs=("subscribe", "ack"))
    async def test_a_named_subscription_goes_on_where_it_was(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """After a restart a named subscription goes on behind what it has acknowledged, and not behind what it saw."""
        async with open_adapter(manifest) as adapter:
            corner = await corner_of(adapter)
            await adapter.ack(corner.name, corner.start)
            events = await corner.told(6)
            seen = await taken(adapter.subscribe(name=corner.name, types=corner.types), 6)
            await adapter.ack(corner.name, _seq(seen[2]))
        async with open_adapter(manifest) as adapter:
            again = await taken(adapter.subscribe(name=corner.name, types=corner.types), 3)

        assert ids(seen) == ids(events)
        assert ids(again) == ids(events[3:])

    @clause("events.ack.new-name", needs=("subscribe", "ack"))
    async def test_a_new_name_begins_at_the_start(self, adapter: Events) -> None:
        """A name that has acknowledged nothing begins with the first event there is, however often it is used."""
        corner = await corner_of(adapter)
        await corner.told(2)
        await corner.settled()
        first = await adapter.read(limit=2)

        assert [await taken(adapter.subscribe(name=corner.name), 2) for _ in range(2)] == [first, first]

    @clause("events.ack.never-back", needs=("subscribe", "ack"))
    async def test_it_never_goes_backwards(self, adapter: Events) -> None:
        """Acknowledging less than before changes nothing."""
        corner = await corner_of(adapter)
        events = await corner.told(4)
        every = await corner.settled()
        await adapter.ack(corner.name, _seq(every[2]))
        await adapter.ack(corner.name, _seq(every[0]))
        await adapter.ack(corner.name, 0)
        found = await taken(adapter.subscribe(name=corner.name, types=corner.types), 1)

        assert ids(found) == [events[3].id]

    @clause("events.ack.not-beyond", needs=("subscribe", "ack"))
    async def test_what_is_not_there_cannot_be_acknowledged(self, adapter: Events) -> None:
        """Acknowledging what the log has not come to is InvalidInput, and changes nothing."""
        corner = await corner_of(adapter)
        await corner.told(3)
        every = await corner.settled()
        await adapter.ack(corner.name, _seq(every[1]))
        with pytest.raises(InvalidInput):
            await adapter.ack(corner.name, _seq(every[-1]) + 1_000_000)
        found = await taken(adapter.subscribe(name=corner.name, types=corner.types), 1)

        assert ids(found) == [every[2].id]

    @clause("events.ack.names-apart", needs=("subscribe", "ack"))
    async def test_names_are_compared_exactly(self, adapter: Events) -> None:
        """Each name has a place of its own, also one that looks like another or like a path."""
        corner = await corner_of(adapter)
        names = [f"{corner.name}{end}" for end in ("", "X", "x", " ", "/../a", ".", "%2F", "*", ">", "é", "e\u0301")]
        await corner.told(len(names) + 1)
        every = await corner.settled()
        for number, name in enumerate(names):
            await adapter.ack(name, _seq(every[number]))
        found = [await taken(adapter.subscribe(name=name, types=corner.types), 1) for name in names]

        assert [ids(each) for each in found] == [[event.id] for event in every[1 : len(names) + 1]]

    @clause("events.ack.after-decides", needs=("subscribe", "ack"))
    async def test_a_cursor_goes_before_a_name(self, adapter: Events) -> None:
        """With both a cursor and a name, the cursor decides where to begin."""
        corner = await corner_of(adapter)
        await corner.told(4)
        every = await corner.settled()
        await adapter.ack(corner.name, _seq(every[2]))
        stream = adapter.subscribe(after=_seq(every[0]), name=corner.name, types=corner.types)

        assert ids(await taken(stream, 1)) == [every[1].id]

    @clause("events.ack.processes", needs=("subscribe", "ack"))
    async def test_another_process_sees_what_was_acknowledged(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """What one process has acknowledged, another goes on behind, and the highest of all stays."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            corner = await corner_of(here)
            await corner.told(4)
            every = await corner.settled()
            await here.ack(corner.name, _seq(every[0]))
            await there.ack(corner.name, _seq(every[2]))
            await here.ack(corner.name, _seq(every[1]))
            found = await taken(here.subscribe(name=corner.name, types=corner.types), 1)

        assert ids(found) == [every[3].id]


async def _each(calls: Iterable[Awaitable[Any]]) -> None:
    for call in calls:
        await call


def _seq(event: Event) -> int:
    assert event.seq is not None
    return event.seq


def _any(stream: Any) -> Any:
    return stream


async def _fail_at_the_first(stream: Any) -> None:
    async with aclosing(stream) as events:
        async for _ in events:
            raise ZeroDivisionError


async def _come_and_go(adapter: Events, corner: Corner) -> None:
    """One subscriber closes after the first event, one is cancelled while it waits."""
    await taken(adapter.subscribe(after=corner.start), 1)
    async with following(adapter.subscribe(after=corner.start, types=corner.types)) as follower:
        await follower.until(2)
