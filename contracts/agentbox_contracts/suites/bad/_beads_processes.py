"""Known-bad beads: fine alone, and wrong with several processes, a crash, or a change of mind."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AdapterDisabled, Conflict, StaleClaim
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_claims import RacyClaim, RacyClaimReady
from agentbox_contracts.suites.bad._beads_common import Remembers
from agentbox_contracts.suites.bad._beads_leases import GuessesFences


@known_bad(caught_by="beads.process.seen")
class CachesBeads(Remembers):
    """Shows a bead as it was when it was shown first."""

    async def show(self, bead_id: str) -> Any:
        if bead_id not in self.memory:
            self.memory[bead_id] = await super().show(bead_id)
        return self.memory[bead_id]


@known_bad(caught_by="beads.process.seen")
class CachesReady(Remembers):
    """Offers what was ready when it was asked first."""

    async def get_ready(self, **call: Any) -> Any:
        if call["parent_id"] not in self.memory:
            self.memory[call["parent_id"]] = await super().get_ready(**call)
        return self.memory[call["parent_id"]]


@known_bad(caught_by="beads.process.one-winner")
class LocksOnlyItself(RacyClaim):
    """Keeps claims apart with a lock that other processes do not see."""

    pause = 0.2
    locks: ClassVar[dict[str, asyncio.Lock]] = {}

    async def claim(self, *, bead_id: str, **rest: Any) -> Any:
        async with self.locks.setdefault(bead_id, asyncio.Lock()):
            return await super().claim(bead_id=bead_id, **rest)


@known_bad(caught_by="beads.process.one-winner")
class ListsNoHolders(Base):
    """Lists children without who holds them."""

    async def children(self, bead_id: str, **rest: Any) -> Any:
        page = await super().children(bead_id, **rest)
        return Page(items=[attrs.evolve(child, holder=None) for child in page.items], next=page.next)


@known_bad(caught_by="beads.process.claim-ready-once")
class TakesTogether(RacyClaimReady):
    """Looks for ready work first and takes it later, while other processes do the same."""

    pause = 0.2


@known_bad(caught_by="beads.process.numbers-apart")
class CountsForItself(Remembers):
    """Numbers children by the count of its own."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        child = await super().create_child(parent_id=parent_id, **rest)
        self.memory[parent_id] = self.memory.get(parent_id, 0) + 1
        return attrs.evolve(child, id=f"{parent_id}.{self.memory[parent_id]}")


