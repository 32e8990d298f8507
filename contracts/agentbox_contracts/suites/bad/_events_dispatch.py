"""Known-bad dispatching: events change on their way, come in another order, or the receipt is not true."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs

from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event, Receipt
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._events_common import Inward, Outward, Remembers, Signed


@known_bad(caught_by="events.dispatch.kept")
class DropsSubjects(Inward):
    """Keeps no subjects."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, subject=None)


@known_bad(caught_by="events.dispatch.kept")
class RoundsTimes(Inward):
    """Keeps whole seconds."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, time=event.time and event.time.replace(microsecond=0))


@known_bad(caught_by="events.dispatch.utc")
class ForgetsZones(Inward):
    """Takes the time of any zone for UTC."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, time=event.time and event.time.replace(tzinfo=UTC))


@known_bad(caught_by="events.dispatch.utc")
class TellsLocalTime(Outward):
    """Tells times of another zone than UTC."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, time=event.time and event.time.astimezone(timezone(timedelta(hours=1))))


@known_bad(caught_by="events.dispatch.given")
class GivesOneId(Inward):
    """Gives every event without an id the same one."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, id=event.id or "id")


@known_bad(caught_by="events.dispatch.given")
class GivesOldTimes(Inward):
    """Gives events without a time one that is long over."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, time=event.time or datetime(2000, 1, 1, tzinfo=UTC))


@known_bad(caught_by="events.dispatch.context")
class IgnoresTheCaller(Base):
    """Does not know in which session it is called."""

    async def dispatch(self, event: Event) -> Any:
        tokens = session_id.set(None), execution_id.set(None)
        try:
            return await super().dispatch(event)
        finally:
            session_id.reset(tokens[0])
            execution_id.reset(tokens[1])


@known_bad(caught_by="events.dispatch.context")
class KnowsTheCallerBetter(Inward):
    """Puts the caller's session in the place of the event's own."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, session_id=session_id.get() or event.session_id)


@known_bad(caught_by="events.receipt.truth")
class GuessesSeqs(Signed):
    """Gives receipts for the event after the right one."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, seq=(receipt.seq or 0) + 1)


@known_bad(caught_by="events.receipt.truth")
class HashesOtherwise(Signed):
    """Gives receipts with a hash that no event has."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, hash=str(receipt.hash)[::-1])


@known_bad(caught_by="events.receipt.truth")
class CallsAllRepeats(Signed):
    """Says of every event that the log had it already."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, duplicate=True)


@known_bad(caught_by="events.receipt.truth")
class ShowsLater(Remembers):
    """Gives a seq for what cannot be read until a while later."""

    async def dispatch(self, event: Event) -> Any:
        self.memory[event.id] = time.monotonic() + 0.2
        return await super().dispatch(event)

    async def read(self, **call: Any) -> Any:
        now = time.monotonic()
        found = await super().read(**call)
        return [event for event in found if self.memory.get(event.id, 0) < now]


@known_bad(caught_by="events.receipt.durability")
class PromisesMore(Signed):
    """Promises that many machines have it."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, durability="quorum")


@known_bad(caught_by="events.receipt.durability")
class PromisesNothing(Signed):
    """Promises nothing, like one that is off."""

    durability = "none"

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, durability="none")


@known_bad(caught_by="events.order.one-caller")
class NewestFirst(Base):
    """Reads backwards."""

    async def read(self, **call: Any) -> Any:
        found = await super().read(**call)
        return found[::-1]


