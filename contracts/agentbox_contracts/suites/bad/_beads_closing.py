"""Known-bad beads: work that ends otherwise than it was said."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.errors import AlreadyClaimed, Conflict
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import OnPaper, Remembers, Touches, touched


@known_bad(caught_by="beads.close.recorded")
class ForgetsReasons(Base):
    """Does not keep the reason."""

    async def close(self, *, reason: str, **rest: Any) -> Any:
        return await super().close(reason="", **rest)


@known_bad(caught_by="beads.close.recorded")
class ForgetsClosers(Base):
    """Does not keep who closed a bead."""

    async def close(self, **call: Any) -> Any:
        return attrs.evolve(await super().close(**call), closed_by=None)

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), closed_by=None)


@known_bad(caught_by="beads.close.recorded")
class ClosesOnPaper(OnPaper, on="close"):
    """Tells that a bead was closed, and writes nothing."""

    def told(self, bead: Any, **call: Any) -> Any:
        how = {"outcome": call["outcome"], "reason": call["reason"], "closed_by": call["actor"]}
        return attrs.evolve(bead, status="closed", closed_at=bead.updated_at, **how)


@known_bad(caught_by="beads.close.outcomes")
class AsksNoHuman(Base):
    """Takes `needs_human` for a failure."""

    async def close(self, *, outcome: str, **rest: Any) -> Any:
        return await super().close(outcome="failed" if outcome == "needs_human" else outcome, **rest)


@known_bad(caught_by="beads.close.keeps-holder")
class DropsTheHolder(Base):
    """Forgets on closing who held the bead."""

    async def close(self, **call: Any) -> Any:
        return attrs.evolve(await super().close(**call), holder=None)


@known_bad(caught_by="beads.close.unclaimed")
class ClosesOnlyTheClaimed(Base):
    """Refuses to close what nobody has claimed."""

    async def close(self, *, bead_id: str, **rest: Any) -> Any:
        if (await super().show(bead_id)).status == "open":
            raise Conflict(f"{bead_id} is not claimed")
        return await super().close(bead_id, **rest)


@known_bad(caught_by="beads.close.unclaimed")
class ClosedByNobody(Base):
    """Does not keep who closed what nobody held."""

    async def close(self, **call: Any) -> Any:
        return attrs.evolve(await super().close(**call), closed_by=None)


@known_bad(caught_by="beads.close.others-refused")
class AnyoneCloses(Base):
    """Lets anyone close what another holds."""

    async def close(self, *, actor: str | None, **rest: Any) -> Any:
        return await super().close(actor=None, **rest)


@known_bad(caught_by="beads.close.others-refused")
class KeepsClosersSecret(Base):
    """Does not say who holds what another may not close."""

    async def close(self, **call: Any) -> Any:
        try:
            return await super().close(**call)
        except AlreadyClaimed:
            raise AlreadyClaimed("somebody holds it") from None


@known_bad(caught_by="beads.close.others-refused")
class TouchesWhatOthersHold(Touches, on="close"):
    """Refuses to close what another holds, and has changed it all the same."""


@known_bad(caught_by="beads.close.again")
class ClosesAnew(Base):
    """Tells of a change when a closed bead is closed again."""

    async def close(self, *, bead_id: str, reason: str, **rest: Any) -> Any:
        return attrs.evolve(await super().close(bead_id, reason=reason, **rest), reason=reason)


@known_bad(caught_by="beads.close.again")
class ClosesAnewInSecret(Remembers):
    """Changes a closed bead that is closed again, and does not tell."""

    async def close(self, *, bead_id: str, **rest: Any) -> Any:
        before = await super().show(bead_id)
        self.memory[bead_id] = before.status == "closed"
        return await super().close(bead_id, **rest)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return touched(bead) if self.memory.get(bead_id) else bead


@known_bad(caught_by="beads.close.other-outcome")
class LastOutcomeWins(Base):
    """Lets a closed bead be closed with another outcome."""

    async def close(self, *, bead_id: str, outcome: Any, **rest: Any) -> Any:
        try:
            return await super().close(bead_id, outcome=outcome, **rest)
        except Conflict:
            return attrs.evolve(await super().show(bead_id), outcome=outcome)


@known_bad(caught_by="beads.close.other-outcome")
class TouchesTheEnded(Touches, on="close"):
    """Refuses another outcome, and has changed the bead all the same."""


@known_bad(caught_by="beads.close.open-children")
class ClosesOverChildren(Base):
    """Closes an epic over its open children."""

    async def close(self, *, bead_id: str, outcome: Any, **rest: Any) -> Any:
        try:
            return await super().close(bead_id, outcome=outcome, **rest)
        except Conflict:
            return attrs.evolve(await super().show(bead_id), status="closed", outcome=outcome)


@known_bad(caught_by="beads.close.open-children")
class TouchesTheEpic(Touches, on="close"):
    """Refuses to close an epic with open children, and has changed it all the same."""


@known_bad(caught_by="beads.close.closed-children")
class WantsChildrenDone(Base):
    """Closes an epic only when all its children are done."""

    async def close(self, *, bead_id: str, **rest: Any) -> Any:
        page = await super().children(bead_id)
        if any(child.outcome != "done" for child in page.items):
            raise Conflict(f"{bead_id} has children that are not done")
        return await super().close(bead_id, **rest)


@known_bad(caught_by="beads.close.closed-children")
class InheritsOutcomes(Base):
    """Gives an epic the outcome of its last child."""

    async def close(self, **call: Any) -> Any:
        closed = await super().close(**call)
        page = await super().children(closed.id)
        return attrs.evolve(closed, outcome=page.items[-1].outcome) if page.items else closed
