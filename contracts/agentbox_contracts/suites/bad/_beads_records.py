"""Known-bad beads: what is shown is not what was recorded."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.errors import Conflict, NotFound
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import Remembers, touched


@known_bad(caught_by="beads.create.shown")
class SortsTags(Base):
    """Sorts tags, and drops those that come twice."""

    async def create_epic(self, *, tags: tuple[str, ...], **rest: Any) -> Any:
        return await super().create_epic(tags=tuple(sorted(set(tags))), **rest)


@known_bad(caught_by="beads.create.shown")
class ForgetsCreators(Base):
    """Does not record who created a bead."""

    async def create_epic(self, *, actor: str | None, **rest: Any) -> Any:
        return await super().create_epic(actor=None, **rest)


@known_bad(caught_by="beads.create.returned")
class ReturnsMore(Base):
    """Returns a child that is not the one it stored."""

    async def create_child(self, **call: Any) -> Any:
        return touched(await super().create_child(**call))


@known_bad(caught_by="beads.create.fresh")
class BornHeld(Base):
    """Gives a new epic to its creator, or to somebody."""

    async def create_epic(self, **call: Any) -> Any:
        return attrs.evolve(await super().create_epic(**call), holder="somebody")


@known_bad(caught_by="beads.create.times")
class NaiveTimes(Base):
    """Tells times without their zone."""

    async def close(self, **call: Any) -> Any:
        closed = await super().close(**call)
        return attrs.evolve(closed, closed_at=closed.closed_at.replace(tzinfo=None))


@known_bad(caught_by="beads.id.speakable")
class ShoutsIds(Base):
    """Makes ids in capital letters."""

    async def create_epic(self, **call: Any) -> Any:
        epic = await super().create_epic(**call)
        return attrs.evolve(epic, id=epic.id.upper())


@known_bad(caught_by="beads.id.uid")
class SharedUids(Base):
    """Gives children the uid of the first."""

    async def create_child(self, **call: Any) -> Any:
        child = await super().create_child(**call)
        page = await super().children(call["parent_id"], limit=1)
        return attrs.evolve(child, uid=page.items[0].uid)


@known_bad(caught_by="beads.id.uid")
class RandomUids(Base):
    """Makes uids that are not in the order of time."""

    async def create_child(self, **call: Any) -> Any:
        return attrs.evolve(await super().create_child(**call), uid=str(uuid4()))


@known_bad(caught_by="beads.child.numbered")
class NumbersFromTwo(Base):
    """Numbers children from 2."""

    async def create_child(self, **call: Any) -> Any:
        child = await super().create_child(**call)
        stem, _, number = child.id.rpartition(".")
        return attrs.evolve(child, id=f"{stem}.{int(number) + 1}")


@known_bad(caught_by="beads.child.shown")
class ForgetsParents(Base):
    """Shows children without their parent."""

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), parent_id=None)


@known_bad(caught_by="beads.child.counted")
class CountsClosedChildren(Base):
    """Counts all children, also the closed ones."""

    async def show(self, bead_id: str) -> Any:
        page = await super().children(bead_id, limit=1000)
        return attrs.evolve(await super().show(bead_id), open_children=len(page.items))


@known_bad(caught_by="beads.child.depth")
class DeeperAndDeeper(Base):
    """Takes children at any depth."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        try:
            return await super().create_child(parent_id=parent_id, **rest)
        except Conflict:
            parent = await super().show(parent_id)
            return attrs.evolve(parent, id=f"{parent_id}.1", parent_id=parent_id)


@known_bad(caught_by="beads.child.depth")
class CountsRefusedChildren(Remembers):
    """Counts a child that it refused."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        try:
            return await super().create_child(parent_id=parent_id, **rest)
        except Conflict:
            self.memory[parent_id] = 1
            raise

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, open_children=bead.open_children + self.memory.get(bead_id, 0))


@known_bad(caught_by="beads.child.closed-parent")
class AdoptsLate(Base):
    """Takes children for a closed epic."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        try:
            return await super().create_child(parent_id=parent_id, **rest)
        except Conflict:
            parent = await super().show(parent_id)
            return attrs.evolve(parent, id=f"{parent_id}.1", parent_id=parent_id, status="open")


@known_bad(caught_by="beads.child.closed-parent")
class ListsRefusedChildren(Remembers):
    """Lists a child that it refused."""

    async def create_child(self, *, parent_id: str, **rest: Any) -> Any:
        try:
            return await super().create_child(parent_id=parent_id, **rest)
        except Conflict:
            self.memory[parent_id] = True
            raise

    async def children(self, bead_id: str, **rest: Any) -> Any:
        page = await super().children(bead_id, **rest)
        if bead_id in self.memory:
            page.items.append(await super().show(bead_id))
        return page


@known_bad(caught_by="beads.children.pages")
class EndlessPages(Base):
    """Gives all children at once, however few were asked for."""

    async def children(self, bead_id: str, *, limit: int, after: str | None) -> Any:
        return await super().children(bead_id, limit=1000, after=after)


@known_bad(caught_by="beads.children.pages")
class PagesBackwards(Base):
    """Turns each page around."""

    async def children(self, bead_id: str, **rest: Any) -> Any:
        page = await super().children(bead_id, **rest)
        return Page(items=page.items[::-1], next=page.next)


@known_bad(caught_by="beads.children.direct")
class HidesClosedChildren(Base):
    """Lists only children that are not closed."""

    async def children(self, bead_id: str, **rest: Any) -> Any:
        page = await super().children(bead_id, **rest)
        return Page(items=[child for child in page.items if child.status != "closed"], next=page.next)


@known_bad(caught_by="beads.missing.not-found")
class NothingHasNoChildren(Base):
    """Says of a bead that is not there that it has no children."""

    async def children(self, bead_id: str, **rest: Any) -> Any:
        try:
            return await super().children(bead_id, **rest)
        except NotFound:
            return Page(items=[])


@known_bad(caught_by="beads.missing.not-found")
class ForgetsWhatIsMissing(Base):
    """Does not say which bead it is that is not there."""

    async def close(self, **call: Any) -> Any:
        try:
            return await super().close(**call)
        except NotFound:
            raise NotFound("there is no such bead") from None


@known_bad(caught_by="beads.missing.renewed")
class RenewsNothing(Base):
    """Renews the claim of a bead that is not there."""

    async def renew(self, **call: Any) -> Any:
        try:
            return await super().renew(**call)
        except NotFound:
            return await super().create_epic(title="made up")


@known_bad(caught_by="beads.missing.nothing-ready")
class UnknownMeansAll(Base):
    """Takes a parent that it does not know for no parent."""

    async def get_ready(self, *, parent_id: str | None, limit: int) -> Any:
        try:
            await super().show(parent_id)
        except NotFound:
            parent_id = None
        return await super().get_ready(parent_id=parent_id, limit=limit)


@known_bad(caught_by="beads.init.again")
class InitTouchesAll(Remembers):
    """Changes beads when it is told to init again."""

    async def init(self) -> None:
        await super().init()
        self.memory["inits"] = self.memory.get("inits", 0) + 1

    async def show(self, bead_id: str) -> Any:
        return attrs.evolve(await super().show(bead_id), reason=str(self.memory.get("inits", 0)))
