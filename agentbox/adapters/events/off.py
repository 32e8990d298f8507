"""
The events slot when it is off: an event may be told, and the receipt says that nobody keeps it.

That is for whoever switched it off. One that failed refuses: those who chose a log count on it.
"""

from __future__ import annotations

from uuid import uuid4

from agentbox.adapters._off import off
from agentbox_contracts.events import CONTRACT, Event, Receipt

__all__ = ["Adapter"]


class OffEvents(off(CONTRACT)):  # type: ignore[misc]
    """Events that go nowhere."""

    async def dispatch(self, event: Event) -> Receipt:
        """A receipt with durability `none`."""
        if self.has_failed:
            raise self.disabled()
        return Receipt(id=event.id or str(uuid4()), durability="none")


Adapter = OffEvents
