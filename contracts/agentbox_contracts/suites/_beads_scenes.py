"""Scenes for crashes and cancellations: an epic in which every writing method has something to do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import attrs

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.suites._beads_common import asked
from agentbox_contracts.suites._beads_sync import LATER, write_records

__all__ = ["Scene", "Shape", "arranged", "call_in", "looks_after", "methods_of", "seen"]

HOUR = 3600

Shape = list[dict[str, Any]]
"""The beads of a scene without what differs from one scene to the next: names, and moments."""


@attrs.frozen
class Scene:
    """An epic with three tasks: the first is open, the second waits for it, the third is held by ada."""

    method: str
    epic: str
    file: Path

    def task(self, number: int) -> str:
        """The id of a task, from 1."""
        return f"{self.epic}.{number}"


def methods_of(adapter: Beads) -> list[str]:
    """The writing methods that the adapter has."""
    missing = {"leases": "renew", "sync": "sync"}
    absent = {method for capability, method in missing.items() if capability not in adapter.capabilities}
    methods = (
        "close",
        "create_epic",
        "create_child",
        "add_dependency",
        "claim",
        "claim_ready",
        "renew",
        "release",
        "sync",
    )
    return [method for method in methods if method not in absent]


async def arranged(adapter: Beads, method: str, folder: Path) -> Scene:
    """A new scene for *method*, in which it has not been called yet."""
    epic = await adapter.create_epic(title="Ship it")
    scene = Scene(method, epic.id, folder / f"{epic.id}.jsonl")
    for number in range(1, 4):
        await adapter.create_child(parent_id=epic.id, title=f"part {number}")
    await adapter.add_dependency(scene.task(2), blocker_id=scene.task(1))
    lease = HOUR if "leases" in adapter.capabilities else None
    await adapter.claim(scene.task(3), actor="ada", lease_seconds=lease)
    write_records(scene.file, *(_record(scene, number) for number in (4, 5)))
    return scene


def _record(scene: Scene, number: int) -> dict[str, Any]:
    """A task that another store has added: the fourth waits for the first, the fifth for the fourth."""
    bead_id = scene.task(number)
    blocker = scene.task(1 if number == 4 else 4)
    links = [
        {"issue_id": bead_id, "depends_on_id": scene.epic, "type": "parent-child"},
        {"issue_id": bead_id, "depends_on_id": blocker, "type": "blocks"},
    ]
    return {"id": bead_id, "title": f"part {number}", "updated_at": LATER, "dependencies": links}


def call_in(scene: Scene, side: Any) -> Coroutine[Any, Any, Any]:
    """The call of the scene's method, made by *side*: the adapter here, or one in another process."""
    first, third = scene.task(1), scene.task(3)
    calls: dict[str, Any] = {
        "create_epic": lambda: side.create_epic(title=f"after {scene.epic}", priority=0),
        "create_child": lambda: side.create_child(parent_id=scene.epic, title="new"),
        "add_dependency": lambda: side.add_dependency(third, blocker_id=first),
        "claim": lambda: side.claim(first, actor="grace"),
        "claim_ready": lambda: side.claim_ready(actor="grace", parent_id=scene.epic),
        "renew": lambda: side.renew(third, lease_seconds=10 * HOUR, fence=1),
        "release": lambda: side.release(third, fence=1),
        "close": lambda: asked(side, "close")(first, reason="at last"),
        "sync": lambda: side.sync(str(scene.file), direction="import"),
    }
    call: Coroutine[Any, Any, Any] = calls[scene.method]()
    return call


async def looks_after(adapter: Beads, method: str, folder: Path) -> tuple[Shape, Shape]:
    """What a scene for *method* looks like before the call, and once it is written."""
    scene = await arranged(adapter, method, folder)
    before = after = await seen(adapter, scene)
    await call_in(scene, adapter)
    for _ in range(100):
        after = await seen(adapter, scene)
        if after != before:
            break
        await asyncio.sleep(0.01)
    return before, after


async def seen(adapter: Beads, scene: Scene) -> Shape:
    """What the scene looks like now."""
    beads = [await adapter.show(scene.epic), *(await adapter.children(scene.epic)).items]
    if scene.method == "create_epic":
        title = f"after {scene.epic}"
        beads += [bead for bead in await adapter.get_ready(limit=1000) if bead.title == title]
    return [_plain(bead, scene) for bead in beads]


def _plain(bead: Bead, scene: Scene) -> dict[str, Any]:
    lease = bead.lease_expires_at and bead.claimed_at and bead.lease_expires_at - bead.claimed_at
    times = ("created_at", "updated_at", "claimed_at", "closed_at")
    known = bead.id.startswith(scene.epic)
    return attrs.asdict(bead) | {
        "id": bead.id.removeprefix(scene.epic) if known else "another epic",
        "uid": "",
        "title": bead.title.replace(scene.epic, ""),
        "parent_id": bead.parent_id is not None,
        "depends_on": [other.removeprefix(scene.epic) for other in bead.depends_on],
        "lease_expires_at": lease and round(lease.total_seconds() / HOUR),
        **{name: getattr(bead, name) is not None for name in times},
    }
