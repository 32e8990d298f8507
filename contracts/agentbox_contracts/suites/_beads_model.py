"""
Beads in plain Python: what the port promises, without a store, a clock or a second caller.

Each method is the port's: it gives the bead as it should be now, or raises what the port raises. Of several errors that
apply, the one that the port names first is raised. Moments are only present or absent. A lease lasts for ever, unless
it is BRIEF: that one is over at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs

from agentbox_contracts.beads import Bead
from agentbox_contracts.errors import AlreadyClaimed, Conflict, InvalidInput, NotFound, StaleClaim

__all__ = ["BRIEF", "Model", "timeless"]

Given = TypeVar("Given", Bead, Bead | None)

BRIEF = 0.001
SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = ("created_at", "updated_at", "claimed_at", "lease_expires_at", "closed_at")


def timeless(bead: Bead) -> Bead:
    """*bead* with each moment that is there made the same, and without the `uid`, which no model can foresee."""
    there = {name: SOME_TIME for name in MOMENTS if getattr(bead, name) is not None}
    return attrs.evolve(bead, uid="", **there)  # type: ignore[arg-type]


class Model:
    """An epic and all that is below it, the oldest first."""

    def __init__(self, epic: Bead) -> None:
        self.beads = {epic.id: timeless(epic)}
        self.over: set[str] = set()
        self.keys: dict[str, tuple[Any, Bead]] = {}

    def show(self, bead_id: str) -> Bead:
        if bead_id not in self.beads:
            raise NotFound(bead_id)
        bead = self.beads[bead_id]
        return attrs.evolve(
            bead,
            open_children=sum(child.status != "closed" for child in self.children(bead_id)),
            open_blockers=sum(self.beads[blocker].outcome != "done" for blocker in bead.depends_on),
        )

    def children(self, bead_id: str) -> list[Bead]:
        return [bead for bead in self.beads.values() if bead.parent_id == bead_id]

    def get_ready(self, *, parent_id: str) -> list[Bead]:
        shown = [self.show(bead.id) for bead in self.children(parent_id)]
        ready = [bead for bead in shown if self._is_free(bead) and not bead.is_blocked and not bead.open_children]
        return sorted(ready, key=lambda bead: bead.priority)

    def create_child(self, *, parent_id: str, key: str | None = None, **fields: Any) -> Bead:
        return self._once(key, ("create_child", parent_id, fields), lambda: self._create(parent_id, fields))

    def _create(self, parent_id: str, fields: dict[str, Any]) -> Bead:
        if self.show(parent_id).status == "closed" or parent_id.count(".") >= 8:
            raise Conflict(parent_id)
        number = len(self.children(parent_id)) + 1
        return self._put(
            Bead(
                id=f"{parent_id}.{number}",
                uid="",
                kind="task",
                parent_id=parent_id,
                created_at=SOME_TIME,
                updated_at=SOME_TIME,
                **fields,
            )
        )

    def add_dependency(self, bead_id: str, *, blocker_id: str) -> Bead:
        bead, _ = self.show(bead_id), self.show(blocker_id)
        if bead_id == blocker_id:
            raise InvalidInput(bead_id)
        if blocker_id in bead.depends_on:
            return bead
        if bead.status == "closed" or self._waits(blocker_id, bead_id):
            raise Conflict(bead_id)
        return self._put(attrs.evolve(bead, depends_on=(*bead.depends_on, blocker_id)))

    def claim(self, bead_id: str, *, actor: str, lease_seconds: float | None = None) -> Bead:
        bead = self.show(bead_id)
        if bead.status == "claimed" and not self._is_free(bead):
            if bead.holder != actor:
                raise AlreadyClaimed(bead_id)
            return bead
        if bead.status == "closed" or bead.is_blocked:
            raise Conflict(bead_id)
        held = attrs.evolve(bead, status="claimed", holder=actor, fence=bead.fence + 1, claimed_at=SOME_TIME)
        return self._put(self._leased(held, lease_seconds))

    def claim_ready(
        self, *, actor: str, parent_id: str, lease_seconds: float | None = None, key: str | None = None
    ) -> Bead | None:
        def first() -> Bead | None:
            ready = self.get_ready(parent_id=parent_id)
            return self.claim(ready[0].id, actor=actor, lease_seconds=lease_seconds) if ready else None

        return self._once(key, ("claim_ready", actor, parent_id, lease_seconds), first)

    def renew(self, bead_id: str, *, lease_seconds: float, fence: int | None = None) -> Bead:
        bead = self._fenced(bead_id, fence)
        if bead.status != "claimed":
            raise Conflict(bead_id)
        return self._put(self._leased(bead, lease_seconds))

    def release(self, bead_id: str, *, actor: str | None = None, fence: int | None = None) -> Bead:
        bead = self._fenced(bead_id, fence)
        if bead.status == "claimed" and actor not in (None, bead.holder):
            raise AlreadyClaimed(bead_id)
        if bead.status == "closed":
            raise Conflict(bead_id)
        return self._put(attrs.evolve(bead, status="open", holder=None, claimed_at=None, lease_expires_at=None))

    def close(
        self, bead_id: str, *, outcome: Any, reason: str = "", actor: str | None = None, fence: int | None = None
    ) -> Bead:
        bead = self._fenced(bead_id, fence)
        if bead.status == "claimed" and actor not in (None, bead.holder):
            raise AlreadyClaimed(bead_id)
        if bead.open_children or bead.outcome not in (None, outcome):
            raise Conflict(bead_id)
        if bead.status == "closed":
            return bead
        ended = attrs.evolve(bead, status="closed", outcome=outcome, reason=reason, closed_by=actor or bead.holder)
        return self._put(attrs.evolve(ended, lease_expires_at=None, closed_at=SOME_TIME))

    def _put(self, bead: Bead) -> Bead:
        self.beads[bead.id] = bead
        return self.show(bead.id)

    def _leased(self, bead: Bead, lease_seconds: float | None) -> Bead:
        (self.over.add if lease_seconds == BRIEF else self.over.discard)(bead.id)
        return attrs.evolve(bead, lease_expires_at=None if lease_seconds is None else SOME_TIME)

    def _is_free(self, bead: Bead) -> bool:
        return bead.status == "open" or (bead.status == "claimed" and bead.id in self.over)

    def _fenced(self, bead_id: str, fence: int | None) -> Bead:
        bead = self.show(bead_id)
        if fence != bead.fence and (fence is not None or bead.lease_expires_at is not None):
            raise StaleClaim(bead_id)
        return bead

    def _waits(self, bead_id: str, other_id: str) -> bool:
        """Whether a bead waits for another, over any number of steps: for its blockers, and for its children."""
        first = (*self.beads[bead_id].depends_on, *(child.id for child in self.children(bead_id)))
        return other_id in first or any(self._waits(step, other_id) for step in first)

    def _once(self, key: str | None, call: Any, act: Callable[[], Given]) -> Given:
        """A key remembers the call and a bead that it gave."""
        if key in self.keys:
            before, given = self.keys[key]
            if before != call:
                raise Conflict(key)
            return given
        result = act()
        if key is not None and result is not None:
            self.keys[key] = (call, result)
        return result
