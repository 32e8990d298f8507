"""
What agentbox itself says, carried to the events slot: facts about beads, agents, slots and the app.

Nothing here may break or slow whoever caused a fact: it runs beside the calls, and what cannot be delivered is tried
again. Facts about beads and agents are read from where they are kept, so that a crash loses none; those about slots and
the app are this process's own, and are gone with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from uuid import uuid4

from agentbox import __version__
from agentbox._announcing_agents import Agents
from agentbox._announcing_beads import Carrier
from agentbox._announcing_delivery import Delivery
from agentbox.manifest import Manifest
from agentbox.resolver import Slot
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.events import Event
from agentbox_contracts.vocabulary import AppClosed, AppOpened, Fact, SlotDegraded, SlotRecovered, data_of, source_of

__all__ = ["Announcer", "announcing"]

log = logging.getLogger("agentbox.announcing")

KEPT = 10_000
BATCH = 500
AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 2.0


class Announcer:
    """One app's voice."""

    def __init__(self, manifest: Manifest, slots: Mapping[str, Slot]) -> None:
        self.app_id = uuid4().hex
        self._slots = slots
        self._own: deque[Event] = deque(maxlen=KEPT)
        self._rung = asyncio.Event()
        self._delivery = Delivery(slots["events"])
        self._carrier = Carrier(slots["beads"], self._delivery, name=self.app_id)
        self._agents = Agents(slots["orchestrator"], self._delivery, manifest.state / "announced-agents")

    def opened(self) -> None:
        """Say that the app is open, and which slots are not as they should be."""
        impls = {name: slot.choice.impl for name, slot in self._slots.items()}
        self._say("app", AppOpened(app_id=self.app_id, version=__version__, pid=os.getpid(), slots=impls))
        for slot in self._slots.values():
            if slot.failure:
                self.changed(slot, "degraded", slot.failure)

    def changed(self, slot: Slot, state: str, reason: str) -> None:
        """Say that *slot* is degraded, or healthy again."""
        fact: Fact = SlotRecovered(app_id=self.app_id, slot=slot.name, impl=slot.choice.impl)
        if state != "healthy":
            fact = SlotDegraded(app_id=self.app_id, slot=slot.name, impl=slot.choice.impl, reason=reason)
        self._say(slot.name, fact)

    async def run(self) -> None:
        """Carry everything until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._carrier.run())
            tasks.create_task(self._speak())
            tasks.create_task(self._agents.run())

    async def closed(self) -> None:
        """Say that the app is closing, and try once more what waits, for a moment. Then another may carry."""
        self._say("app", AppClosed(app_id=self.app_id))
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                # Each in its turn, also when the one before failed: beads may be away where events are not.
                await self._carrier.empty()
                await self._agents.look()
                await self._spoken()
                await self._carrier.leave()
        except TimeoutError:
            log.warning("announcing cut off: %d events wait", len(self._own), extra={"waiting": len(self._own)})
        except AgentboxError as error:
            log.warning("outbox not left: %s", error.message, extra={"reason": error.message})

    def _say(self, subject: str, fact: Fact) -> None:
        event = Event(
            id=uuid4().hex,
            type=fact.type,
            source=source_of(fact.type),
            subject=subject,
            time=datetime.now(UTC),
            data=data_of(fact),
        )
        self._own.append(event)
        self._rung.set()

    async def _speak(self) -> None:
        while True:
            await self._rung.wait()
            self._rung.clear()
            if not await self._spoken():
                await asyncio.sleep(AGAIN_SECONDS)
                self._rung.set()

    async def _spoken(self) -> bool:
        """Whether everything of our own is in the log."""
        while waiting := list(islice(self._own, BATCH)):
            if not await self._delivery.deliver(waiting):
                return False
            for event in waiting:
                # One that is not the first any more was pushed out by newer ones.
                if self._own and self._own[0] is event:
                    self._own.popleft()
        return True


@asynccontextmanager
async def announcing(manifest: Manifest, slots: Mapping[str, Slot]) -> AsyncIterator[Announcer | None]:
    """Carry facts for as long as the block lasts. None when the manifest wants nothing told."""
    if not manifest.announces:
        yield None
        return
    announcer = Announcer(manifest, slots)
    announcer.opened()
    # In a context of its own: what is told has the ids of whoever caused it, not of whoever opened the app.
    running = asyncio.create_task(announcer.run(), context=contextvars.Context())
    try:
        yield announcer
    finally:
        running.cancel()
        await asyncio.wait([running])
        await announcer.closed()
