"""Clauses of beads: how work ends."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AlreadyClaimed, Conflict
from agentbox_contracts.suites._beads_common import epic_of, own_task
from agentbox_contracts.suites.clauses import clause

__all__ = ["ClosingClauses"]


class ClosingClauses:
    """close."""

    @clause("beads.close.recorded")
    async def test_closing_records_outcome_reason_and_who(self, adapter: Beads) -> None:
        """Closing records the outcome, the reason, and who and when."""
        task = await own_task(adapter)
        await adapter.claim(task.id, actor="ada")
        closed = await adapter.close(task.id, outcome="failed", reason="no time", actor="ada")

        assert (closed.status, closed.outcome, closed.reason) == ("closed", "failed", "no time")
        assert (closed.closed_by, closed.closed_at is not None) == ("ada", True)
        assert await adapter.show(task.id) == closed

    @clause("beads.close.outcomes")
    async def test_every_outcome_is_kept(self, adapter: Beads) -> None:
        """Each outcome is kept as it was given."""
        outcomes: tuple[Any, ...] = ("done", "failed", "cancelled", "needs_human")
        tasks = [await own_task(adapter) for _ in outcomes]
        for task, outcome in zip(tasks, outcomes, strict=True):
            await adapter.close(task.id, outcome=outcome)

        assert tuple([(await adapter.show(task.id)).outcome for task in tasks]) == outcomes

    @clause("beads.close.keeps-holder")
    async def test_a_closed_bead_keeps_its_holder(self, adapter: Beads) -> None:
        """A closed bead keeps its holder and its fence; the holder closed it unless another is named."""
        task = await own_task(adapter)
        await adapter.claim(task.id, actor="ada")
        closed = await adapter.close(task.id)

        assert (closed.holder, closed.fence, closed.closed_by) == ("ada", 1, "ada")

    @clause("beads.close.unclaimed")
    async def test_an_open_bead_can_be_closed_by_anyone(self, adapter: Beads) -> None:
        """An open bead can be closed by anyone."""
        task = await own_task(adapter)
        try:
            closed = await adapter.close(task.id, actor="grace")
        except Conflict as error:
            pytest.fail(f"it was refused: {error.message}")

        assert (closed.closed_by, closed.holder) == ("grace", None)

    @clause("beads.close.others-refused")
    async def test_only_the_holder_closes_a_claimed_bead(self, adapter: Beads) -> None:
        """An actor that does not hold a claimed bead cannot close it."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")

        with pytest.raises(AlreadyClaimed) as caught:
            await adapter.close(task.id, actor="grace")
        assert caught.value.actor == "ada"
        assert await adapter.show(task.id) == held

    @clause("beads.close.again")
    async def test_closing_again_changes_nothing(self, adapter: Beads) -> None:
        """Closing a closed bead again with the same outcome changes nothing."""
        task = await own_task(adapter)
        closed = await adapter.close(task.id, reason="at last")

        assert await adapter.close(task.id, reason="again", actor="grace") == closed
        assert await adapter.show(task.id) == closed

    @clause("beads.close.other-outcome")
    async def test_another_outcome_is_refused(self, adapter: Beads) -> None:
        """Closing a closed bead with another outcome is a Conflict."""
        task = await own_task(adapter)
        closed = await adapter.close(task.id)

        with pytest.raises(Conflict):
            await adapter.close(task.id, outcome="failed")
        assert await adapter.show(task.id) == closed

    @clause("beads.close.open-children")
    async def test_open_children_keep_an_epic_open(self, adapter: Beads) -> None:
        """A bead with open children cannot be closed."""
        task = await own_task(adapter)
        epic = await adapter.show(epic_of(task))

        with pytest.raises(Conflict):
            await adapter.close(epic.id)
        assert await adapter.show(epic.id) == epic

    @clause("beads.close.closed-children")
    async def test_closed_children_let_an_epic_be_closed(self, adapter: Beads) -> None:
        """A bead can be closed when all its children are, whatever their outcome."""
        task = await own_task(adapter)
        await adapter.close(task.id, outcome="cancelled")
        try:
            closed = await adapter.close(epic_of(task))
        except Conflict as error:
            pytest.fail(f"it was refused: {error.message}")

        assert closed.outcome == "done"
