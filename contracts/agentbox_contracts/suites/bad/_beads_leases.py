"""Known-bad beads: leases that do not hold, or do not end, and holders who do not know."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import attrs

from agentbox_contracts.errors import AlreadyClaimed, Conflict, StaleClaim
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import OnPaper, Remembers, Touches

YEAR = 31_536_000.0


class GuessesFences(Base):
    """Takes whatever fence is the current one."""

    async def renew(self, *, bead_id: str, fence: int | None, **rest: Any) -> Any:
        return await super().renew(bead_id, fence=await self._current(bead_id, fence), **rest)

    async def release(self, *, bead_id: str, fence: int | None, **rest: Any) -> Any:
        return await super().release(bead_id, fence=await self._current(bead_id, fence), **rest)

    async def close(self, *, bead_id: str, fence: int | None, **rest: Any) -> Any:
        return await super().close(bead_id, fence=await self._current(bead_id, fence), **rest)

    async def _current(self, bead_id: str, fence: int | None) -> Any:
        return (await super().show(bead_id)).fence


@known_bad(caught_by="beads.lease.held")
class HalvesLeases(Base):
    """Gives half the lease that was asked for."""

    async def claim(self, *, lease_seconds: float | None, **rest: Any) -> Any:
        return await super().claim(lease_seconds=lease_seconds and lease_seconds / 2, **rest)


@known_bad(caught_by="beads.lease.held")
class LeasesDoNotHold(Base):
    """Gives a leased bead to whoever asks."""

    async def claim(self, **call: Any) -> Any:
        try:
            return await super().claim(**call)
        except AlreadyClaimed:
            held = await super().show(call["bead_id"])
            await super().release(held.id, fence=held.fence)
            return await super().claim(**call)


@known_bad(caught_by="beads.lease.again")
class ExtendsOnReclaim(Base):
    """Lets a claim by the holder extend the lease."""

    async def claim(self, *, bead_id: str, lease_seconds: float, **rest: Any) -> Any:
        held = await super().claim(bead_id, lease_seconds=lease_seconds, **rest)
        return await super().renew(bead_id, lease_seconds=lease_seconds, fence=held.fence)


@known_bad(caught_by="beads.lease.again")
class ExtendsInSecret(Base):
    """Lets a claim by the holder extend the lease, and does not tell."""

    async def claim(self, *, bead_id: str, lease_seconds: float, **rest: Any) -> Any:
        before = await super().show(bead_id)
        held = await super().claim(bead_id, lease_seconds=lease_seconds, **rest)
        if before.holder is None:
            return held
        await super().renew(bead_id, lease_seconds=lease_seconds, fence=held.fence)
        return before


@known_bad(caught_by="beads.lease.expires")
class LeasesNeverEnd(Base):
    """Lets every lease last a year."""

    async def claim(self, *, lease_seconds: float | None, **rest: Any) -> Any:
        return await super().claim(lease_seconds=lease_seconds and YEAR, **rest)


@known_bad(caught_by="beads.lease.expires")
class InheritsTheFence(Base):
    """Gives the successor the fence of the one before."""

    async def claim(self, **call: Any) -> Any:
        return attrs.evolve(await super().claim(**call), fence=1)


@known_bad(caught_by="beads.lease.ready-again")
class ExpiredComesLast(Base):
    """Puts what has expired behind everything else."""

    async def get_ready(self, **call: Any) -> Any:
        return sorted(await super().get_ready(**call), key=lambda bead: bead.status == "claimed")


@known_bad(caught_by="beads.lease.claim-ready")
class TakesOnlyTheOpen(Base):
    """Does not take what has expired."""

    async def claim_ready(self, *, parent_id: str | None, **rest: Any) -> Any:
        ready = await super().get_ready(parent_id=parent_id)
        if not any(bead.status == "open" for bead in ready):
            return None
        return await super().claim_ready(parent_id=parent_id, **rest)


@known_bad(caught_by="beads.lease.claim-ready")
class TakesWithoutLease(Base):
    """Takes ready work without the lease that was asked for."""

    async def claim_ready(self, *, lease_seconds: float | None, **rest: Any) -> Any:
        return await super().claim_ready(lease_seconds=None, **rest)


@known_bad(caught_by="beads.lease.fence-rises")
class KeepsTheFenceOfTheSame(Base):
    """Does not raise the fence when the same actor comes back after its lease."""

    async def claim(self, **call: Any) -> Any:
        before = await super().show(call["bead_id"])
        claimed = await super().claim(**call)
        return attrs.evolve(claimed, fence=before.fence) if before.holder == call["actor"] else claimed


@known_bad(caught_by="beads.lease.fence-needed")
class FillsInTheFence(GuessesFences):
    """Fills in the fence where none is given."""

    async def _current(self, bead_id: str, fence: int | None) -> Any:
        return fence if fence is not None else await super()._current(bead_id, fence)


@known_bad(caught_by="beads.lease.fence-needed")
class TouchesTheLeased(Touches, on="close"):
    """Refuses to close without the fence, and has changed the bead all the same."""


@known_bad(caught_by="beads.lease.stale-refused")
class BelievesAnyFence(GuessesFences):
    """Takes an old fence for the current one."""


@known_bad(caught_by="beads.lease.stale-refused")
class TouchesForTheStale(Touches, on="renew"):
    """Refuses to renew with an old fence, and has changed the bead all the same."""


@known_bad(caught_by="beads.lease.stale-close")
class ConfusesClosers(Base):
    """Tells anyone who closes a closed bead that it went well."""

    async def close(self, *, bead_id: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        return bead if bead.status == "closed" else await super().close(bead_id, **rest)


@known_bad(caught_by="beads.renew.extends")
class RenewsForNothing(Base):
    """Accepts to renew, and lets the lease end when it would have."""

    async def renew(self, *, bead_id: str, **rest: Any) -> Any:
        return await super().show(bead_id)


@known_bad(caught_by="beads.renew.extends")
class RenewsOnPaper(OnPaper, on="renew"):
    """Tells that a lease was renewed, and writes nothing."""

    def told(self, bead: Any, **call: Any) -> Any:
        return attrs.evolve(bead, lease_expires_at=bead.lease_expires_at + timedelta(seconds=call["lease_seconds"]))


@known_bad(caught_by="beads.renew.extends")
class RenewsByClaiming(Base):
    """Renews by claiming anew, with another fence."""

    async def renew(self, *, bead_id: str, lease_seconds: float, fence: int | None) -> Any:
        held = await super().release(bead_id, fence=fence)
        return await super().claim(held.id, actor="ada", lease_seconds=lease_seconds)


@known_bad(caught_by="beads.renew.revives")
class RefusesLateRenewals(Base):
    """Refuses to renew a lease that ran out, though nobody has claimed the bead."""

    async def renew(self, *, bead_id: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        if bead in await super().get_ready(parent_id=bead.parent_id):
            raise StaleClaim(f"the lease of {bead_id} is over")
        return await super().renew(bead_id, **rest)


class RememberRenewed(Remembers):
    async def renew(self, **call: Any) -> Any:
        renewed = self.memory[call["bead_id"]] = await super().renew(**call)
        return renewed


@known_bad(caught_by="beads.renew.revives")
class OffersTheRenewed(RememberRenewed):
    """Goes on to offer a bead whose lease was renewed after it ran out."""

    async def get_ready(self, **call: Any) -> Any:
        return [*await super().get_ready(**call), *self.memory.values()]


@known_bad(caught_by="beads.renew.revives")
class GivesAwayTheRenewed(RememberRenewed):
    """Lets anyone claim a bead whose lease was renewed after it ran out."""

    async def claim(self, *, bead_id: str, **rest: Any) -> Any:
        if bead_id in self.memory:
            await super().release(bead_id, fence=self.memory[bead_id].fence)
        return await super().claim(bead_id, **rest)


@known_bad(caught_by="beads.renew.gives-lease")
class RenewsOnlyLeases(Base):
    """Gives no lease to a claim that had none."""

    async def renew(self, *, bead_id: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        return await super().renew(bead_id, **rest) if bead.lease_expires_at else bead


@known_bad(caught_by="beads.renew.gives-lease")
class LeasesWithoutFence(GuessesFences):
    """Asks for no fence under a lease that was given later."""


@known_bad(caught_by="beads.renew.claimed-only")
class RenewsTheOpen(Base):
    """Accepts to renew what nobody has claimed."""

    async def renew(self, *, bead_id: str, **rest: Any) -> Any:
        try:
            return await super().renew(bead_id, **rest)
        except Conflict:
            return await super().show(bead_id)


@known_bad(caught_by="beads.renew.claimed-only")
class TouchesTheUnclaimed(Touches, on="renew"):
    """Refuses to renew what nobody has claimed, and has changed it all the same."""
