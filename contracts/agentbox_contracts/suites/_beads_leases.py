"""Clauses of beads: a lease ends, and whoever held it then can write nothing."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AlreadyClaimed, Conflict, StaleClaim
from agentbox_contracts.suites._beads_common import epic_of, expired, own_task, ready_ids
from agentbox_contracts.suites.clauses import clause

__all__ = ["LeaseClauses"]


class LeaseClauses:
    """claim with a lease, renew, and what needs the fence."""

    @clause("beads.lease.held", needs=("leases",))
    async def test_a_lease_holds_until_it_ends(self, adapter: Beads) -> None:
        """Until a lease ends nobody else can claim the bead, and its end is shown."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada", lease_seconds=60)

        length = held.claimed_at and held.lease_expires_at and held.lease_expires_at - held.claimed_at
        assert length == timedelta(seconds=60)
        with pytest.raises(AlreadyClaimed):
            await adapter.claim(task.id, actor="grace", lease_seconds=60)

    @clause("beads.lease.again", needs=("leases",))
    async def test_claiming_again_does_not_touch_the_lease(self, adapter: Beads) -> None:
        """Claiming again what one holds changes nothing, not even the lease."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada", lease_seconds=60)

        assert await adapter.claim(task.id, actor="ada", lease_seconds=600) == held
        assert await adapter.show(task.id) == held

    @clause("beads.lease.expires", needs=("leases",))
    async def test_an_expired_lease_is_anyones(self, adapter: Beads) -> None:
        """When a lease has run out, anyone can claim the bead."""
        task = await own_task(adapter)
        await expired(adapter, task)
        try:
            claimed = await adapter.claim(task.id, actor="grace", lease_seconds=60)
        except AlreadyClaimed:
            pytest.fail("the lease did not run out")

        assert (claimed.holder, claimed.fence) == ("grace", 2)

    @clause("beads.lease.ready-again", needs=("leases",))
    async def test_an_expired_lease_is_ready_again_in_its_old_place(self, adapter: Beads) -> None:
        """A bead whose lease has run out is ready again, in its old place."""
        urgent = await own_task(adapter, priority=0)
        later = await adapter.create_child(parent_id=epic_of(urgent), title="later")
        await expired(adapter, urgent)

        assert await ready_ids(adapter, urgent.parent_id) == [urgent.id, later.id]

    @clause("beads.lease.claim-ready", needs=("leases",))
    async def test_claim_ready_takes_what_has_expired(self, adapter: Beads) -> None:
        """`claim_ready` takes a bead whose lease has run out, under the lease that is asked for."""
        task = await own_task(adapter)
        await expired(adapter, task)
        taken = await adapter.claim_ready(actor="grace", parent_id=epic_of(task), lease_seconds=60)

        assert taken is not None
        assert (taken.id, taken.holder, taken.fence, taken.lease_expires_at is None) == (task.id, "grace", 2, False)

    @clause("beads.lease.fence-rises", needs=("leases",))
    async def test_after_an_expired_lease_the_fence_rises_for_the_same_actor_too(self, adapter: Beads) -> None:
        """After an expired lease the fence rises for the same actor too."""
        task = await own_task(adapter)
        await expired(adapter, task)

        assert (await adapter.claim(task.id, actor="ada", lease_seconds=60)).fence == 2

    @clause("beads.lease.fence-needed", needs=("leases",))
    async def test_under_a_lease_the_fence_is_needed(self, adapter: Beads) -> None:
        """Under a lease nothing can be renewed, released or closed without the fence."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada", lease_seconds=60)
        for call in (
            partial(adapter.renew, lease_seconds=600),
            partial(adapter.release, actor="ada"),
            partial(adapter.close, actor="ada"),
        ):
            with pytest.raises(StaleClaim):
                await call(task.id)

        assert await adapter.show(task.id) == held

    @clause("beads.lease.stale-refused", needs=("leases",))
    async def test_a_stale_holder_can_write_nothing(self, adapter: Beads) -> None:
        """Whoever lost a bead to a successor can neither renew, release nor close it."""
        task = await own_task(adapter)
        stale = await expired(adapter, task)
        held = await adapter.claim(task.id, actor="grace", lease_seconds=60)
        for call in (partial(adapter.renew, lease_seconds=600), adapter.release, adapter.close):
            with pytest.raises(StaleClaim):
                await call(task.id, fence=stale.fence)

        assert await adapter.show(task.id) == held

    @clause("beads.lease.stale-close", needs=("leases",))
    async def test_a_stale_holder_cannot_close_what_its_successor_closed(self, adapter: Beads) -> None:
        """Whoever lost a bead to a successor that closed it is told so, and not that the close was theirs."""
        task = await own_task(adapter)
        stale = await expired(adapter, task)
        held = await adapter.claim(task.id, actor="grace", lease_seconds=60)
        await adapter.close(task.id, fence=held.fence)

        with pytest.raises(StaleClaim):
            await adapter.close(task.id, fence=stale.fence)

    @clause("beads.renew.extends", needs=("leases",))
    async def test_renewing_extends_the_lease(self, adapter: Beads) -> None:
        """A renewed lease ends later, and holds until then."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada", lease_seconds=60)
        renewed = await adapter.renew(task.id, lease_seconds=3600, fence=held.fence)

        longer = held.lease_expires_at and renewed.lease_expires_at and renewed.lease_expires_at - held.lease_expires_at
        assert (longer or timedelta(0)) > timedelta(0)
        assert (renewed.holder, renewed.fence, renewed.claimed_at) == ("ada", held.fence, held.claimed_at)
        assert await adapter.show(task.id) == renewed

    @clause("beads.renew.revives", needs=("leases",))
    async def test_what_ran_out_can_be_renewed_until_somebody_claims(self, adapter: Beads) -> None:
        """A lease that ran out can be renewed as long as nobody else has claimed the bead."""
        task = await own_task(adapter)
        held = await expired(adapter, task)
        try:
            await adapter.renew(task.id, lease_seconds=3600, fence=held.fence)
        except Conflict as error:
            pytest.fail(f"it could not be renewed: {error.message}")

        assert await ready_ids(adapter, task.parent_id) == []
        with pytest.raises(AlreadyClaimed):
            await adapter.claim(task.id, actor="grace")

    @clause("beads.renew.gives-lease", needs=("leases",))
    async def test_a_claim_without_a_lease_gets_one(self, adapter: Beads) -> None:
        """Renewing a claim without a lease gives it one, and with it the need for the fence."""
        task = await own_task(adapter)
        await adapter.claim(task.id, actor="ada")
        renewed = await adapter.renew(task.id, lease_seconds=60)

        assert renewed.lease_expires_at is not None
        with pytest.raises(StaleClaim):
            await adapter.release(task.id, actor="ada")

    @clause("beads.renew.claimed-only", needs=("leases",))
    async def test_only_a_claim_can_be_renewed(self, adapter: Beads) -> None:
        """What is not claimed cannot be renewed."""
        task = await own_task(adapter)

        with pytest.raises(Conflict):
            await adapter.renew(task.id, lease_seconds=60)
        assert await adapter.show(task.id) == task
