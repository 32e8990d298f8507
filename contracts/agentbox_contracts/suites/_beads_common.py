"""What the clauses of beads share: work of their own, leases that run out, and chance that can be repeated."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from agentbox_contracts.beads import Bead, Beads

__all__ = ["LEASE", "PATIENCE", "asked", "epic_of", "expired", "own_task", "ready_ids", "run_out", "seeded"]

LEASE = 0.05
PATIENCE = 2.0


async def own_task(adapter: Beads, **fields: Any) -> Bead:
    """A task under an epic of its own, so that what others do in the same store does not matter."""
    epic = await adapter.create_epic(title="Ship it")
    return await adapter.create_child(parent_id=epic.id, **{"title": "part", **fields})


def epic_of(task: Bead) -> str:
    """The id of the epic that *task* is under."""
    return task.parent_id or task.id


async def ready_ids(adapter: Beads, parent_id: str | None) -> list[str]:
    """The ids of what is ready under one bead, in order."""
    return [bead.id for bead in await adapter.get_ready(parent_id=parent_id, limit=1000)]


async def expired(adapter: Beads, task: Bead, *, actor: str = "ada") -> Bead:
    """*task*, which has a parent, claimed by *actor* under a lease that has run out, if it ever does."""
    held = await adapter.claim(task.id, actor=actor, lease_seconds=LEASE)
    await run_out(adapter, held)
    return held


async def run_out(adapter: Beads, held: Bead) -> None:
    """Wait until the lease of *held* is over. The clock is the store's: asking is the only way to know."""
    for _ in range(round(PATIENCE / LEASE * 5)):
        if held.id in await ready_ids(adapter, held.parent_id):
            return
        await asyncio.sleep(LEASE / 5)


def asked(side: Any, method: str) -> Any:
    """A method of the port, of the adapter here or of one in another process, whose own names may hide the port's."""
    return side.__getattr__(method) if hasattr(type(side), "__getattr__") else getattr(side, method)


def seeded() -> random.Random:
    """Chance that can be repeated: its seed is printed, and taken from AGENTBOX_SEED when that is set."""
    seed = int(os.environ.get("AGENTBOX_SEED") or random.randrange(1 << 32))
    print(f"AGENTBOX_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    return random.Random(seed)
