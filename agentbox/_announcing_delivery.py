"""The last step of an announcement: into the events slot, or back with it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from agentbox import metrics
from agentbox.resolver import Slot
from agentbox_contracts.errors import AgentboxError, InvalidInput
from agentbox_contracts.events import Event, Events

__all__ = ["Delivery"]

log = logging.getLogger("agentbox.announcing")


class Delivery:
    """Delivers what agentbox says. It does not raise for the events slot's sake, and logs that it fails only once."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._is_failing = False

    async def deliver(self, events: Sequence[Event]) -> bool:
        """Whether *events* are in the log now. What the log refuses for good counts as delivered, and is told."""
        if not self._slot.adapter.enabled:
            return self._failed(len(events), self._slot.failure or "the events slot is off")
        port = cast("Events", self._slot.adapter)
        try:
            await port.dispatch_many(list(events))
        except InvalidInput as error:
            if len(events) > 1:
                return await self._one_by_one(events)
            fields = {"type": events[0].type, "reason": error.message}
            log.error("announcement refused: %s", error.message, extra=fields)
            metrics.ANNOUNCEMENTS.labels("refused").inc()
            return True
        except AgentboxError as error:
            return self._failed(len(events), error.message)
        metrics.ANNOUNCEMENTS.labels("told").inc(len(events))
        self._is_failing = False
        return True

    async def _one_by_one(self, events: Sequence[Event]) -> bool:
        """Up to the first that cannot be delivered now: what comes behind it must not be told before it."""
        for event in events:
            if not await self.deliver([event]):
                return False
        return True

    def _failed(self, count: int, reason: str) -> bool:
        metrics.ANNOUNCEMENTS.labels("failed").inc(count)
        if not self._is_failing:
            log.error("announcing failed: %s", reason, extra={"reason": reason})
        self._is_failing = True
        return False
