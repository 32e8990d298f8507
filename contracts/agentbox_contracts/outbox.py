"""
An outbox: how a store that changes and the log that tells of it stay one.

The adapter writes what it has to say into its own store, in the transaction of the change. Somebody else carries it
from there to the events slot, as often as it takes, and says when it has arrived. So adapters never know each other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import attrs

from agentbox_contracts.events import Event

__all__ = ["OUTBOX_LEASE_SECONDS", "OUTBOX_LIMIT", "Letter", "Outbox"]

OUTBOX_LIMIT = 1_000_000
"""How many letters an outbox keeps. Beyond that the oldest are given up; `agentbox.outbox.trimmed` says how many."""

OUTBOX_LEASE_SECONDS = 5.0
"""How long one carrier has the outbox for itself; who carries on renews it with every call."""


@attrs.frozen
class Letter:
    """One event that waits in the outbox, under the outbox's own number for it."""

    number: int
    event: Event


@runtime_checkable
class Outbox(Protocol):
    """
    What an adapter offers besides its port when its changes are told as events.

    `tells` is set before `connect`: without it nothing is written down. `ring` is called after a write that may have
    put something in, on the event loop, and must not raise.
    """

    tells: bool
    ring: Callable[[], None]

    @abstractmethod
    async def outbox_next(self, *, carrier: str, delivered: Sequence[int] = (), limit: int = 500) -> list[Letter]:
        """
        Forget what was *delivered*, and give what waits, the oldest first; nothing while another *carrier* is at it.

        An event has the same `source` and `id` each time it is given. What concerns one thing is in the order in which
        it happened.
        """

    @abstractmethod
    async def outbox_leave(self, *, carrier: str) -> None:
        """Let the next *carrier* begin at once."""
