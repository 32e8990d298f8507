"""Clauses of beads: what waits for what, and what is ready."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import Conflict, InvalidInput
from agentbox_contracts.suites._beads_common import ready_ids
from agentbox_contracts.suites.clauses import clause

__all__ = ["ReadyClauses", "WaitingClauses"]


async def tasks(adapter: Beads, count: int, **fields: Any) -> tuple[str, list[Bead]]:
    """The id of an epic, and *count* tasks under it."""
    epic = await adapter.create_epic(title="Ship it")
    return epic.id, [await adapter.create_child(parent_id=epic.id, title=f"part {n}", **fields) for n in range(count)]


class WaitingClauses:
    """add_dependency."""

    @clause("beads.deps.recorded")
    async def test_a_dependency_is_recorded(self, adapter: Beads) -> None:
        """A bead shows what it waits for, in the order it was added, and how much of that is not done."""
        _, (bead, first, second) = await tasks(adapter, 3)
        await adapter.add_dependency(bead.id, blocker_id=second.id)
        waiting = await adapter.add_dependency(bead.id, blocker_id=first.id)

        assert (waiting.depends_on, waiting.open_blockers) == ((second.id, first.id), 2)
        assert await adapter.show(bead.id) == waiting

    @clause("beads.deps.again")
    async def test_the_same_dependency_again_changes_nothing(self, adapter: Beads) -> None:
        """A dependency that is there already changes nothing."""
        _, (bead, blocker) = await tasks(adapter, 2)
        waiting = await adapter.add_dependency(bead.id, blocker_id=blocker.id)

        assert await adapter.add_dependency(bead.id, blocker_id=blocker.id) == waiting
        assert await adapter.show(bead.id) == waiting

    @clause("beads.deps.done-unblocks")
    async def test_done_unblocks(self, adapter: Beads) -> None:
        """A bead is unblocked, and ready, when all that it waits for is done."""
        epic_id, (bead, *blockers) = await tasks(adapter, 3)
        for blocker in blockers:
            await adapter.add_dependency(bead.id, blocker_id=blocker.id)
        await adapter.close(blockers[0].id)
        halfway = await ready_ids(adapter, epic_id)
        await adapter.close(blockers[1].id)

        assert halfway == [blockers[1].id]
        assert await ready_ids(adapter, epic_id) == [bead.id]
        assert (await adapter.show(bead.id)).open_blockers == 0

    @clause("beads.deps.only-done-unblocks")
    async def test_only_done_unblocks(self, adapter: Beads) -> None:
        """No outcome but `done` unblocks."""
        outcomes: tuple[Any, ...] = ("failed", "cancelled", "needs_human")
        epic_id, (bead, *blockers) = await tasks(adapter, 4)
        for blocker, outcome in zip(blockers, outcomes, strict=True):
            await adapter.add_dependency(bead.id, blocker_id=blocker.id)
            await adapter.close(blocker.id, outcome=outcome)

        assert (await adapter.show(bead.id)).open_blockers == 3
        assert await ready_ids(adapter, epic_id) == []

    @clause("beads.deps.done-blocker")
    async def test_a_done_blocker_blocks_nothing(self, adapter: Beads) -> None:
        """To wait for what is done already is to wait for nothing."""
        epic_id, (bead, blocker) = await tasks(adapter, 2)
        await adapter.close(blocker.id)
        waiting = await adapter.add_dependency(bead.id, blocker_id=blocker.id)

        assert (waiting.depends_on, waiting.is_blocked) == ((blocker.id,), False)
        assert await ready_ids(adapter, epic_id) == [bead.id]

    @clause("beads.deps.itself-refused")
    async def test_a_bead_cannot_wait_for_itself(self, adapter: Beads) -> None:
        """A bead cannot wait for itself."""
        _, (bead,) = await tasks(adapter, 1)

        with pytest.raises(InvalidInput):
            await adapter.add_dependency(bead.id, blocker_id=bead.id)
        assert await adapter.show(bead.id) == bead

    @clause("beads.deps.circle-refused")
    async def test_nothing_waits_in_a_circle(self, adapter: Beads) -> None:
        """Beads cannot wait for each other in a circle, however long."""
        _, beads = await tasks(adapter, 5)
        for this, following in itertools.pairwise(beads):
            await adapter.add_dependency(following.id, blocker_id=this.id)

        for blocker in (beads[1], beads[4]):
            with pytest.raises(Conflict):
                await adapter.add_dependency(beads[0].id, blocker_id=blocker.id)
        assert await adapter.show(beads[0].id) == beads[0]

    @clause("beads.deps.own-epic-refused")
    async def test_a_child_cannot_wait_for_its_own_epic(self, adapter: Beads) -> None:
        """An epic waits for its children, so a child can wait neither for it nor for what waits for it."""
        epic_id, (child,) = await tasks(adapter, 1)
        other = await adapter.create_epic(title="after")
        await adapter.add_dependency(other.id, blocker_id=epic_id)

        for blocker_id in (epic_id, other.id):
            with pytest.raises(Conflict):
                await adapter.add_dependency(child.id, blocker_id=blocker_id)
        assert await adapter.show(child.id) == child

    @clause("beads.deps.closed-refused")
    async def test_a_closed_bead_waits_for_nothing(self, adapter: Beads) -> None:
        """A closed bead takes no dependency."""
        _, (bead, blocker) = await tasks(adapter, 2)
        closed = await adapter.close(bead.id)

        with pytest.raises(Conflict):
            await adapter.add_dependency(bead.id, blocker_id=blocker.id)
        assert await adapter.show(bead.id) == closed


class ReadyClauses:
    """get_ready."""

    @clause("beads.ready.order")
    async def test_ready_work_comes_by_priority_then_age(self, adapter: Beads) -> None:
        """Ready work comes by priority, then by age."""
        epic = await adapter.create_epic(title="Ship it")
        made = [
            await adapter.create_child(parent_id=epic.id, title=f"part {n}", priority=priority)
            for n, priority in enumerate((2, 1, 0, 1, 0))
        ]

        assert await ready_ids(adapter, epic.id) == [made[n].id for n in (2, 4, 1, 3, 0)]

    @clause("beads.ready.limit")
    async def test_no_more_is_given_than_asked_for(self, adapter: Beads) -> None:
        """No more is given than was asked for, and it is the first."""
        epic_id, made = await tasks(adapter, 5)

        assert [bead.id for bead in await adapter.get_ready(parent_id=epic_id, limit=2)] == [made[0].id, made[1].id]

    @clause("beads.ready.whole")
    async def test_ready_beads_are_whole(self, adapter: Beads) -> None:
        """What is ready is given whole, as `show` shows it."""
        epic_id, made = await tasks(adapter, 2, description="all of it", tags=("b", "a"), metadata={"n": [1]})

        assert await adapter.get_ready(parent_id=epic_id) == [await adapter.show(bead.id) for bead in made]

    @clause("beads.ready.parent")
    async def test_ready_work_of_one_parent(self, adapter: Beads) -> None:
        """Asked for one parent, only its direct children are given."""
        epic_id, (child, parent) = await tasks(adapter, 2)
        grandchild = await adapter.create_child(parent_id=parent.id, title="piece")
        await tasks(adapter, 1)

        assert [await ready_ids(adapter, bead_id) for bead_id in (epic_id, parent.id)] == [[child.id], [grandchild.id]]

    @clause("beads.ready.whole-store")
    async def test_without_a_parent_the_whole_store_is_asked(self, adapter: Beads) -> None:
        """Without a parent the ready beads of the whole store are given, epics and children, the most urgent first."""
        epic = await adapter.create_epic(title="without children", priority=0)
        parent = await adapter.create_epic(title="with a child", priority=0)
        child = await adapter.create_child(parent_id=parent.id, title="part", priority=0)
        ready = [bead.id for bead in await adapter.get_ready(limit=1000)]

        assert [bead_id for bead_id in ready if bead_id in (epic.id, parent.id, child.id)] == [epic.id, child.id]

    @clause("beads.ready.held-is-not")
    async def test_what_is_held_or_closed_is_not_ready(self, adapter: Beads) -> None:
        """What is held or closed is not ready."""
        epic_id, (held, closed, ready) = await tasks(adapter, 3)
        await adapter.claim(held.id, actor="ada")
        await adapter.close(closed.id)

        assert await ready_ids(adapter, epic_id) == [ready.id]

    @clause("beads.ready.blocked-is-not")
    async def test_what_is_blocked_is_not_ready(self, adapter: Beads) -> None:
        """What waits for another bead is not ready."""
        epic_id, (bead, blocker) = await tasks(adapter, 2)
        await adapter.add_dependency(bead.id, blocker_id=blocker.id)

        assert await ready_ids(adapter, epic_id) == [blocker.id]

    @clause("beads.ready.epic")
    async def test_an_epic_is_ready_when_its_children_are_closed(self, adapter: Beads) -> None:
        """A bead with children is ready when they are closed, whatever their outcome, and not before."""
        epic_id, (parent,) = await tasks(adapter, 1)
        children = [await adapter.create_child(parent_id=parent.id, title="piece") for _ in range(2)]
        seen = [await ready_ids(adapter, epic_id)]
        for child in children:
            await adapter.close(child.id, outcome="cancelled")
            seen.append(await ready_ids(adapter, epic_id))

        assert seen == [[], [], [parent.id]]
