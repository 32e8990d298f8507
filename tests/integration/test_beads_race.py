"""Eight processes race for the same beads in one SQLite file. Run as a program, this file is one of the eight."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from agentbox import manifest, resolver
from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AlreadyClaimed

PROCESSES = 8
BEADS = 20_000
IN_FLIGHT = 256
TURNS = 50

Win = tuple[str, int]


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


async def create(beads: Beads, count: int) -> list[str]:
    """Children of one epic, made in large groups that share their transactions."""
    epic = await beads.create_epic(title="the race")
    ids: list[str] = []
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        made = await asyncio.gather(*(beads.create_child(parent_id=epic.id, title=f"bead {n}") for n in numbers))
        ids += [bead.id for bead in made]
    return ids


async def claim_each(beads: Beads, ids: Iterable[str], actor: str) -> list[Win]:
    """Try every bead once, in the same order as everybody else, and tell which were won."""
    wins: list[Win] = []
    left = iter(ids)

    async def claimer() -> None:
        for bead_id in left:
            try:
                bead = await beads.claim(bead_id, actor=actor)
            except AlreadyClaimed:
                continue
            assert bead.holder == actor
            wins.append((bead.id, bead.fence))

    await asyncio.gather(*(claimer() for _ in range(IN_FLIGHT)))
    return wins


async def take_turns(beads: Beads, ids: list[str], actor: str) -> list[Win]:
    """Claim and give back the same few beads again and again."""
    wins: list[Win] = []

    async def turns(bead_id: str) -> None:
        for _ in range(TURNS):
            try:
                bead = await beads.claim(bead_id, actor=actor)
            except AlreadyClaimed:
                continue
            wins.append((bead.id, bead.fence))
            await beads.release(bead_id, actor=actor, fence=bead.fence)

    await asyncio.gather(*(turns(bead_id) for bead_id in ids))
    return wins


async def run(state: Path, what: str, actor: str) -> None:
    async with opened(state) as beads:
        ids = json.loads((state / "ids.json").read_text())
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        wins = await (claim_each if what == "claim" else take_turns)(beads, ids, actor)
    print(json.dumps(wins), flush=True)


def race(state: Path, what: str) -> dict[str, list[Win]]:
    """Let all processes start at once; what each has won, by actor."""
    actors = [f"process-{number}" for number in range(PROCESSES)]
    with ExitStack() as stack:
        running: dict[str, subprocess.Popen[str]] = {}
        for actor in actors:
            command = (sys.executable, __file__, str(state), what, actor)
            process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            running[actor] = process
        for process in running.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        wins = {actor: json.loads(process.communicate()[0]) for actor, process in running.items()}
        assert {process.returncode for process in running.values()} == {0}
    return {actor: [(bead_id, fence) for bead_id, fence in found] for actor, found in wins.items()}


async def prepare(state: Path, count: int) -> list[str]:
    async with opened(state) as beads:
        ids = await create(beads, count)
    (state / "ids.json").write_text(json.dumps(ids))
    return ids


@pytest.mark.timeout(300)
async def test_each_bead_has_one_winner(tmp_path: Path) -> None:
    ids = await prepare(tmp_path, BEADS)
    wins = await asyncio.to_thread(race, tmp_path, "claim")
    winner_of = {bead_id: actor for actor, found in wins.items() for bead_id, _ in found}
    assert sum(map(len, wins.values())) == BEADS
    assert winner_of.keys() == set(ids)
    assert {fence for found in wins.values() for _, fence in found} == {1}
    db = sqlite3.connect(tmp_path / "beads.db")
    stored = db.execute("SELECT id, holder, fence, status, ready FROM bead WHERE parent IS NOT NULL").fetchall()
    db.close()
    assert {row[0]: row[1] for row in stored} == winner_of
    assert {row[2:] for row in stored} == {(1, "claimed", 0)}


@pytest.mark.timeout(120)
async def test_fences_only_grow(tmp_path: Path) -> None:
    ids = await prepare(tmp_path, 20)
    wins = await asyncio.to_thread(race, tmp_path, "turns")
    for found in wins.values():
        for bead_id in ids:
            own = [fence for won, fence in found if won == bead_id]
            assert own == sorted(set(own))
    fences = Counter(win for found in wins.values() for win in found)
    assert set(fences.values()) == {1}
    async with opened(tmp_path) as beads:
        for bead_id in ids:
            seen = sorted(fence for won, fence in fences if won == bead_id)
            assert seen == list(range(1, (await beads.show(bead_id)).fence + 1))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
