"""Clauses of events: what is dispatched is kept as it was, in order, and the receipt tells the truth."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest

from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event, Events, Receipt
from agentbox_contracts.suites._events_common import corner_of, everything, ids, is_recent
from agentbox_contracts.suites.clauses import clause

__all__ = ["DispatchClauses", "ManyClauses"]

LOGS_OWN = {"seq": None, "prev_hash": None, "hash": None}


def sent(event: Event) -> Event:
    """*event* as it was sent: without what the log has added."""
    return attrs.evolve(event, **LOGS_OWN)  # type: ignore[arg-type]


class DispatchClauses:
    """One event."""

    @clause("events.dispatch.kept")
    async def test_what_was_dispatched_comes_back_exactly(self, adapter: Events) -> None:
        """An event comes back with everything it was sent with, and nothing else but what the log adds."""
        corner = await corner_of(adapter)
        full = corner.event(
            subject="a subject",
            data={"n": [1, 2.5, None, True, "ü"], "": {}},
            time=datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC),
            datacontenttype="application/json",
            dataschema="https://example.org/schema",
            session_id="session",
            execution_id="execution",
        )
        bare = corner.event(time=datetime(2026, 3, 1, tzinfo=UTC))
        for event in (full, bare):
            await adapter.dispatch(event)

        assert [sent(event) for event in await corner.settled()] == [full, bare]

    @clause("events.dispatch.utc")
    async def test_time_is_utc(self, adapter: Events) -> None:
        """A time of another zone is the same moment in UTC."""
        corner = await corner_of(adapter)
        local = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=45)))
        await adapter.dispatch(corner.event(time=local))
        (found,) = await corner.settled()

        assert found.time is not None
        assert (found.time.utcoffset(), found.time.timestamp()) == (timedelta(0), local.timestamp())

    @clause("events.dispatch.given")
    async def test_id_and_time_are_given(self, adapter: Events) -> None:
        """An event without id and time is given an id of its own, which the receipt names, and the time it is now."""
        corner = await corner_of(adapter)
        receipts = [await adapter.dispatch(corner.event(id=None)) for _ in range(3)]
        found = await corner.settled()

        assert ids(found) == ids(receipts)
        assert len({event.id for event in found}) == 3
        assert all(is_recent(event.time) for event in found), [event.time for event in found]

    @clause("events.dispatch.context")
    async def test_session_and_execution_are_the_callers(self, adapter: Events) -> None:
        """Session and execution are those of the caller's context, unless the event names its own."""
        corner = await corner_of(adapter)
        tokens = session_id.set("outer session"), execution_id.set("outer execution")
        try:
            await adapter.dispatch(corner.event())
            await adapter.dispatch(corner.event(session_id="own session", execution_id="own execution"))
        finally:
            session_id.reset(tokens[0])
            execution_id.reset(tokens[1])
        await adapter.dispatch(corner.event())
        found = [(event.session_id, event.execution_id) for event in await corner.settled()]

        assert found == [("outer session", "outer execution"), ("own session", "own execution"), (None, None)]

    @clause("events.receipt.truth")
    async def test_a_receipt_tells_the_truth(self, adapter: Events) -> None:
        """A receipt has the event's id; its seq and hash are the event's, or it is spooled and has neither."""
        corner = await corner_of(adapter)
        events = corner.events(5)
        receipts = [await adapter.dispatch(event) for event in events[:3]]
        receipts += await adapter.dispatch_many(events[3:])
        at_once = {event.id: event for event in await everything(adapter, corner.start)}
        found = {event.id: event for event in await corner.settled()}

        assert ids(receipts) == ids(events)
        assert not any(receipt.duplicate for receipt in receipts)
        for receipt in receipts:
            if receipt.seq is None:
                assert (receipt.durability, receipt.hash) == ("spooled", None)
            else:
                assert receipt.id in at_once, "acknowledged with a seq, and not to be read"
                assert (receipt.seq, receipt.hash) == (found[receipt.id].seq, found[receipt.id].hash)

    @clause("events.receipt.durability")
    async def test_a_receipt_promises_what_the_adapter_does(self, adapter: Events) -> None:
        """A receipt promises the durability that the adapter declares, and that is not none."""
        corner = await corner_of(adapter)
        receipts = [await adapter.dispatch(corner.event()), *await adapter.dispatch_many(corner.events(2))]

        assert {receipt.durability for receipt in receipts} == {adapter.durability}
        assert adapter.durability != "none"

    @clause("events.order.one-caller")
    async def test_events_are_in_the_order_they_were_dispatched(self, adapter: Events) -> None:
        """What is dispatched one after another is read in that order, each with a higher seq."""
        corner = await corner_of(adapter)
        events = await corner.told(20)
        found = await corner.settled()

        assert ids(found) == ids(events)
        assert [event.seq for event in found] == sorted({event.seq or 0 for event in found})

    @clause("events.order.concurrent")
    async def test_many_callers_at_once_lose_nothing(self, adapter: Events) -> None:
        """Of many events that are dispatched at the same time each is there once, and `seq` has no gaps."""
        corner = await corner_of(adapter)
        events = corner.events(200)
        receipts = await asyncio.gather(*(adapter.dispatch(event) for event in events))
        found = await corner.settled()
        every = [event.seq for event in await everything(adapter, corner.start)]

        assert ids(list(receipts)) == ids(events)
        assert sorted(map(str, ids(found))) == sorted(map(str, ids(events)))
        assert every == list(range(corner.start + 1, corner.start + 1 + len(every)))

    @clause("events.order.chained", needs=("verify",))
    async def test_each_event_names_the_one_before(self, adapter: Events) -> None:
        """Each event has a hash of its own, and names the hash of the one before it."""
        corner = await corner_of(adapter)
        await corner.told(5)
        await corner.settled()
        found = await everything(adapter, corner.start)
        hashes = [event.hash for event in found]

        assert all(hashes)
        assert len({*hashes}) == len(hashes)
        assert [event.prev_hash for event in found[1:]] == hashes[:-1]

    @clause("events.cancel.all-or-nothing")
    async def test_a_cancelled_dispatch_happened_or_did_not(self, adapter: Events) -> None:
        """A cancelled dispatch has happened once or not at all, whenever it was cancelled, and the next one works."""
        corner = await corner_of(adapter)
        done: list[Any] = []
        for delay in (0.0, 0.0, 0.0003, 0.001, 0.003, 0.01):
            event = corner.event()
            task = asyncio.ensure_future(adapter.dispatch(event))
            await asyncio.sleep(delay)
            task.cancel()
            (answer,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(answer, Receipt):
                done.append(event.id)
        last = await corner.told(1)
        found = ids(await corner.settled())

        assert len(found) == len({*found}), "a cancelled event is there twice"
        assert {*done, *ids(last)} <= {*found}, "an acknowledged event is missing"


class ManyClauses:
    """Several events at once."""

    @clause("events.many.order")
    async def test_many_are_kept_in_their_order(self, adapter: Events) -> None:
        """Several events are kept in their order, with a receipt for each in the same order."""
        corner = await corner_of(adapter)
        events = corner.events(300)
        receipts = await adapter.dispatch_many(events)

        assert ids(receipts) == ids(events)
        assert ids(await corner.settled()) == ids(events)

    @clause("events.many.empty")
    async def test_none_at_all_is_nothing(self, adapter: Events) -> None:
        """No events at all are no receipts, and nothing is kept."""
        corner = await corner_of(adapter)
        receipts = await adapter.dispatch_many([])

        assert (receipts, await corner.settled()) == ([], [])

    @clause("events.many.all-or-none")
    async def test_with_one_that_is_wrong_none_is_kept(self, adapter: Events) -> None:
        """When one of several is wrong none is kept, wherever it stands."""
        corner = await corner_of(adapter)
        for wrong in ({"seq": 1}, {"data": float("nan")}, {"type": ""}):
            for place in (0, 2, 4):
                events = corner.events(5)
                events[place] = attrs.evolve(events[place], **wrong)
                with pytest.raises(InvalidInput):
                    await adapter.dispatch_many(events)

        assert await corner.settled() == []

    @clause("events.many.together")
    async def test_batches_at_the_same_time_stay_whole(self, adapter: Events) -> None:
        """Of several batches at the same time each is there whole, in its own order."""
        corner = await corner_of(adapter)
        batches = [corner.events(20, kind=f"k{n}") for n in range(8)]
        await asyncio.gather(*(adapter.dispatch_many(batch) for batch in batches))
        found = await corner.settled()

        for batch in batches:
            assert ids([event for event in found if event.type == batch[0].type]) == ids(batch)
