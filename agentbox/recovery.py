"""Slots that come back: what failed is tried again, what changes is told once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable

from agentbox import resolver
from agentbox.manifest import Manifest
from agentbox.resolver import Slot
from agentbox_contracts.errors import AgentboxError

__all__ = ["watch"]

log = logging.getLogger("agentbox.recovery")

Tell = Callable[[Slot, str, str], None]
"""Told of a slot, its new state and the reason."""

LOOK_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0


async def watch(manifest: Manifest, slots: Iterable[Slot], tell: Tell | None = None) -> None:
    """Watch every slot that is on, until cancelled: bring back what failed, and tell each change of health."""
    async with asyncio.TaskGroup() as tasks:
        for slot in slots:
            if slot.choice.impl != "off":
                tasks.create_task(_watch(manifest, slot, tell))


async def _watch(manifest: Manifest, slot: Slot, tell: Tell | None) -> None:
    state, tries = ("degraded" if slot.failure else "healthy"), 0
    while True:
        await asyncio.sleep(_pause(tries) if slot.failure else LOOK_SECONDS)
        tries = 0 if not slot.failure or await _revived(manifest, slot) else tries + 1
        found = await resolver.probe(slot)
        if found.state != state:
            fields = {"slot": slot.name, "impl": slot.choice.impl, "reason": found.reason}
            if found.state == "healthy":
                log.info("slot recovered: %s", slot.name, extra=fields)
            else:
                log.error("slot degraded: %s: %s", slot.name, found.reason, extra=fields)
            state = found.state
            if tell is not None:
                tell(slot, state, found.reason)


async def _revived(manifest: Manifest, slot: Slot) -> bool:
    try:
        return await resolver.revive(manifest, slot)
    except AgentboxError as error:
        slot.failure = error.message
        return False


def _pause(tries: int) -> float:
    """Longer each time, and never the same for two that failed together."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads load, guards nothing
