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
    A CloudEvents 1.0 event. `id` and `time` are given when left out, session and execution by the caller's context.

    `seq`, `prev_hash` and `hash` belong to the log: they are set on what is read and refused on what is dispatched.
    `data` is any JSON value, at most 1 MiB encoded and 64 levels deep.
    """

    type: EventType
    source: Source
    data: Any = None
    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    subject: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    time: Instant | None = None
    datacontenttype: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    dataschema: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    session_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    execution_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    seq: int | None = None
    prev_hash: str | None = None
    hash: str | None = None


@attrs.frozen(kw_only=True)
class Receipt:
    """
    What became of a dispatched event. `durability` is what has happened, not what is hoped for.

    `duplicate` is true when the log had the event already: then `seq` and `hash` are those of the first.
    """

    id: str
    seq: int | None = None
    hash: str | None = None
    durability: Durability = "none"
    duplicate: bool = False


@attrs.frozen(kw_only=True)
class Verdict:
    """
    Whether the chain holds: how many events are good from the start, and the first place where it is not.

    `place` is `file:line` or what the adapter has instead. `first_seq` is above 1 where retention has cut the log.
    """

    ok: bool
    verified: int
    first_seq: int | None = None
    last_seq: int | None = None
    place: str | None = None
    reason: str = ""


class Events(Adapter, Protocol):
    """
    The port of the events slot. An acknowledged event is as durable as its receipt says.

    Every method may also raise what dispatch raises: InvalidInput before anything is written, AdapterTimeout,
    AdapterUnavailable. What was switched off takes events without keeping them and refuses everything else.
    """

    @route("POST", "/v1/events", status=201)
    @abstractmethod
    async def dispatch(self, event: Event) -> Receipt:
        """
        Append one event. The same `source` and `id` within the adapter's `dedupe_window` is one event.

        Raises:
            InvalidInput: It brings a `seq` or hash of its own, or data that is no JSON.
            AdapterUnavailable: It cannot be kept: the disk or the spool is full, or the log cannot be written.
        """

    @abstractmethod
    async def dispatch_many(self, events: Annotated[list[Event], Meta(max_length=10_000)]) -> list[Receipt]:
        """
        Append several in their order, all or none; a receipt for each. Duplicates are found as in `dispatch`.

        Raises:
            InvalidInput: One of them is wrong, or they are more than the adapter's limit `dispatch_many`; none is kept.
            AdapterUnavailable: They cannot be kept; none is.
        """

    @route("GET", "/v1/events")
    @abstractmethod
    async def read(
        self, *, after: Seq | None = None, limit: Limit = 1000, types: tuple[EventType, ...] = ()
    ) -> list[Event]:
        """
        Events behind the seq *after*, in order of `seq`, at most *limit*; fewer only at the end of the log.

        *types* chooses by exact type, or by all that begin with a name and a dot (`agentbox.bead.*`). What retention
        has cut is left out: the first event then has a `seq` above `after + 1`.
        """

    @route("GET", "/v1/events")
    @abstractmethod
    def subscribe(
        self, *, after: Seq | None = None, name: Name | None = None, types: tuple[EventType, ...] = ()
    ) -> AsyncIterator[Event]:
        """
        Replay behind *after*, or behind what *name* acknowledged, or from the start; then follow, in order.

        Other processes' events come too. At least once: what was not acknowledged under *name* comes again after a
        restart. A slow reader never slows who dispatches. Both *after* and *name*: *after* decides where to begin.
        """

    @route("POST", "/v1/events/cursors/{name}")
    @abstractmethod
    async def ack(self, name: Name, seq: Seq) -> None:
        """
        Keep *seq* as the place behind which the subscription *name* goes on. It never goes backwards.

        Raises:
            InvalidInput: The log has not come so far.
        """

    @route("GET", "/v1/events/verify")
    @abstractmethod
    async def verify(self) -> Verdict:
        """Check the whole chain against the stored bytes. A broken chain is a verdict, not an error."""


CONTRACT = Contract(
    slot="events", version="1.0.0", port=Events, capabilities=frozenset({"subscribe", "ack", "verify", "dedupe"})
)
