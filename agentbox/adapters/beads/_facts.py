"""What is to be told of a bead that has just changed."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from agentbox.adapters.beads._plan import Plan
from agentbox_contracts.beads import Bead
from agentbox_contracts.context import execution_id, fitting, session_id
from agentbox_contracts.vocabulary import (
    BeadClaimed,
    BeadClosed,
    BeadCreated,
    BeadDeleted,
    BeadDependencyAdded,
    BeadImported,
    BeadReleased,
    BeadRenewed,
    Fact,
)

__all__ = ["Caller", "claimed", "closed", "created", "depends", "merged", "released", "renewed"]


@attrs.frozen
class Caller:
    """Who caused a change. An id that no event could carry is left out."""

    session_id: str | None
    execution_id: str | None

    @classmethod
    def now(cls) -> Caller:
        """Whoever is calling, as the context has it."""
        return cls(fitting(session_id.get()), fitting(execution_id.get()))


def created(bead: Bead) -> BeadCreated:
    return BeadCreated(
        bead_id=bead.id,
        uid=bead.uid,
        kind=bead.kind,
        title=bead.title,
        priority=bead.priority,
        parent_id=bead.parent_id,
        actor=bead.created_by,
    )


def depends(bead: Bead, blocker_id: str) -> BeadDependencyAdded:
    return BeadDependencyAdded(bead_id=bead.id, uid=bead.uid, blocker_id=blocker_id)


def claimed(bead: Bead) -> BeadClaimed:
    assert bead.holder is not None
    return BeadClaimed(
        bead_id=bead.id, uid=bead.uid, actor=bead.holder, fence=bead.fence, lease_expires_at=bead.lease_expires_at
    )


def renewed(bead: Bead) -> BeadRenewed:
    assert bead.holder is not None
    assert bead.lease_expires_at is not None
    return BeadRenewed(
        bead_id=bead.id, uid=bead.uid, actor=bead.holder, fence=bead.fence, lease_expires_at=bead.lease_expires_at
    )


def released(bead: Bead) -> BeadReleased:
    return BeadReleased(bead_id=bead.id, uid=bead.uid, fence=bead.fence)


def closed(bead: Bead) -> BeadClosed:
    assert bead.outcome is not None
    return BeadClosed(
        bead_id=bead.id,
        uid=bead.uid,
        outcome=bead.outcome,
        reason=bead.reason,
        actor=bead.closed_by,
        fence=bead.fence,
    )


def merged(plan: Plan) -> Iterator[tuple[str, Fact]]:
    """What a sync did to the store, with the bead that each is about."""
    for bead_id in plan.deleted:
        yield bead_id, BeadDeleted(bead_id=bead_id)
    for bead in plan.stored:
        yield bead.id, BeadImported(bead_id=bead.id, uid=bead.uid, status=bead.status)
