"""Clauses of beads: several processes at the same store, and one that stands still."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import attrs
import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import AlreadyClaimed, Conflict, StaleClaim
from agentbox_contracts.suites._beads_common import LEASE, PATIENCE, asked, own_task, ready_ids, run_out, seeded
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess, Process

__all__ = ["ProcessClauses", "Struggle", "overtaken"]

PROCESSES = 3
STALE_WRITES = ("renew", "release", "close")


@attrs.frozen
class Struggle:
    """What came of a write by a process that stood still while its lease ran out."""

    write: str
    answer: Bead | BaseException
    """What the stopped process was told in the end."""
    successor: Bead | None
    """What the successor wrote, None when it could not claim."""
    shown: Bead
    """What the store shows."""

    @property
    def is_sound(self) -> bool:
        """Never both, never a lost write of the successor."""
        if self.successor is None:
            return self.write == "close" and self.answer == self.shown
        closed_too = self.write == "close" and isinstance(self.answer, Bead)
        refused = isinstance(self.answer, (Bead, StaleClaim))
        return self.shown == self.successor and refused and not closed_too


async def overtaken(here: Beads, there: Process, chance: random.Random) -> Struggle:
    """Stop *there* at a random moment of a write, let *here* succeed it, and wake it up again."""
    task = await own_task(here)
    held = await there.claim(task.id, actor="ada", lease_seconds=LEASE)
    write = chance.choice(STALE_WRITES)
    moment = chance.choice((0.0, 0.0005, 0.004, 0.02)) * chance.random()
    if moment == 0.0:
        there.stop()
    answer = asyncio.ensure_future(_stale_write(there, write, held))
    await asyncio.sleep(moment)
    there.stop()
    takeover = asyncio.ensure_future(_taken_over(here, held))
    # One that was stopped in the middle of a transaction may have the store locked: then nobody can be overtaken.
    await asyncio.wait((takeover,), timeout=1)
    there.resume()
    (told,) = await asyncio.gather(answer, return_exceptions=True)
    return Struggle(write, told, await takeover, await here.show(task.id))


async def _stale_write(side: Process, write: str, held: Bead) -> Bead:
    lease = {"lease_seconds": LEASE} if write == "renew" else {}
    written: Bead = await asked(side, write)(held.id, fence=held.fence, **lease)
    return written


async def _taken_over(here: Beads, held: Bead) -> Bead | None:
    """Claim as soon as the lease is over, and write. None when the bead was closed before."""
    for _ in range(round(PATIENCE / LEASE * 5)):
        try:
            claimed = await here.claim(held.id, actor="grace", lease_seconds=60)
            return await here.renew(held.id, lease_seconds=600, fence=claimed.fence)
        except AlreadyClaimed:
            await asyncio.sleep(LEASE / 5)
        except Conflict:
            break
    return None


async def wins_of(side: Process, ids: list[str], actor: str) -> list[Bead]:
    """Try to claim each of *ids*, all at once; those that were won."""
    results = await asyncio.gather(*(side.claim(bead_id, actor=actor) for bead_id in ids), return_exceptions=True)
    return [result for result in results if isinstance(result, Bead)]


class ProcessClauses:
    """What holds in one process holds across processes."""

    @clause("beads.process.seen")
    async def test_what_another_process_wrote_is_seen(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """What one process was told is written, every other sees at once."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            task = await own_task(here)
            await ready_ids(here, task.parent_id)
            held = await there.claim(task.id, actor="ada")
            shown = [await here.show(task.id)]
            closed = await asked(there, "close")(task.id)
            shown.append(await here.show(task.id))
            child = await there.create_child(parent_id=task.parent_id, title="new")

            assert shown == [held, closed]
            assert await ready_ids(here, task.parent_id) == [child.id]

    @clause("beads.process.one-winner")
    async def test_of_several_processes_one_wins_each_claim(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Of several processes that claim the same beads one wins each."""
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(open_adapter(manifest))
            sides = [await stack.enter_async_context(open_process(manifest)) for _ in range(PROCESSES)]
            epic = await here.create_epic(title="Ship it")
            ids = [(await here.create_child(parent_id=epic.id, title=f"part {n}")).id for n in range(30)]
            found = await asyncio.gather(*(wins_of(side, ids, f"process {n}") for n, side in enumerate(sides)))
            wins = [bead for won in found for bead in won]

            assert sorted((bead.id, bead.fence) for bead in wins) == sorted((bead_id, 1) for bead_id in ids)
            shown = {bead.id: bead.holder for bead in (await here.children(epic.id)).items}
            assert shown == {bead.id: bead.holder for bead in wins}

    @clause("beads.process.claim-ready-once")
    async def test_several_processes_take_each_bead_once(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Of several processes that ask for ready work each gets other beads, until none is left."""
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(open_adapter(manifest))
            sides = [await stack.enter_async_context(open_process(manifest)) for _ in range(PROCESSES)]
            epic = await here.create_epic(title="Ship it")
            ids = [(await here.create_child(parent_id=epic.id, title=f"part {n}")).id for n in range(30)]
            asks = [
                side.claim_ready(actor=f"{n}", parent_id=epic.id) for n, side in enumerate(sides) for _ in range(12)
            ]
            taken = [bead.id for bead in await asyncio.gather(*asks) if bead is not None]

            assert sorted(taken) == sorted(ids)

    @clause("beads.process.numbers-apart")
    async def test_children_of_several_processes_are_numbered_apart(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Children that several processes add at the same time are all there, each with a number of its own."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            epic = await here.create_epic(title="Ship it")
            sides = (here, there) * 10
            made = await asyncio.gather(*(side.create_child(parent_id=epic.id, title="part") for side in sides))

            assert sorted(int(bead.id.rpartition(".")[2]) for bead in made) == list(range(1, 21))
            assert (await here.show(epic.id)).open_children == 20

    @clause("beads.process.dependencies-together")
    async def test_dependencies_added_together_are_all_there(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Dependencies that several processes add to one bead at the same time are all there."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            task = await own_task(here)
            blockers = [await here.create_child(parent_id=task.parent_id, title="first") for _ in range(10)]
            sides = (here, there) * 5
            adds = (
                side.add_dependency(task.id, blocker_id=blocker.id)
                for side, blocker in zip(sides, blockers, strict=True)
            )
            await asyncio.gather(*adds)
            shown = await here.show(task.id)

            assert (sorted(shown.depends_on), shown.open_blockers) == (sorted(bead.id for bead in blockers), 10)

    @clause("beads.stopped.refused", needs=("leases",))
    async def test_a_stopped_process_cannot_overwrite_its_successor(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """A process that stood still while its lease ran out and another took over can write nothing when it wakes."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            task = await own_task(here)
            held = await there.claim(task.id, actor="ada", lease_seconds=LEASE)
            there.stop()
            await run_out(here, held)
            claimed = await here.claim(task.id, actor="grace", lease_seconds=60)
            written = await here.renew(task.id, lease_seconds=600, fence=claimed.fence)
            there.resume()
            for write in STALE_WRITES:
                with pytest.raises(StaleClaim):
                    await _stale_write(there, write, held)

            assert await here.show(task.id) == written

    @clause("beads.stopped.on-its-way", needs=("leases",))
    async def test_a_write_on_its_way_does_not_overwrite_the_successor(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """A write that was on its way when its process was stopped wins or loses, but never both are told they won."""
        chance = seeded()
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            for _ in range(10):
                struggle = await overtaken(here, there, chance)

                assert struggle.is_sound, struggle
