"""Known-bad events that are fine alone, and wrong with several processes, a crash, or less than they declare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.events import CONTRACT, Event, Receipt
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._events_common import Remembers


class Own(Remembers):
    """Knows which events its own process has dispatched."""

    async def dispatch(self, event: Event) -> Any:
        self.memory[event.id] = True
        return await super().dispatch(event)


@known_bad(caught_by="events.process.one-log")
class ReadsItsOwn(Own):
    """Reads only what its own process has dispatched."""

    async def read(self, **call: Any) -> Any:
        return [event for event in await super().read(**call) if event.id in self.memory]


@known_bad(caught_by="events.process.one-log")
class LeavesGapsForOthers(Remembers):
    """Counts what it has not read before in another way."""

    async def read(self, **call: Any) -> Any:
        found = await super().read(**call)
        return [attrs.evolve(event, seq=(event.seq or 0) + (event.type.endswith(".k1") and 100_000)) for event in found]


class VerifiesItsOwn(Own):
    """Finds the chain broken where another process has written."""

    async def verify(self) -> Any:
        verdict = await super().verify()
        others = [event for event in await super().read(limit=10_000) if event.id not in self.memory]
        return attrs.evolve(verdict, ok=False, reason="an event of nobody") if others else verdict


@known_bad(caught_by="events.process.one-chain")
class BreaksForOthers(VerifiesItsOwn):
    """Has a chain of its own in each process."""


@known_bad(caught_by="events.crash.verifies")
class BreaksForTheDead(VerifiesItsOwn):
    """Has a chain that breaks where a process was killed."""


@known_bad(caught_by="events.process.seen")
class SeesOthersLate(Own):
    """Sees what another process wrote a while later."""

    async def read(self, **call: Any) -> Any:
        before = datetime.now(UTC) - timedelta(seconds=1)
        found = await super().read(**call)
        return [event for event in found if event.id in self.memory or event.time < before]


class Delays(Remembers):
    """Acknowledges first, and keeps *seconds* later."""

    seconds = 0.0

    async def dispatch(self, event: Event) -> Any:
        self._later(super().dispatch, event)
        return Receipt(id=event.id or "", durability=self.durability)

    async def dispatch_many(self, events: list[Event]) -> Any:
        self._later(super().dispatch_many, events)
        return [Receipt(id=event.id or "", durability=self.durability) for event in events]

    def _later(self, write: Any, what: Any) -> None:
        async def later() -> None:
            await asyncio.sleep(self.seconds)
            await write(what)

        self.memory[id(what)] = asyncio.ensure_future(later())

    async def disconnect(self) -> None:
        for task in self.memory.values():
            task.cancel()
        await asyncio.gather(*self.memory.values(), return_exceptions=True)
        await super().disconnect()


@known_bad(caught_by="events.crash.reopened")
class KeepsWhenThereIsTime(Delays):
    """Acknowledges, keeps a while later, and does not keep when it is closed before."""

    seconds = 0.3


@known_bad(caught_by="events.crash.points")
class AcknowledgesBeforeItKeeps(Delays):
    """Acknowledges a moment before it keeps."""

    seconds = 0.02


@known_bad(caught_by="events.crash.moments")
class LosesWithItsProcess(Delays):
    """Has in memory what it acknowledged, and loses it with its process."""

    seconds = 0.3


@known_bad(caught_by="events.crash.moments")
class KeepsBatchesInPieces(Base):
    """Keeps the events of a batch one after another."""

    async def dispatch_many(self, events: list[Event]) -> Any:
        receipts = []
        for event in events:
            receipts += await super().dispatch_many([event])
            await asyncio.sleep(0.05)
        return receipts


@known_bad(caught_by="events.capability.subscribe")
class SubscribesUndeclared(Base):
    """Lets one subscribe, and does not declare it."""

    capabilities = CONTRACT.capabilities - {"subscribe"}


@known_bad(caught_by="events.capability.ack")
class AcknowledgesUndeclared(Base):
    """Takes acknowledgements, and does not declare it."""

    capabilities = CONTRACT.capabilities - {"ack"}


@known_bad(caught_by="events.capability.ack")
class NamesUndeclared(Base):
    """Takes names, and refuses to keep their places."""

    capabilities = CONTRACT.capabilities - {"ack"}

    async def ack(self, name: str, seq: int) -> None:
        raise AdapterDisabled("there are no places")

    async def subscribe(self, *, name: str | None = None, **call: Any) -> AsyncGenerator[Event, None]:
        for event in await self.read(limit=1):
            yield event


@known_bad(caught_by="events.capability.verify")
class VerifiesUndeclared(Base):
    """Verifies, and does not declare it."""

    capabilities = CONTRACT.capabilities - {"verify"}
