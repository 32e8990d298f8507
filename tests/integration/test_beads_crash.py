"""A writer is killed at random moments; what it acknowledged is there. Run as a program, this file is the writer."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from agentbox import manifest, resolver
from agentbox_contracts.beads import Beads

WRITERS = 24
STAGES = ("created", "claimed", "closed")


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[Beads]:
    """The beads slot alone, of the state folder *state*."""
    chosen = manifest.parse("", overrides={"state": {"path": str(state)}}, environ={})
    slot = resolver.build(chosen, "beads")
    await resolver.connect(slot)
    assert not slot.failure, slot.failure
    try:
        yield cast("Beads", slot.adapter)
    finally:
        await slot.adapter.disconnect()


def acknowledge(stage: str, bead_id: str) -> None:
    """Tell the parent, in one write that the kernel keeps whole and that nothing buffers."""
    os.write(1, f"{stage} {bead_id}\n".encode())


async def write_for_ever(beads: Beads, epic: str, actor: str) -> None:
    while True:
        bead = await beads.create_child(parent_id=epic, title=f"by {actor}")
        acknowledge("created", bead.id)
        claimed = await beads.claim(bead.id, actor=actor, lease_seconds=3600)
        acknowledge("claimed", bead.id)
        await beads.close(bead.id, actor=actor, fence=claimed.fence)
        acknowledge("closed", bead.id)


async def run(state: Path) -> None:
    async with opened(state) as beads, asyncio.TaskGroup() as tasks:
        epic = await beads.create_epic(title="until killed")
        acknowledge("created", epic.id)
        for number in range(WRITERS):
            tasks.create_task(write_for_ever(beads, epic.id, f"{os.getpid()}-{number}"))


def killed(state: Path, chance: random.Random) -> list[tuple[str, str]]:
    """What a writer acknowledged before it was killed: mostly while it writes, at times while it opens the store."""
    with subprocess.Popen((sys.executable, __file__, str(state)), stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        opening = chance.random() < 0.2
        said = b"" if opening else writer.stdout.readline()
        assert opening or said, "the writer ended by itself"
        time.sleep(chance.uniform(0.1, 0.6) if opening else chance.uniform(0, 0.15))
        writer.kill()
        said += writer.stdout.read()
    assert writer.returncode == -9
    whole, _, _ = said.decode().rpartition("\n")
    return [(stage, bead_id) for stage, _, bead_id in (line.partition(" ") for line in whole.splitlines())]


def check(state: Path, acknowledged: dict[str, str]) -> None:
    """Every acknowledged write is there, the file is sound, and the counters agree with the rows."""
    db = sqlite3.connect(state / "beads.db")
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    stored = dict(db.execute("SELECT id, iif(status = 'open', 'created', status) FROM bead"))
    lost = {
        bead_id: (stage, stored.get(bead_id))
        for bead_id, stage in acknowledged.items()
        if bead_id not in stored or STAGES.index(stored[bead_id]) < STAGES.index(stage)
    }
    assert lost == {}
    miscounted = db.execute(
        "SELECT id FROM bead AS epic WHERE parent IS NULL AND open_children <>"
        " (SELECT count(*) FROM bead WHERE parent = epic.id AND status <> 'closed')"
    ).fetchall()
    assert miscounted == []
    db.close()


async def crash(state: Path, rounds: int) -> None:
    seed = int(os.environ.get("AGENTBOX_SEED") or random.randrange(1 << 32))
    print(f"AGENTBOX_SEED={seed}")
    chance = random.Random(seed)
    acknowledged: dict[str, str] = {}
    for _ in range(rounds):
        for stage, bead_id in await asyncio.to_thread(killed, state, chance):
            acknowledged[bead_id] = stage
        if acknowledged:
            async with opened(state) as beads:
                last = next(reversed(acknowledged))
                assert (await beads.show(last)).id == last
            check(state, acknowledged)
    print(f"{rounds} kills, {len(acknowledged)} beads with acknowledged writes")
    assert len(acknowledged) > rounds


@pytest.mark.timeout(180)
async def test_acknowledged_writes_survive_kill(tmp_path: Path) -> None:
    await crash(tmp_path, 15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_acknowledged_writes_survive_kill_soak(tmp_path: Path) -> None:
    await crash(tmp_path, 300)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
