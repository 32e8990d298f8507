"""What each call does to a document of beads. Nothing here waits, reads a clock or knows of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from agentbox_contracts.beads import Bead, Outcome
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AlreadyClaimed, Conflict, InvalidInput, NotFound, StaleClaim

__all__ = [
    "Beads",
    "Change",
    "add_child",
    "add_dependency",
    "children",
    "claim",
    "claim_ready",
    "close",
    "ready",
    "release",
    "renew",
    "show",
]

DEEPEST = 8

Beads: TypeAlias = Mapping[str, Bead]
"""All beads of a namespace by id, the oldest first."""

Change: TypeAlias = tuple[Bead, ...]
"""The bead that was asked for, then those that change with it. Equal to what is there already: nothing changes."""


def show(beads: Beads, bead_id: str) -> Bead:
    """The bead as it stands."""
    try:
        return beads[bead_id]
    except KeyError:
        raise NotFound(f"there is no bead {bead_id}", resource="bead", id=bead_id) from None


def children(beads: Beads, bead_id: str, *, limit: int, after: str | None) -> Page[Bead]:
    """One page of the direct children. Ids are the order of creation, and so is the document."""
    show(beads, bead_id)
    items = _children(beads, bead_id)
    if after is not None:
        ids = [bead.id for bead in items]
        if after not in ids:
            raise InvalidInput(f"after: {after} is not a child of {bead_id}", id=after)
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    return Page(items=page, next=page[-1].id if len(items) > limit else None)


def ready(beads: Beads, *, parent_id: str | None, now: datetime) -> list[Bead]:
    """What can be claimed now, the most urgent first, then the oldest."""
    among = beads.values() if parent_id is None else _children(beads, parent_id)
    found = [
        bead
        for bead in among
        if (bead.status == "open" or _has_expired(bead, now)) and not bead.open_blockers and not bead.open_children
    ]
    return sorted(found, key=lambda bead: bead.priority)


def add_child(beads: Beads, new: Bead, *, parent_id: str) -> Change:
    """Record *new* under its parent, which gives it its id."""
    parent = show(beads, parent_id)
    if parent.status == "closed":
        raise _conflict(parent, "is closed and takes no children")
    if parent.id.count(".") >= DEEPEST:
        raise _conflict(parent, f"is {DEEPEST} levels down and takes no children")
    number = len(_children(beads, parent_id)) + 1
    child = attrs.evolve(new, id=f"{parent_id}.{number}", kind="task", parent_id=parent_id)
    return child, attrs.evolve(parent, open_children=parent.open_children + 1)


def add_dependency(beads: Beads, bead_id: str, *, blocker_id: str, now: datetime) -> Change:
    """Let one bead wait for another."""
    bead, blocker = show(beads, bead_id), show(beads, blocker_id)
    if bead_id == blocker_id:
        raise InvalidInput(f"{bead_id} cannot wait for itself", resource="bead", id=bead_id)
    if blocker_id in bead.depends_on:
        return (bead,)
    if bead.status == "closed":
        raise _conflict(bead, "is closed and waits for nothing")
    if _waits_for(beads, blocker_id, bead_id):
        raise _conflict(bead, f"cannot wait for {blocker_id}, which waits for it")
    return (
        attrs.evolve(
            bead,
            depends_on=(*bead.depends_on, blocker_id),
            open_blockers=bead.open_blockers + (blocker.outcome != "done"),
            updated_at=now,
        ),
    )


def claim(beads: Beads, bead_id: str, *, actor: str, lease_seconds: float | None, now: datetime) -> Change:
    """Give the bead to *actor*."""
    bead = show(beads, bead_id)
    if bead.status == "closed":
        raise _conflict(bead, "is closed")
    if bead.status == "claimed" and not _has_expired(bead, now):
        if bead.holder != actor:
            raise _held(bead)
        return (bead,)
    if bead.is_blocked:
        raise _conflict(bead, f"waits for {bead.open_blockers} of {', '.join(bead.depends_on)}")
    return (
        attrs.evolve(
            bead,
            status="claimed",
            holder=actor,
            fence=bead.fence + 1,
            claimed_at=now,
            lease_expires_at=_later(now, lease_seconds),
            updated_at=now,
        ),
    )


def claim_ready(
    beads: Beads, *, actor: str, parent_id: str | None, lease_seconds: float | None, now: datetime
) -> Change:
    """Give *actor* the first bead that is ready; no bead at all when none is."""
    for bead in ready(beads, parent_id=parent_id, now=now):
        return claim(beads, bead.id, actor=actor, lease_seconds=lease_seconds, now=now)
    return ()


def renew(beads: Beads, bead_id: str, *, lease_seconds: float, fence: int | None, now: datetime) -> Change:
    """Let the claim last from now."""
    bead = show(beads, bead_id)
    _check_fence(bead, fence)
    if bead.status != "claimed":
        raise _conflict(bead, f"is {bead.status}, not claimed")
    return (attrs.evolve(bead, lease_expires_at=_later(now, lease_seconds), updated_at=now),)


def release(beads: Beads, bead_id: str, *, actor: str | None, fence: int | None, now: datetime) -> Change:
    """Give a claimed bead back."""
    bead = show(beads, bead_id)
    _check_fence(bead, fence)
    if bead.status == "closed":
        raise _conflict(bead, "is closed")
    if bead.status == "open":
        return (bead,)
    _check_holder(bead, actor)
    opened = attrs.evolve(bead, status="open", holder=None, claimed_at=None, lease_expires_at=None, updated_at=now)
    return (opened,)


def close(
    beads: Beads,
    bead_id: str,
    *,
    outcome: Outcome,
    reason: str,
    actor: str | None,
    fence: int | None,
    now: datetime,
) -> Change:
    """End the work. Its parent has an open child less, and who waited for it, if it is done, a blocker less."""
    bead = show(beads, bead_id)
    _check_fence(bead, fence)
    if bead.status == "closed":
        if bead.outcome != outcome:
            raise _conflict(bead, f"was closed as {bead.outcome}")
        return (bead,)
    _check_holder(bead, actor)
    if bead.open_children:
        raise _conflict(bead, f"has {bead.open_children} open children")
    closed = attrs.evolve(
        bead,
        status="closed",
        outcome=outcome,
        reason=reason,
        lease_expires_at=None,
        updated_at=now,
        closed_by=actor or bead.holder,
        closed_at=now,
    )
    changed = {closed.id: closed}
    if bead.parent_id is not None:
        parent = show(beads, bead.parent_id)
        changed[parent.id] = attrs.evolve(parent, open_children=parent.open_children - 1)
    if outcome == "done":
        for waiting in _waiting(beads.values(), bead_id):
            # An epic may wait for its own child, and then changes twice.
            current = changed.get(waiting.id, waiting)
            changed[waiting.id] = attrs.evolve(current, open_blockers=current.open_blockers - 1)
    return tuple(changed.values())


def _children(beads: Beads, bead_id: str) -> list[Bead]:
    return [bead for bead in beads.values() if bead.parent_id == bead_id]


def _waiting(among: Iterable[Bead], blocker_id: str) -> list[Bead]:
    return [bead for bead in among if blocker_id in bead.depends_on]


def _waits_for(beads: Beads, bead_id: str, other_id: str) -> bool:
    """Whether *bead_id* waits for *other_id*, by dependencies and because a bead waits for its children."""
    seen: set[str] = set()
    ahead = [bead_id]
    while ahead:
        at = ahead.pop()
        if at == other_id:
            return True
        if at not in seen:
            seen.add(at)
            ahead += beads[at].depends_on
            ahead += [child.id for child in _children(beads, at)]
    return False


def _has_expired(bead: Bead, now: datetime) -> bool:
    return bead.status == "claimed" and bead.lease_expires_at is not None and bead.lease_expires_at <= now


def _check_fence(bead: Bead, fence: int | None) -> None:
    if fence is None and bead.lease_expires_at is None:
        return
    if fence != bead.fence:
        given = "none was given" if fence is None else f"{fence} was given"
        raise StaleClaim(f"{bead.id} has the fence {bead.fence}, {given}", resource="bead", id=bead.id)


def _check_holder(bead: Bead, actor: str | None) -> None:
    if bead.status == "claimed" and actor is not None and actor != bead.holder:
        raise _held(bead)


def _later(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _held(bead: Bead) -> AlreadyClaimed:
    return AlreadyClaimed(f"{bead.id} is held by {bead.holder}", resource="bead", id=bead.id, actor=bead.holder)


def _conflict(bead: Bead, why: str) -> Conflict:
    return Conflict(f"{bead.id} {why}", resource="bead", id=bead.id)
