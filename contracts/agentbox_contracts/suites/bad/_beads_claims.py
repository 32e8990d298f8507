"""Known-bad beads: claims that are not worth much."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs

from agentbox_contracts.errors import AlreadyClaimed, Conflict, StaleClaim
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import OnPaper, Remembers, Touches, touched


@known_bad(caught_by="beads.claim.held")
class ClaimsForNobody(Base):
    """Shows a claimed bead without its holder."""

    async def claim(self, **call: Any) -> Any:
        return attrs.evolve(await super().claim(**call), holder=None)

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), holder=None)


@known_bad(caught_by="beads.claim.held")
class ClaimsOnPaper(OnPaper, on="claim"):
    """Tells that a claim was made, and writes nothing."""

    def told(self, bead: Any, **call: Any) -> Any:
        moment = bead.updated_at
        return attrs.evolve(bead, status="claimed", holder=call["actor"], fence=bead.fence + 1, claimed_at=moment)


@known_bad(caught_by="beads.claim.others-refused")
class StealsClaims(Base):
    """Takes a bead from its holder for whoever asks."""

    async def claim(self, **call: Any) -> Any:
        await super().release(call["bead_id"])
        return await super().claim(**call)


@known_bad(caught_by="beads.claim.others-refused")
class KeepsHoldersSecret(Base):
    """Does not say who holds the bead."""

    async def claim(self, **call: Any) -> Any:
        try:
            return await super().claim(**call)
        except AlreadyClaimed:
            raise AlreadyClaimed("somebody holds it") from None


@known_bad(caught_by="beads.claim.others-refused")
class TouchesWhatIsHeld(Touches, on="claim"):
    """Refuses to claim what another holds, and has changed it all the same."""


@known_bad(caught_by="beads.claim.again")
class ClaimsAnew(Base):
    """Makes a new claim of one that the actor has already."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        await super().release(bead_id, actor=actor)
        return await super().claim(bead_id, actor=actor, **rest)


@known_bad(caught_by="beads.claim.again")
class ClaimsAnewInSecret(Base):
    """Makes a new claim of one that the actor has already, and tells of the old one."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        before = await super().show(bead_id)
        await super().release(bead_id, actor=actor)
        claimed = await super().claim(bead_id, actor=actor, **rest)
        return before if before.holder == actor else claimed


@known_bad(caught_by="beads.claim.one-winner")
class RacyClaim(Base):
    """Looks first and claims later, so that two can win."""

    pause = 0.01

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        if bead.holder in (None, actor):
            await asyncio.sleep(self.pause)
            bead = attrs.evolve(bead, status="claimed", holder=actor, fence=bead.fence + 1)
        try:
            return await super().claim(bead_id, actor=actor, **rest)
        except AlreadyClaimed:
            if bead.holder != actor:
                raise
            return bead


@known_bad(caught_by="beads.claim.one-winner")
class BlamesTheLoser(Base):
    """Tells a loser that the loser holds the bead."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        try:
            return await super().claim(bead_id, actor=actor, **rest)
        except AlreadyClaimed:
            raise AlreadyClaimed(f"{actor} holds it", actor=actor) from None


@known_bad(caught_by="beads.claim.one-winner")
class ShowsTheLoser(Remembers):
    """Shows whoever asked last as the holder."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        self.memory[bead_id] = actor
        return await super().claim(bead_id, actor=actor, **rest)

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), holder=self.memory.get(bead_id))


@known_bad(caught_by="beads.claim.fence-rises")
class FenceStands(Base):
    """Gives every claim the same fence."""

    async def claim(self, **call: Any) -> Any:
        return attrs.evolve(await super().claim(**call), fence=1)


@known_bad(caught_by="beads.claim.fence-checked")
class FencesOnlyLeases(Base):
    """Checks no fence where there is no lease."""

    async def release(self, *, bead_id: str, actor: str | None, fence: int | None) -> Any:
        return await super().release(bead_id, actor=actor)


@known_bad(caught_by="beads.claim.fence-checked")
class TouchesTheFenced(Touches, on="close"):
    """Refuses to close with an old fence, and has changed the bead all the same."""


@known_bad(caught_by="beads.claim.closed-refused")
class ClaimsTheClosed(Base):
    """Lets a closed bead be claimed."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        try:
            return await super().claim(bead_id, actor=actor, **rest)
        except Conflict:
            return attrs.evolve(await super().show(bead_id), status="claimed", holder=actor)


@known_bad(caught_by="beads.claim.closed-refused")
class TouchesTheClosed(Touches, on="claim"):
    """Refuses to claim what is closed, and has changed it all the same."""


