"""Clauses of events: the same source and id is one event, wherever and however often it is told."""

from __future__ import annotations

import asyncio

import attrs

from agentbox_contracts.events import Events, Receipt
from agentbox_contracts.suites._events_common import Corner, corner_of, ids
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

__all__ = ["DedupeClauses"]


def is_repeat(first: Receipt, again: Receipt) -> bool:
    """Whether *again* owns up to the first, or is spooled and cannot know yet."""
    if again.seq is None:
        return again.id == first.id and again.durability == "spooled"
    return again.duplicate and (again.id, again.seq, again.hash) == (first.id, first.seq, first.hash)


class DedupeClauses:
    """All of these need `dedupe`."""

    @clause("events.dedupe.same", needs=("dedupe",))
    async def test_the_same_again_is_one_event(self, adapter: Events) -> None:
        """The same source and id again changes nothing: the receipt is the first one's and says so."""
        corner = await corner_of(adapter)
        event = corner.event(data="first")
        first = await adapter.dispatch(event)
        again = [await adapter.dispatch(attrs.evolve(event, data="second")) for _ in range(2)]
        between = await adapter.dispatch(corner.event())
        again.append(await adapter.dispatch(attrs.evolve(event, data="third")))

        assert not first.duplicate
        assert not between.duplicate
        assert all(is_repeat(first, receipt) for receipt in again)
        assert [(found.id, found.data) for found in await corner.settled()] == [(event.id, "first"), (between.id, None)]

    @clause("events.dedupe.apart", needs=("dedupe",))
    async def test_another_source_is_another_event(self, adapter: Events) -> None:
        """The same id from another source is another event, and so is another id that looks alike."""
        corner = await corner_of(adapter)
        events = [
            corner.event(id="Same"),
            corner.event(id="Same", source=f"{corner.name}x"),
            corner.event(id="same"),
            corner.event(id="Same "),
            corner.event(id="ame", source=f"{corner.name}S"),
            corner.event(id="S", source=f"{corner.name}/ame"),
            corner.event(id="ame/S", source=corner.name),
        ]
        receipts = [await adapter.dispatch(event) for event in events]
        found = await corner.settled()

        assert [receipt.duplicate for receipt in receipts] == [False] * len(events)
        assert [(event.source, event.id) for event in found] == [(event.source, event.id) for event in events]

    @clause("events.dedupe.batch", needs=("dedupe",))
    async def test_the_same_within_a_batch_is_one_event(self, adapter: Events) -> None:
        """The same event twice in one batch is one, and so is one that the log has already."""
        corner = await corner_of(adapter)
        known, new, other = corner.events(3)
        first = await adapter.dispatch(known)
        receipts = await adapter.dispatch_many([new, known, new, other])

        assert ids(receipts) == [new.id, known.id, new.id, other.id]
        assert is_repeat(first, receipts[1])
        assert is_repeat(receipts[0], receipts[2])
        assert ids(await corner.settled()) == ids([known, new, other])

    @clause("events.dedupe.together", needs=("dedupe",))
    async def test_the_same_at_the_same_time_is_one_event(self, adapter: Events) -> None:
        """The same event from many callers at the same time is one; of the receipts at most one is no duplicate."""
        corner = await corner_of(adapter)
        event = corner.event()
        receipts = await asyncio.gather(*(adapter.dispatch(event) for _ in range(20)))

        assert ids(await corner.settled()) == [event.id]
        if receipts[0].seq is not None:
            assert sum(not receipt.duplicate for receipt in receipts) == 1
            assert len({(receipt.seq, receipt.hash) for receipt in receipts}) == 1

    @clause("events.dedupe.reopened", needs=("dedupe",))
    async def test_the_same_after_a_restart_is_one_event(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """What was told before a restart and is told again after it is one event."""
        async with open_adapter(manifest) as adapter:
            corner = await corner_of(adapter)
            events = await corner.told(5)
            await corner.settled()
        async with open_adapter(manifest) as adapter:
            again = [await adapter.dispatch(event) for event in events]
            found = await Corner(adapter, corner.name, corner.start).settled()

        assert all(receipt.duplicate for receipt in again if receipt.seq is not None)
        assert ids(found) == ids(events)

    @clause("events.dedupe.processes", needs=("dedupe",))
    async def test_the_same_from_several_processes_is_one_event(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """The same events from several processes at the same time are one each."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            corner = await corner_of(here)
            events = corner.events(20)
            sides = [side.dispatch(event) for event in events for side in (here, there)]
            receipts = await asyncio.gather(*sides)
            found = await corner.settled()

            assert sorted(map(str, ids(found))) == sorted(map(str, ids(events)))
            if receipts[0].seq is not None:
                assert sum(not receipt.duplicate for receipt in receipts) == len(events)
