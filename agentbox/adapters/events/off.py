"""The events slot when it is off: an event may be told, and the receipt says that nobody keeps it."""

from __future__ import annotations

from uuid import uuid4

from agentbox.adapters._off import off
from agentbox_contracts.events import CONTRACT, Event, Receipt

__all__ = ["Adapter"]


class OffEvents(off(CONTRACT)):  # type: ignore[misc]
    """Events that go nowhere."""

    async def dispatch(self, event: Event) -> Receipt:
        """A receipt with durability `none`."""
        return Receipt(id=event.id or str(uuid4()), durability="none")


Adapter = OffEvents
