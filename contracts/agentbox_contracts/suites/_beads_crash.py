"""Clauses of beads: whatever happens to a call or its process, all of it is there or nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts.beads import Beads
from agentbox_contracts.suites._beads_common import seeded
from agentbox_contracts.suites._beads_scenes import Scene, Shape, arranged, call_in, looks_after, methods_of, seen
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Point

__all__ = ["CrashClauses", "killed_at_a_random_moment", "looks_of"]

POINTS: tuple[Point, ...] = ("received", "begun", "done")
DELAYS = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03)
MOMENT = 0.02

Looks = dict[str, tuple[Shape, Shape]]


async def looks_of(adapter: Beads, folder: Path) -> Looks:
    """How a scene looks before and after each writing method."""
    return {method: await looks_after(adapter, method, folder) for method in methods_of(adapter)}


async def settled(adapter: Beads, scene: Scene, looks: Looks) -> Shape:
    """The scene once nothing half is seen in it, or as it still is after a while: what was begun may still end."""
    shape = await seen(adapter, scene)
    for _ in range(30):
        if shape in looks[scene.method]:
            break
        await asyncio.sleep(0.01)
        shape = await seen(adapter, scene)
    return shape


async def killed_at_a_random_moment(
    here: Beads, open_process: OpenProcess, manifest: str, folder: Path, chance: random.Random, looks: Looks
) -> list[tuple[str, bool, Shape]]:
    """
    Every writing method at once in a process that is killed meanwhile.

    For each: its name, whether it was acknowledged, and what its scene looks like then.
    """
    scenes = [await arranged(here, method, folder) for method in looks]
    chance.shuffle(scenes)
    async with open_process(manifest) as there:
        calls = [asyncio.ensure_future(call_in(scene, there)) for scene in scenes]
        await _answered(calls, chance.randrange(len(calls) + 1))
        await asyncio.sleep(MOMENT * chance.random() ** 2)
        await there.kill()
        answers = await asyncio.gather(*calls, return_exceptions=True)
    return [
        (scene.method, not isinstance(answer, ConnectionError), await settled(here, scene, looks))
        for scene, answer in zip(scenes, answers, strict=True)
    ]


async def _answered(calls: Iterable[asyncio.Future[Any]], count: int) -> None:
    """Wait until so many of *calls* are answered: on a slow machine too, some crashes come early and some late."""
    waiting = set(calls)
    fewest = len(waiting) - count
    while len(waiting) > fewest:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


class CrashClauses:
    """Acknowledged is there, and nothing is half."""

    @clause("beads.ack.reopened")
    async def test_what_was_acknowledged_is_there_after_reopening(
        self, open_adapter: OpenAdapter, manifest: str
    ) -> None:
        """What was acknowledged is there when the store is opened again."""
        async with open_adapter(manifest) as adapter:
            epic = await adapter.create_epic(title="Ship it")
            creates = (adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(50))
            made = await asyncio.gather(*creates)
            closed = await asyncio.gather(*(adapter.close(bead.id) for bead in made[:25]))
        async with open_adapter(manifest) as adapter:
            found = {bead.id: bead for bead in (await adapter.children(epic.id)).items}

        assert found == {bead.id: bead for bead in (*closed, *made[25:])}

    @clause("beads.cancel.all-or-nothing")
    async def test_a_cancelled_call_leaves_all_or_nothing(self, adapter: Beads, tmp_path: Path) -> None:
        """A cancelled call has happened wholly or not at all, whichever method it was and whenever it was cancelled."""
        looks = await looks_of(adapter, tmp_path)
        for method in looks:
            for delay in DELAYS:
                scene = await arranged(adapter, method, tmp_path)
                task = asyncio.ensure_future(call_in(scene, adapter))
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                allowed = looks[method][1:] if not task.cancelled() else looks[method]

                assert await settled(adapter, scene, looks) in allowed, f"{method} cancelled after {delay} s"

    @clause("beads.crash.points")
    async def test_a_crash_at_a_named_point_leaves_all_or_nothing(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str, tmp_path: Path
    ) -> None:
        """Killed before a call nothing of it is there, killed after it all is, killed meanwhile all or nothing."""
        async with open_adapter(manifest) as adapter:
            looks = await looks_of(adapter, tmp_path)
        for method, (before, after) in looks.items():
            for point in POINTS:
                async with open_adapter(manifest) as adapter:
                    scene = await arranged(adapter, method, tmp_path)
                async with open_process(manifest, crash=Crash(point, method)) as there:
                    with pytest.raises(ConnectionError):
                        await call_in(scene, there)
                    await there.ended()
                async with open_adapter(manifest) as adapter:
                    shape = await seen(adapter, scene)

                allowed = {"received": [before], "begun": [before, after], "done": [after]}[point]
                assert shape in allowed, f"{method} killed at {point}"

    @clause("beads.crash.moments")
    async def test_a_crash_at_any_moment_leaves_all_or_nothing(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str, tmp_path: Path
    ) -> None:
        """Killed at any moment, what was acknowledged is there, and of the rest all or nothing."""
        chance = seeded()
        async with open_adapter(manifest) as here:
            looks = await looks_of(here, tmp_path)
            for _ in range(8):
                for method, acknowledged, shape in await killed_at_a_random_moment(
                    here, open_process, manifest, tmp_path, chance, looks
                ):
                    allowed = looks[method][1:] if acknowledged else looks[method]
                    assert shape in allowed, f"{method}, {'' if acknowledged else 'not '}acknowledged"
