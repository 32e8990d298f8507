"""Known-bad memories: what was told before is kept again, or what is new is taken for a repeat."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts.events import Event, Receipt
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._events_common import AGAIN, Outward, Remembers, Signed, Suffixes, key_of


@known_bad(caught_by="events.dedupe.same")
class KeepsRepeats(Suffixes):
    """Keeps every event as often as it is told."""

    def forgets(self, event: Event) -> bool:
        known = key_of(event) in self.memory
        self.memory[key_of(event)] = True
        return known


@known_bad(caught_by="events.dedupe.same")
class HidesRepeats(Signed):
    """Does not say that it had the event already."""

    def signed(self, receipt: Receipt) -> Receipt:
        return attrs.evolve(receipt, duplicate=False)


@known_bad(caught_by="events.dedupe.same")
class LastOneWins(Remembers, Outward):
    """Tells of an event what was told last."""

    async def dispatch(self, event: Event) -> Any:
        self.memory[key_of(event)] = event.data
        return await super().dispatch(event)

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, data=self.memory.get(key_of(event), event.data))


class TakesForTheSame(Remembers):
    """Takes events for the same that are not."""

    def key(self, event: Event) -> Any:
        """What it goes by."""
        raise NotImplementedError

    async def dispatch(self, event: Event) -> Any:
        key = self.key(event)
        if key not in self.memory:
            self.memory[key] = await super().dispatch(event)
            return self.memory[key]
        return attrs.evolve(self.memory[key], id=event.id or "", duplicate=True)


@known_bad(caught_by="events.dedupe.apart")
class GoesByIds(TakesForTheSame):
    """Takes the same id from another source for the same event."""

    def key(self, event: Event) -> Any:
        return event.id


@known_bad(caught_by="events.dedupe.apart")
class FoldsIds(TakesForTheSame):
    """Takes ids for the same that differ only in case or space."""

    def key(self, event: Event) -> Any:
        return event.source, str(event.id).casefold().strip()


@known_bad(caught_by="events.dedupe.apart")
class JoinsSourceAndId(TakesForTheSame):
    """Goes by source and id written after each other."""

    def key(self, event: Event) -> Any:
        return f"{event.source}{event.id}"


@known_bad(caught_by="events.dedupe.apart")
class JoinsSourceAndIdBySlash(TakesForTheSame):
    """Goes by source and id with a slash between them."""

    def key(self, event: Event) -> Any:
        return f"{event.source}/{event.id}"


@known_bad(caught_by="events.dedupe.batch")
class ForgetsWithinABatch(Suffixes):
    """Does not compare the events of a batch with each other."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        seen: set[Any] = set()
        kept = []
        for event in events:
            kept.append(self.hidden(event) if key_of(event) in seen else event)
            seen.add(key_of(event))
        receipts = await super().dispatch_many(kept)
        return [attrs.evolve(receipt, id=event.id or "") for receipt, event in zip(receipts, events, strict=True)]


@known_bad(caught_by="events.dedupe.batch")
class ForgetsForABatch(Suffixes):
    """Does not compare the events of a batch with those of the log."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        mark = uuid4().hex[:8]
        kept = [attrs.evolve(event, id=f"{event.id}{AGAIN}{mark}") for event in events]
        receipts = await super().dispatch_many(kept)
        return [attrs.evolve(receipt, id=event.id or "") for receipt, event in zip(receipts, events, strict=True)]


@known_bad(caught_by="events.dedupe.together")
class LooksTooEarly(Suffixes):
    """Looks whether it has an event, and keeps it some time later."""

    async def dispatch(self, event: Event) -> Any:
        is_under_way = key_of(event) in self.memory
        self.memory[key_of(event)] = True
        await asyncio.sleep(0.005)
        try:
            return await super().dispatch(self.hidden(event) if is_under_way else event)
        finally:
            self.memory.pop(key_of(event), None)


@known_bad(caught_by="events.dedupe.reopened")
class ForgetsWhenClosed(Suffixes):
    """Knows only what was told since it was opened."""

    def hidden(self, event: Event) -> Event:
        return attrs.evolve(
            event, id=f"{event.id}~again~{id(self.memory)}-{self.memory.setdefault('own', uuid4().hex)}"
        )

    def forgets(self, event: Event) -> bool:
        return True


class KnowsItself(Suffixes):
    """Knows only what its own process was told."""

    def hidden(self, event: Event) -> Event:
        return attrs.evolve(event, id=f"{str(event.id).partition(AGAIN)[0]}{AGAIN}{os.getpid()}")

    def forgets(self, event: Event) -> bool:
        return True


@known_bad(caught_by="events.dedupe.processes")
class KnowsOnlyItself(KnowsItself):
    """Keeps what another process has told once more."""


@known_bad(caught_by="events.crash.again")
class ForgetsTheDead(KnowsItself):
    """Keeps what a process that died has told once more."""


@known_bad(caught_by="events.model.same")
class StopsAtARepeat(Base):
    """Keeps nothing of a batch behind an event that it has already."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        receipts = await super().dispatch_many(events[:1])
        if receipts and receipts[0].duplicate:
            return [Receipt(id=event.id or "", seq=receipts[0].seq, duplicate=True) for event in events]
        return receipts + await super().dispatch_many(events[1:])
