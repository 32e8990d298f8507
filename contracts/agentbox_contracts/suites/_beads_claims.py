"""Clauses of beads: who holds a bead, and who does not."""

from __future__ import annotations

import asyncio

import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import AlreadyClaimed, Conflict, StaleClaim
from agentbox_contracts.suites._beads_common import epic_of, own_task, ready_ids
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["ClaimClauses"]


class ClaimClauses:
    """claim, claim_ready and release, without leases."""

    @clause("beads.claim.held")
    async def test_a_claimed_bead_is_held(self, adapter: Beads) -> None:
        """A claim gives the bead to the actor, and is shown."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")

        assert (held.status, held.holder, held.claimed_at is not None) == ("claimed", "ada", True)
        assert await adapter.show(task.id) == held

    @clause("beads.claim.others-refused")
    async def test_claimed_by_another_is_refused(self, adapter: Beads) -> None:
        """Claiming what another actor holds is AlreadyClaimed, which says who, and changes nothing."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")

        with pytest.raises(AlreadyClaimed) as caught:
            await adapter.claim(task.id, actor="grace")
        assert caught.value.actor == "ada"
        assert await adapter.show(task.id) == held

    @clause("beads.claim.again")
    async def test_claiming_again_changes_nothing(self, adapter: Beads) -> None:
        """Claiming a bead one already holds changes nothing."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")

        assert await adapter.claim(task.id, actor="ada") == held
        assert await adapter.show(task.id) == held

    @clause("beads.claim.one-winner")
    async def test_of_simultaneous_claims_exactly_one_wins(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """Of any number of simultaneous claims exactly one wins, and the others hear who."""
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            for _ in range(10):
                task = await own_task(one)
                claims = [(one, other)[n % 2].claim(task.id, actor=f"actor {n}") for n in range(8)]
                results = await asyncio.gather(*claims, return_exceptions=True)

                winners = [result for result in results if isinstance(result, Bead)]
                assert [bead.fence for bead in winners] == [1]
                losers = [result.actor for result in results if isinstance(result, AlreadyClaimed)]
                assert losers == [winners[0].holder] * 7
                assert (await other.show(task.id)).holder == winners[0].holder

    @clause("beads.claim.fence-rises")
    async def test_the_fence_rises_with_each_new_holder(self, adapter: Beads) -> None:
        """The fence rises each time the holder changes."""
        task = await own_task(adapter)
        fences = []
        for actor in ("ada", "grace", "ada"):
            fences.append((await adapter.claim(task.id, actor=actor)).fence)
            await adapter.release(task.id, actor=actor)

        assert fences == [1, 2, 3]

    @clause("beads.claim.fence-checked")
    async def test_a_fence_that_is_given_is_checked(self, adapter: Beads) -> None:
        """Without a lease the fence need not be given; one that is given must be the current one."""
        task = await own_task(adapter)
        await adapter.claim(task.id, actor="ada")
        await adapter.release(task.id)
        held = await adapter.claim(task.id, actor="ada")
        for call in (adapter.release, adapter.close):
            with pytest.raises(StaleClaim):
                await call(task.id, fence=1)

        assert await adapter.show(task.id) == held

    @clause("beads.claim.closed-refused")
    async def test_a_closed_bead_cannot_be_claimed(self, adapter: Beads) -> None:
        """A closed bead cannot be claimed."""
        task = await own_task(adapter)
        closed = await adapter.close(task.id)

        with pytest.raises(Conflict):
            await adapter.claim(task.id, actor="ada")
        assert await adapter.show(task.id) == closed

    @clause("beads.claim.blocked-refused")
    async def test_a_blocked_bead_cannot_be_claimed(self, adapter: Beads) -> None:
        """A bead that waits for another cannot be claimed."""
        task = await own_task(adapter)
        blocker = await adapter.create_epic(title="first")
        blocked = await adapter.add_dependency(task.id, blocker_id=blocker.id)

        with pytest.raises(Conflict):
            await adapter.claim(task.id, actor="ada")
        assert await adapter.show(task.id) == blocked

    @clause("beads.release.opens")
    async def test_releasing_opens_it_again(self, adapter: Beads) -> None:
        """A released bead is open, nobody's, ready, and keeps its fence."""
        task = await own_task(adapter)
        await adapter.claim(task.id, actor="ada")
        released = await adapter.release(task.id, actor="ada")

        assert (released.status, released.holder, released.claimed_at, released.fence) == ("open", None, None, 1)
        assert await adapter.show(task.id) == released
        assert await ready_ids(adapter, task.parent_id) == [task.id]

    @clause("beads.release.again")
    async def test_releasing_an_open_bead_changes_nothing(self, adapter: Beads) -> None:
        """Releasing an open bead changes nothing."""
        task = await own_task(adapter)

        assert await adapter.release(task.id) == task
        assert await adapter.show(task.id) == task

    @clause("beads.release.others-refused")
    async def test_only_the_holder_releases(self, adapter: Beads) -> None:
        """An actor that does not hold the bead cannot release it."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")

        with pytest.raises(AlreadyClaimed) as caught:
            await adapter.release(task.id, actor="grace")
        assert caught.value.actor == "ada"
        assert await adapter.show(task.id) == held

    @clause("beads.release.closed-refused")
    async def test_a_closed_bead_cannot_be_released(self, adapter: Beads) -> None:
        """A closed bead cannot be released."""
        task = await own_task(adapter)
        closed = await adapter.close(task.id)

        with pytest.raises(Conflict):
            await adapter.release(task.id)
        assert await adapter.show(task.id) == closed

    @clause("beads.claim-ready.first")
    async def test_claim_ready_takes_the_first(self, adapter: Beads) -> None:
        """`claim_ready` claims the first bead that `get_ready` shows."""
        task = await own_task(adapter)
        urgent = await adapter.create_child(parent_id=epic_of(task), title="urgent", priority=0)
        taken = await adapter.claim_ready(actor="ada", parent_id=epic_of(task))

        assert taken == await adapter.show(urgent.id)
        assert (taken.status, taken.holder, taken.fence) == ("claimed", "ada", 1)

    @clause("beads.claim-ready.none")
    async def test_claim_ready_gives_none_when_nothing_is_ready(self, adapter: Beads) -> None:
        """`claim_ready` gives None when nothing is ready, however many beads are held, blocked or closed."""
        first = await own_task(adapter)
        second, third = [await adapter.create_child(parent_id=epic_of(first), title="part") for _ in range(2)]
        await adapter.claim(first.id, actor="ada")
        await adapter.add_dependency(second.id, blocker_id=first.id)
        await adapter.close(third.id)

        assert await adapter.claim_ready(actor="ada", parent_id=epic_of(first)) is None

    @clause("beads.claim-ready.once")
    async def test_claim_ready_takes_each_bead_once(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """Of any number of simultaneous `claim_ready` each gets a bead of its own, until none is left."""
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            epic = await one.create_epic(title="Ship it")
            made = [(await one.create_child(parent_id=epic.id, title=f"part {n}")).id for n in range(20)]
            claims = [(one, other)[n % 2].claim_ready(actor=f"actor {n}", parent_id=epic.id) for n in range(24)]
            taken = [bead.id for bead in await asyncio.gather(*claims) if bead is not None]

        assert sorted(taken) == sorted(made)
