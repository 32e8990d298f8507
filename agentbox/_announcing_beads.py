"""Facts about beads, carried from the store's outbox to the events slot."""

from __future__ import annotations

import asyncio
import logging

from agentbox._announcing_delivery import Delivery
from agentbox.resolver import Slot
from agentbox_contracts.outbox import Outbox

__all__ = ["Carrier"]

log = logging.getLogger("agentbox.announcing")

BATCH = 500
GATHER_SECONDS = 0.02
LOOK_SECONDS = 1.0
LONGEST_PAUSE = 5.0


class Carrier:
    """
    Empties the outbox whenever the store rings, and looks into it every second for what other processes put there.

    A letter is given again until it was delivered, and has the same id each time, so that the log keeps it once. Of
    several apps on one store one carries; the others wait until it leaves, which it also does when it cannot deliver,
    or has been silent for as long as its lease.
    """

    def __init__(self, slot: Slot, delivery: Delivery, *, name: str) -> None:
        self._slot = slot
        self._delivery = delivery
        self._name = name
        self._rung = asyncio.Event()

    async def run(self) -> None:
        """Carry until cancelled."""
        failures = 0
        while True:
            # Also before the first letter: a process may have died between its write and the delivery.
            failures = 0 if await self.empty() else failures + 1
            await self._pause(failures)

    async def empty(self) -> bool:
        """Deliver everything that waits. False when that cannot be done now."""
        outbox = self._outbox()
        if outbox is None:
            return True
        delivered: list[int] = []
        try:
            while letters := await outbox.outbox_next(carrier=self._name, delivered=delivered, limit=BATCH):
                if not await self._delivery.deliver([letter.event for letter in letters]):
                    await outbox.outbox_leave(carrier=self._name)  # somebody else's log may be well
                    return False
                delivered = [letter.number for letter in letters]
        except Exception as error:  # whatever it is, the carrier must go on
            fields = {"impl": self._slot.adapter.impl, "reason": str(error)}
            log.warning("outbox not read: %s", error, extra=fields)
            return False
        return True

    async def leave(self) -> None:
        """Let another carry on at once."""
        if (outbox := self._outbox()) is not None:
            await outbox.outbox_leave(carrier=self._name)

    def _outbox(self) -> Outbox | None:
        """The adapter that stands behind the slot now, if its changes are told."""
        adapter = self._slot.adapter.adapter
        if not isinstance(adapter, Outbox):
            return None
        adapter.ring = self._rung.set
        return adapter

    async def _pause(self, failures: int) -> None:
        if failures:
            await asyncio.sleep(min(LONGEST_PAUSE, 0.25 * 2 ** min(failures, 8)))
            return
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()
        await asyncio.sleep(GATHER_SECONDS)  # what comes together is delivered together