@known_bad(caught_by="beads.process.numbers-apart")
class CountsItsOwn(Remembers):
    """Counts only the children that it made itself."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        self.memory[parent_id] = self.memory.get(parent_id, 0) + 1
        return await super().create_child(parent_id=parent_id, **rest)

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), open_children=self.memory.get(bead_id, 0))


@known_bad(caught_by="beads.process.dependencies-together")
class LosesUpdates(Remembers):
    """Overwrites what another adds at the same time."""

    async def add_dependency(self, *, bead_id: str, blocker_id: str) -> Any:
        before = await super().show(bead_id)
        self.memory[bead_id] = blocker_id
        await asyncio.sleep(0.02)
        if self.memory[bead_id] == blocker_id:
            return await super().add_dependency(bead_id, blocker_id=blocker_id)
        return attrs.evolve(before, depends_on=(*before.depends_on, blocker_id))


@known_bad(caught_by="beads.stopped.refused")
class BelievesTheStopped(GuessesFences):
    """Lets a process that was stopped go on as if nothing had happened."""


@known_bad(caught_by="beads.stopped.refused")
class WritesForTheStopped(Base):
    """Refuses a process that was stopped, after it has written."""

    async def renew(self, *, bead_id: str, lease_seconds: float, fence: int | None) -> Any:
        try:
            return await super().renew(bead_id, lease_seconds=lease_seconds, fence=fence)
        except StaleClaim:
            held = await super().show(bead_id)
            await super().renew(bead_id, lease_seconds=lease_seconds, fence=held.fence)
            raise


@known_bad(caught_by="beads.stopped.on-its-way")
class ChecksFencesTooEarly(GuessesFences):
    """Checks the fence, and writes some time later."""

    async def _current(self, bead_id: str, fence: int | None) -> Any:
        if fence != await super()._current(bead_id, fence):
            raise StaleClaim(f"{fence} is not the fence of {bead_id}")
        await asyncio.sleep(0.1)
        return await super()._current(bead_id, fence)


@known_bad(caught_by="beads.ack.reopened")
class WritesBehind(Remembers):
    """Acknowledges a close, and writes when there is time."""

    async def close(self, **call: Any) -> Any:
        bead = await super().show(call["bead_id"])
        write = super().close
        asyncio.get_running_loop().call_later(60, lambda: self.memory.update(late=asyncio.ensure_future(write(**call))))
        return attrs.evolve(bead, status="closed", outcome=call["outcome"], closed_at=bead.updated_at)


class TwoSteps(Base):
    """Closes in two steps, between which the bead is held."""

    async def close(self, *, bead_id: str, **rest: Any) -> Any:
        if (await super().show(bead_id)).status == "open":
            await super().claim(bead_id, actor="closing")
            await asyncio.sleep(0.2)
        return await super().close(bead_id, **rest)


@known_bad(caught_by="beads.cancel.all-or-nothing")
class LeavesHalf(TwoSteps):
    """Closes in two steps, and is cancelled between them."""


@known_bad(caught_by="beads.cancel.all-or-nothing")
class IgnoresCancelling(Base):
    """Takes a cancelled call for one that went well."""

    async def create_child(self, **call: Any) -> Any:
        try:
            await asyncio.sleep(0.002)
            return await super().create_child(**call)
        except asyncio.CancelledError:
            return await super().show(call["parent_id"])


@known_bad(caught_by="beads.crash.points")
class AcknowledgesEarly(Remembers):
    """Acknowledges a close before it has written it."""

    async def close(self, **call: Any) -> Any:
        bead = await super().show(call["bead_id"])
        self.memory["late"] = asyncio.ensure_future(self._later(super().close, call))
        return attrs.evolve(bead, status="closed", outcome=call["outcome"])

    async def _later(self, write: Any, call: dict[str, Any]) -> None:
        await asyncio.sleep(0.02)
        await write(**call)


@known_bad(caught_by="beads.crash.moments")
class ClosesInTwoSteps(TwoSteps):
    """Closes in two steps, and may be killed between them."""


@known_bad(caught_by="beads.model.same")
class SparesParents(Base):
    """Refuses to let a bead be claimed that has open children."""

    async def claim(self, *, bead_id: str, **rest: Any) -> Any:
        bead = await super().show(bead_id)
        if bead.open_children and bead.status == "open":
            raise Conflict(f"{bead_id} has open children")
        return await super().claim(bead_id, **rest)


@known_bad(caught_by="beads.capability.leases")
class LeasesUndeclared(Base):
    """Takes leases, and does not declare them."""

    capabilities = frozenset({"keys", "sync"})


@known_bad(caught_by="beads.capability.keys")
class KeysUndeclared(Base):
    """Takes keys, and does not declare them."""

    capabilities = frozenset({"leases", "sync"})


@known_bad(caught_by="beads.capability.sync")
class SyncUndeclared(Base):
    """Syncs, and does not declare it."""

    capabilities = frozenset({"keys", "leases"})


class RefusesTooLate(Base):
    """Refuses what it does not declare, after it has done it."""

    capabilities: frozenset[str] = frozenset()

    async def claim(self, **call: Any) -> Any:
        return self._refused(call["lease_seconds"], await super().claim(**call))

    async def claim_ready(self, **call: Any) -> Any:
        asked = call["lease_seconds"] or call.pop("key")
        return self._refused(asked, await super().claim_ready(**call))

    async def renew(self, **call: Any) -> Any:
        raise AdapterDisabled("there are no leases")

    async def create_epic(self, **call: Any) -> Any:
        return self._refused(call.pop("key"), await super().create_epic(**call))

    async def create_child(self, **call: Any) -> Any:
        return self._refused(call.pop("key"), await super().create_child(**call))

    async def sync(self, **call: Any) -> Any:
        return self._refused(True, await super().sync(**call))

    def _refused(self, asked: Any, result: Any) -> Any:
        if asked:
            raise AdapterDisabled("it does not offer this")
        return result


@known_bad(caught_by="beads.capability.leases")
class LeasesThenRefuses(RefusesTooLate):
    """Refuses a lease that it does not declare, after it has given it."""


@known_bad(caught_by="beads.capability.keys")
class KeysThenRefuses(RefusesTooLate):
    """Refuses a key that it does not declare, after it has written."""

    async def claim_ready(self, **call: Any) -> Any:
        raise AdapterDisabled("there are no keys")


@known_bad(caught_by="beads.capability.sync")
class SyncsThenRefuses(RefusesTooLate):
    """Refuses to sync, which it does not declare, after it has written the file."""