@known_bad(caught_by="events.order.one-caller")
class NumbersTwice(Outward):
    """Gives two events the same number."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, seq=(event.seq or 0) // 2 * 2)


class Busy(Base):
    """Knows how many calls are under way."""

    under_way = 0


@known_bad(caught_by="events.order.concurrent")
class LosesUnderLoad(Busy):
    """Acknowledges what it has no time to keep."""

    async def dispatch(self, event: Event) -> Any:
        self.under_way += 1
        try:
            if self.under_way > 100:
                return Receipt(id=event.id or "", seq=1, durability=self.durability)
            return await super().dispatch(event)
        finally:
            self.under_way -= 1


@known_bad(caught_by="events.order.concurrent")
class SkipsNumbers(Signed, Outward):
    """Counts in steps of two."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, seq=(receipt.seq or 0) * 2)

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, seq=(event.seq or 0) * 2)

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        return await super().read(after=(after or 0) // 2, **call)


@known_bad(caught_by="events.order.chained")
class ChainsToItself(Outward):
    """Names the hash of the event itself as the one before."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, prev_hash=event.hash)


@known_bad(caught_by="events.order.chained")
class HasNoHashes(Outward):
    """Keeps no hashes, although it offers to verify."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, hash=None)


@known_bad(caught_by="events.cancel.all-or-nothing")
class SignsTheCancelled(Base):
    """Takes a cancelled call for one that went well."""

    async def dispatch(self, event: Event) -> Any:
        try:
            await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            return Receipt(id=event.id or "", seq=1, durability=self.durability)
        return await super().dispatch(event)


@known_bad(caught_by="events.many.order")
class KeepsThemReversed(Base):
    """Keeps the last of several first."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        receipts = await super().dispatch_many(events[::-1])
        return receipts[::-1]


@known_bad(caught_by="events.many.order")
class SignsThemReversed(Base):
    """Gives the receipt of the last first."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        receipts = await super().dispatch_many(events)
        return receipts[::-1]


@known_bad(caught_by="events.many.empty")
class SignsForNothing(Base):
    """Gives a receipt for no event."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        return await super().dispatch_many(events) or [Receipt(id="none")]


def unplaced(event: Event) -> Event:
    """*event* without a place in a chain."""
    return attrs.evolve(event, seq=None, prev_hash=None, hash=None)


class KeepsTheRefused(Base):
    """Refuses events, after it has kept what it could."""

    async def dispatch(self, event: Event) -> Any:
        try:
            return await super().dispatch(event)
        except InvalidInput:
            await super().dispatch(unplaced(event))
            raise

    async def dispatch_many(self, events: list[Event]) -> Any:
        try:
            return await super().dispatch_many(events)
        except InvalidInput:
            await super().dispatch_many([event for event in events if event == unplaced(event)])
            raise


@known_bad(caught_by="events.many.all-or-none")
class KeepsTheGoodOnes(KeepsTheRefused):
    """Keeps those of several that are not wrong."""


@known_bad(caught_by="events.garbage.refused")
class KeepsGarbageEvents(KeepsTheRefused):
    """Refuses garbage, and keeps it without what was wrong."""


@known_bad(caught_by="events.garbage.own-chain")
class KeepsTheUnplaced(KeepsTheRefused):
    """Refuses an event with a place of its own, and keeps it without."""


@known_bad(caught_by="events.many.all-or-none")
class ForgivesAll(Inward):
    """Takes off what an event must not bring, and keeps it."""

    def inward(self, event: Event) -> Event:
        return unplaced(event)


@known_bad(caught_by="events.garbage.own-chain")
class ForgivesPlaces(Inward):
    """Takes a place in the chain off, and keeps the event."""

    def inward(self, event: Event) -> Event:
        return unplaced(event)


@known_bad(caught_by="events.many.together")
class HalvesWhenBusy(Busy):
    """Keeps half of a batch when another is under way."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        self.under_way += 1
        try:
            receipts = await super().dispatch_many(events if self.under_way == 1 else events[: len(events) // 2])
            return receipts * 2
        finally:
            self.under_way -= 1


@known_bad(caught_by="events.garbage.refused")
class BlamesAppending(Base):
    """Names another call than the one it refuses."""

    async def dispatch(self, event: Event) -> Any:
        try:
            return await super().dispatch(event)
        except InvalidInput as error:
            raise InvalidInput(error.message, method="append") from None
