"""Events: an append-only log with a hash chain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Durability, Instant, route

__all__ = ["CONTRACT", "Event", "Events", "Receipt", "Verdict"]

EventType = Annotated[str, Meta(min_length=1, max_length=200)]
Source = Annotated[str, Meta(min_length=1, max_length=500)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Seq = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1, le=10_000)]


@attrs.frozen(kw_only=True)
class Event:
    """
    A CloudEvents 1.0 event. `id` and `time` are given when left out.

    `seq`, `prev_hash` and `hash` belong to the log: they are set on what is read and refused on what is dispatched.
    """

    type: EventType
    source: Source
    data: Any = None
    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    subject: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    time: Instant | None = None
    session_id: str | None = None
    execution_id: str | None = None
    seq: int | None = None
    prev_hash: str | None = None
    hash: str | None = None


@attrs.frozen(kw_only=True)
class Receipt:
    """What became of a dispatched event. `durability` is what has happened, not what is hoped for."""

    id: str
    seq: int | None = None
    hash: str | None = None
    durability: Durability = "none"


@attrs.frozen(kw_only=True)
class Verdict:
    """Whether the chain holds: how far it is good, and the first place where it is not."""

    ok: bool
    verified: int
    place: str | None = None
    reason: str = ""


class Events(Adapter, Protocol):
    """The port of the events slot. An acknowledged event is as durable as its receipt says."""

    @route("POST", "/v1/events", status=201)
    @abstractmethod
    async def dispatch(self, event: Event) -> Receipt:
        """Append one event. The same `source` and `id` within the adapter's `dedupe_window` is one event."""

    @abstractmethod
    async def dispatch_many(self, events: Annotated[list[Event], Meta(max_length=10_000)]) -> list[Receipt]:
        """Append several in their order, all or none."""

    @route("GET", "/v1/events")
    @abstractmethod
    async def read(
        self, *, after: Seq | None = None, limit: Limit = 1000, types: tuple[EventType, ...] = ()
    ) -> list[Event]:
        """Events behind the seq *after*, in order."""

    @abstractmethod
    def subscribe(
        self, *, after: Seq | None = None, name: Name | None = None, types: tuple[EventType, ...] = ()
    ) -> AsyncIterator[Event]:
        """Replay behind *after*, or behind what *name* acknowledged, then follow, other processes' events too."""

    @abstractmethod
    async def ack(self, name: Name, seq: Seq) -> None:
        """Keep *seq* as the place where the subscription *name* goes on."""

    @abstractmethod
    async def verify(self) -> Verdict:
        """Check the whole chain against the stored bytes."""


CONTRACT = Contract(slot="events", version="0.1.0", port=Events)