@known_bad(caught_by="beads.claim.blocked-refused")
class ClaimsTheBlocked(Base):
    """Lets a bead be claimed that waits for another."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        if bead.is_blocked:
            return attrs.evolve(bead, status="claimed", holder=actor, fence=bead.fence + 1)
        return await super().claim(bead_id, actor=actor, **rest)


@known_bad(caught_by="beads.claim.blocked-refused")
class TouchesTheBlocked(Touches, on="claim"):
    """Refuses to claim what is blocked, and has changed it all the same."""


@known_bad(caught_by="beads.release.opens")
class ReleasesTheFence(Base):
    """Lets the fence of a released bead begin anew."""

    async def release(self, **call: Any) -> Any:
        return attrs.evolve(await super().release(**call), fence=0)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, fence=0) if bead.status == "open" else bead


@known_bad(caught_by="beads.release.opens")
class ReleasesOnPaper(OnPaper, on="release"):
    """Tells that a bead was released, and writes nothing."""

    def told(self, bead: Any, **call: Any) -> Any:
        return attrs.evolve(bead, status="open", holder=None, claimed_at=None)


@known_bad(caught_by="beads.release.opens")
class ForgetsTheReleased(Base):
    """Offers nobody what somebody has held before."""

    async def get_ready(self, **call: Any) -> Any:
        return [bead for bead in await super().get_ready(**call) if not bead.fence]


@known_bad(caught_by="beads.release.again")
class ReleasesTheOpen(Base):
    """Tells of a change when an open bead is released."""

    async def release(self, **call: Any) -> Any:
        return touched(await super().release(**call))


@known_bad(caught_by="beads.release.again")
class ReleasesTheOpenInSecret(Base):
    """Raises the fence of an open bead that is released, and tells of none."""

    async def release(self, *, bead_id: str, **rest: Any) -> Any:
        before = await super().show(bead_id)
        if before.status == "open":
            await super().claim(bead_id, actor="somebody")
        await super().release(bead_id)
        return before


@known_bad(caught_by="beads.release.others-refused")
class AnyoneReleases(Base):
    """Lets anyone release what another holds."""

    async def release(self, *, bead_id: str, actor: str | None, fence: int | None) -> Any:
        return await super().release(bead_id, fence=fence)


@known_bad(caught_by="beads.release.others-refused")
class KeepsReleasersSecret(Base):
    """Does not say who holds what another may not release."""

    async def release(self, **call: Any) -> Any:
        try:
            return await super().release(**call)
        except AlreadyClaimed:
            raise AlreadyClaimed("somebody holds it") from None


@known_bad(caught_by="beads.release.others-refused")
class TouchesOthers(Touches, on="release"):
    """Refuses to release what another holds, and has changed it all the same."""


@known_bad(caught_by="beads.release.closed-refused")
class ReleasesTheClosed(Base):
    """Lets a closed bead be released."""

    async def release(self, *, bead_id: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        return bead if bead.status == "closed" else await super().release(bead_id, **rest)


@known_bad(caught_by="beads.release.closed-refused")
class TouchesTheReleased(Touches, on="release"):
    """Refuses to release what is closed, and has changed it all the same."""


@known_bad(caught_by="beads.claim-ready.first")
class TakesTheLast(Base):
    """Claims the last bead that is ready."""

    async def claim_ready(self, *, actor: str, parent_id: str | None, **rest: Any) -> Any:
        ready = await super().get_ready(parent_id=parent_id)
        return await super().claim(ready[-1].id, actor=actor)


@known_bad(caught_by="beads.claim-ready.first")
class LooksWithoutClaiming(Base):
    """Gives the first bead that is ready without claiming it."""

    async def claim_ready(self, *, parent_id: str | None, **rest: Any) -> Any:
        return (await super().get_ready(parent_id=parent_id))[0]


@known_bad(caught_by="beads.claim-ready.none")
class TakesWhatIsHeld(Base):
    """Gives a bead that another holds when none is ready."""

    async def claim_ready(self, **call: Any) -> Any:
        taken = await super().claim_ready(**call)
        return taken or (await super().children(call["parent_id"])).items[0]


@known_bad(caught_by="beads.claim-ready.once")
class RacyClaimReady(Base):
    """Looks for ready work first and takes it later, so that two can get the same."""

    pause = 0.01

    async def claim_ready(self, *, actor: str, parent_id: str | None, **rest: Any) -> Any:
        for bead in await super().get_ready(parent_id=parent_id, limit=1):
            await asyncio.sleep(self.pause)
            try:
                return await super().claim(bead.id, actor=actor)
            except (AlreadyClaimed, StaleClaim):
                return attrs.evolve(bead, status="claimed", holder=actor, fence=bead.fence + 1)
        return None
