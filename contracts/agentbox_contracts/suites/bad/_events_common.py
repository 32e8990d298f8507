"""What known-bad events are made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts.events import Event, Receipt
from agentbox_contracts.suites.bad import Base

__all__ = ["AGAIN", "Inward", "Outward", "Remembers", "Signed", "Suffixes", "key_of"]

AGAIN = "~again~"


def key_of(event: Event) -> tuple[str, str | None]:
    """What makes an event the same as another."""
    return event.source, event.id


class Remembers(Base):
    """Has a memory of its own, which it should not trust."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.memory: dict[Any, Any] = {}


class Inward(Base):
    """Changes each event on its way to the log, as `inward` says."""

    def inward(self, event: Event) -> Event:
        """What is kept instead of *event*."""
        return event

    async def dispatch(self, event: Event) -> Any:
        return await super().dispatch(self.inward(event))

    async def dispatch_many(self, events: list[Event]) -> Any:
        return await super().dispatch_many([self.inward(event) for event in events])


class Outward(Base):
    """Changes each event on its way from the log, as `outward` says."""

    def outward(self, event: Event) -> Event:
        """What is told instead of *event*."""
        return event

    async def read(self, **call: Any) -> Any:
        return [self.outward(event) for event in await super().read(**call)]

    async def subscribe(self, **call: Any) -> AsyncGenerator[Event, None]:
        async with aclosing(super().subscribe(**call)) as events:
            async for event in events:
                yield self.outward(event)


class Signed(Base):
    """Gives other receipts, as `signed` says."""

    def signed(self, receipt: Receipt) -> Receipt:
        """What is given instead of *receipt*."""
        return receipt

    async def dispatch(self, event: Event) -> Any:
        return self.signed(await super().dispatch(event))

    async def dispatch_many(self, events: list[Event]) -> Any:
        return [self.signed(receipt) for receipt in await super().dispatch_many(events)]


class Suffixes(Remembers, Outward):
    """Keeps an event a second time, under an id that nobody sees, whenever `forgets` says that it is a new one."""

    def forgets(self, event: Event) -> bool:
        """Whether it takes *event* for a new one although it is not."""
        return False

    def hidden(self, event: Event) -> Event:
        """*event* under an id of its own."""
        return attrs.evolve(event, id=f"{event.id}{AGAIN}{uuid4().hex[:8]}") if AGAIN not in str(event.id) else event

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, id=str(event.id).partition(AGAIN)[0])

    async def dispatch(self, event: Event) -> Any:
        kept = self.hidden(event) if self.forgets(event) else event
        return attrs.evolve(await super().dispatch(kept), id=event.id or "")

    async def dispatch_many(self, events: list[Event]) -> Any:
        kept = [self.hidden(event) if self.forgets(event) else event for event in events]
        receipts = await super().dispatch_many(kept)
        return [attrs.evolve(receipt, id=event.id or "") for receipt, event in zip(receipts, events, strict=True)]
