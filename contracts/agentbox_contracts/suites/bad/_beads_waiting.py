"""Known-bad beads: work that waits for nothing, or for ever, and is offered at the wrong time."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.errors import Conflict, InvalidInput
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import OnPaper, Remembers, Touches, touched


class OffersMore(Base):
    """Offers, besides what is ready, children that are `wanted`."""

    async def get_ready(self, *, parent_id: str | None, limit: int) -> Any:
        ready = await super().get_ready(parent_id=parent_id, limit=limit)
        children = (await super().children(parent_id)).items
        return [child for child in children if child in ready or await self.wanted(child)]

    async def wanted(self, child: Any) -> bool:
        return False

    async def blockers(self, child: Any) -> list[Any]:
        return [await super(OffersMore, self).show(blocker) for blocker in child.depends_on]


class OffersLess(Base):
    """Offers only what is `wanted`."""

    async def get_ready(self, **call: Any) -> Any:
        return [bead for bead in await super().get_ready(**call) if self.wanted(bead)]

    def wanted(self, bead: Any) -> bool:
        return not bead.depends_on


class Ties(Base):
    """Lets beads wait that must not."""

    async def add_dependency(self, *, bead_id: str, blocker_id: str) -> Any:
        try:
            return await super().add_dependency(bead_id, blocker_id=blocker_id)
        except (Conflict, InvalidInput):
            bead = await super().show(bead_id)
            return attrs.evolve(bead, depends_on=(*bead.depends_on, blocker_id))


@known_bad(caught_by="beads.deps.recorded")
class SortsDependencies(Base):
    """Sorts what a bead waits for."""

    async def add_dependency(self, **call: Any) -> Any:
        await super().add_dependency(**call)
        return await self.show(call["bead_id"])

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, depends_on=tuple(sorted(bead.depends_on)))


@known_bad(caught_by="beads.deps.recorded")
class WaitsOnPaper(Remembers, OnPaper, on="add_dependency"):
    """Tells that a bead waits, and writes nothing."""

    def told(self, bead: Any, **call: Any) -> Any:
        blockers = self.memory.setdefault(bead.id, [])
        blockers.append(call["blocker_id"])
        return attrs.evolve(bead, depends_on=tuple(blockers), open_blockers=len(blockers))


@known_bad(caught_by="beads.deps.again")
class CountsTwice(Base):
    """Counts a dependency that was there already."""

    async def add_dependency(self, *, bead_id: str, blocker_id: str) -> Any:
        before = await super().show(bead_id)
        bead = await super().add_dependency(bead_id, blocker_id=blocker_id)
        return attrs.evolve(bead, open_blockers=2) if blocker_id in before.depends_on else bead


@known_bad(caught_by="beads.deps.again")
class CountsTwiceInSecret(Remembers):
    """Changes a bead that waits already, and does not tell."""

    async def add_dependency(self, *, bead_id: str, blocker_id: str) -> Any:
        self.memory[bead_id] = blocker_id in (await super().show(bead_id)).depends_on
        return await super().add_dependency(bead_id, blocker_id=blocker_id)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return touched(bead) if self.memory.get(bead_id) else bead


@known_bad(caught_by="beads.deps.done-unblocks")
class OneIsEnough(OffersMore):
    """Offers a bead when one of those it waits for is done."""

    async def wanted(self, child: Any) -> bool:
        return any(blocker.outcome == "done" for blocker in await self.blockers(child))


@known_bad(caught_by="beads.deps.done-unblocks")
class NeverUnblocks(OffersLess):
    """Never offers what once waited for another."""


@known_bad(caught_by="beads.deps.done-unblocks")
class CountsTheDone(Base):
    """Counts what is done among what a bead waits for."""

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, open_blockers=len(bead.depends_on))


@known_bad(caught_by="beads.deps.only-done-unblocks")
class CountsOnlyTheOpen(Base):
    """Counts what failed as if it were done."""

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        blockers = [await super(CountsOnlyTheOpen, self).show(blocker) for blocker in bead.depends_on]
        return attrs.evolve(bead, open_blockers=sum(blocker.status != "closed" for blocker in blockers))


@known_bad(caught_by="beads.deps.only-done-unblocks")
class AnyEndUnblocks(OffersMore):
    """Offers a bead when all that it waits for has ended, well or not."""

    async def wanted(self, child: Any) -> bool:
        blockers = await self.blockers(child)
        return bool(blockers) and all(blocker.status == "closed" for blocker in blockers)


@known_bad(caught_by="beads.deps.done-blocker")
class BlocksForTheDone(Base):
    """Counts what was done before among what a bead waits for."""

    async def add_dependency(self, **call: Any) -> Any:
        return attrs.evolve(await super().add_dependency(**call), open_blockers=1)


@known_bad(caught_by="beads.deps.done-blocker")
class HidesTheTied(OffersLess):
    """Does not offer what has a dependency, be it done."""


@known_bad(caught_by="beads.deps.itself-refused")
class WaitsForItself(Ties):
    """Lets a bead wait for itself."""


@known_bad(caught_by="beads.deps.itself-refused")
class TouchesItself(Touches, on="add_dependency"):
    """Refuses to let a bead wait for itself, and has changed it all the same."""


@known_bad(caught_by="beads.deps.circle-refused")
class WaitsInCircles(Ties):
    """Lets beads wait for each other."""


@known_bad(caught_by="beads.deps.circle-refused")
class TouchesTheCircle(Touches, on="add_dependency"):
    """Refuses a circle, and has changed the bead all the same."""


@known_bad(caught_by="beads.deps.own-epic-refused")
class WaitsForItsEpic(Ties):
    """Lets a child wait for its own epic."""


@known_bad(caught_by="beads.deps.own-epic-refused")
class TouchesTheChild(Touches, on="add_dependency"):
    """Refuses to let a child wait for its own epic, and has changed it all the same."""


@known_bad(caught_by="beads.deps.closed-refused")
class TiesTheClosed(Ties):
    """Lets a closed bead wait."""


@known_bad(caught_by="beads.deps.closed-refused")
class TouchesTheDone(Touches, on="add_dependency"):
    """Refuses to let a closed bead wait, and has changed it all the same."""


@known_bad(caught_by="beads.ready.order")
class IgnoresPriority(Base):
    """Offers work by age alone."""

    async def get_ready(self, **call: Any) -> Any:
        return sorted(await super().get_ready(**call), key=lambda bead: bead.created_at)


@known_bad(caught_by="beads.ready.limit")
class OffersEverything(Base):
    """Offers all that is ready, however little was asked for."""

    async def get_ready(self, *, parent_id: str | None, limit: int) -> Any:
        return await super().get_ready(parent_id=parent_id, limit=1000)


@known_bad(caught_by="beads.ready.whole")
class OffersWithoutTags(Base):
    """Offers beads without their tags."""

    async def get_ready(self, **call: Any) -> Any:
        return [attrs.evolve(bead, tags=()) for bead in await super().get_ready(**call)]


@known_bad(caught_by="beads.ready.parent")
class OffersAllBelow(Base):
    """Offers grandchildren too."""

    async def get_ready(self, *, parent_id: str | None, limit: int) -> Any:
        ready = await super().get_ready(parent_id=parent_id, limit=limit)
        for child in (await super().children(parent_id)).items:
            ready += await super().get_ready(parent_id=child.id, limit=limit)
        return ready


@known_bad(caught_by="beads.ready.whole-store")
class OffersOnlyEpics(Base):
    """Offers no children unless asked for those of one parent."""

    async def get_ready(self, *, parent_id: str | None, limit: int) -> Any:
        ready = await super().get_ready(parent_id=parent_id, limit=limit)
        return [bead for bead in ready if bead.parent_id == parent_id]


@known_bad(caught_by="beads.ready.held-is-not")
class OffersTheHeld(OffersMore):
    """Offers what another holds."""

    async def wanted(self, child: Any) -> bool:
        return bool(child.status == "claimed")


@known_bad(caught_by="beads.ready.blocked-is-not")
class ReadyIgnoresBlockers(OffersMore):
    """Offers what waits for another."""

    async def wanted(self, child: Any) -> bool:
        return bool(child.is_blocked)


@known_bad(caught_by="beads.ready.epic")
class ReadyIgnoresChildren(OffersMore):
    """Offers a bead whose children are open."""

    async def wanted(self, child: Any) -> bool:
        return bool(child.open_children)
