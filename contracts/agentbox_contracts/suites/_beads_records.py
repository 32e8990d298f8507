"""Clauses of beads: what is recorded is what is shown."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import Conflict, NotFound
from agentbox_contracts.suites._beads_common import own_task
from agentbox_contracts.suites.clauses import clause

__all__ = ["RecordClauses"]

FIELDS: dict[str, Any] = {
    "title": "Ship it ✓",
    "description": "all of it,\nin two lines",
    "priority": 0,
    "tags": ("z", "a", "z"),
    "metadata": {"n": 1, "deep": {"list": [1.5, None, True, "ü"]}},
}


def given(bead: Bead) -> dict[str, Any]:
    """Those fields of *bead* that its creator chose."""
    return {name: getattr(bead, name) for name in FIELDS} | {"actor": bead.created_by}


class RecordClauses:
    """create, show, children, init."""

    @clause("beads.create.shown")
    async def test_an_epic_is_shown_as_it_was_created(self, adapter: Beads) -> None:
        """An epic is shown as it was created."""
        epic = await adapter.create_epic(**FIELDS, actor="ada")

        assert given(await adapter.show(epic.id)) == FIELDS | {"actor": "ada"}

    @clause("beads.create.returned")
    async def test_what_a_create_returns_is_what_is_stored(self, adapter: Beads) -> None:
        """What a create returns is the bead as it is stored."""
        epic = await adapter.create_epic(**FIELDS)
        other = await adapter.create_epic(**FIELDS, actor="ada")
        child = await adapter.create_child(parent_id=other.id, **FIELDS)

        assert [await adapter.show(bead.id) for bead in (epic, child)] == [epic, child]

    @clause("beads.create.fresh")
    async def test_a_new_bead_is_open_and_nobodys(self, adapter: Beads) -> None:
        """A new bead is open, held by nobody, and waits for nothing."""
        epic = await adapter.create_epic(title="Ship it")

        known = {name: getattr(epic, name) for name in ("id", "uid", "created_at", "updated_at")}
        assert epic == Bead(kind="epic", title="Ship it", **known)

    @clause("beads.create.times")
    async def test_times_are_in_utc(self, adapter: Beads) -> None:
        """Times are aware and in UTC."""
        task = await own_task(adapter)
        held = await adapter.claim(task.id, actor="ada")
        closed = await adapter.close(task.id)
        moments = (task.created_at, task.updated_at, held.claimed_at, closed.closed_at)

        assert [moment and moment.utcoffset() for moment in moments] == [timedelta(0)] * 4

    @clause("beads.id.speakable")
    async def test_ids_are_short_and_speakable(self, adapter: Beads) -> None:
        """The id of an epic is `bd-` and a few small letters and digits, four at least."""
        ids = [(await adapter.create_epic(title="Ship it")).id for _ in range(5)]

        assert [found for found in ids if not re.fullmatch(r"bd-[a-z0-9]{4,12}", found)] == []

    @clause("beads.id.uid")
    async def test_uids_are_uuids_of_version_7(self, adapter: Beads) -> None:
        """Each bead has a `uid` of its own, a UUID of version 7."""
        epic = await adapter.create_epic(title="Ship it")
        children = [await adapter.create_child(parent_id=epic.id, title="part") for _ in range(4)]
        uids = {bead.uid for bead in (epic, *children)}

        assert len(uids) == 5
        assert {UUID(uid).version for uid in uids} == {7}

    @clause("beads.child.numbered")
    async def test_children_are_numbered_in_order(self, adapter: Beads) -> None:
        """The id of a child is its parent's id and its number, in the order of creation."""
        epic = await adapter.create_epic(title="Ship it")
        children = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(3)]
        grandchild = await adapter.create_child(parent_id=children[0].id, title="piece")

        assert [bead.id for bead in (*children, grandchild)] == [f"{epic.id}.{n}" for n in ("1", "2", "3", "1.1")]

    @clause("beads.child.shown")
    async def test_a_child_is_shown_as_it_was_created(self, adapter: Beads) -> None:
        """A child is a task, shown as it was created, under its parent."""
        epic = await adapter.create_epic(title="Ship it")
        child = await adapter.create_child(parent_id=epic.id, **FIELDS, actor="ada")
        shown = await adapter.show(child.id)

        assert (shown.kind, shown.parent_id, given(shown)) == ("task", epic.id, FIELDS | {"actor": "ada"})

    @clause("beads.child.counted")
    async def test_a_parent_counts_its_open_children(self, adapter: Beads) -> None:
        """A bead counts those of its children that are not closed."""
        epic = await adapter.create_epic(title="Ship it")
        children = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(3)]
        await adapter.claim(children[0].id, actor="ada")
        counts = [(await adapter.show(epic.id)).open_children]
        for child in children:
            await adapter.close(child.id, outcome="failed")
            counts.append((await adapter.show(epic.id)).open_children)

        assert counts == [3, 2, 1, 0]

    @clause("beads.child.depth")
    async def test_eight_levels_are_enough(self, adapter: Beads) -> None:
        """A bead eight levels down takes no children."""
        bead = await adapter.create_epic(title="level 0")
        for level in range(8):
            bead = await adapter.create_child(parent_id=bead.id, title=f"level {level + 1}")

        with pytest.raises(Conflict):
            await adapter.create_child(parent_id=bead.id, title="level 9")
        assert (await adapter.show(bead.id)).open_children == 0

    @clause("beads.child.closed-parent")
    async def test_a_closed_parent_takes_no_children(self, adapter: Beads) -> None:
        """A closed bead takes no children."""
        epic = await adapter.create_epic(title="Ship it")
        await adapter.close(epic.id)

        with pytest.raises(Conflict):
            await adapter.create_child(parent_id=epic.id, title="late")
        assert (await adapter.children(epic.id)).items == []

    @clause("beads.children.pages")
    async def test_children_come_in_pages(self, adapter: Beads) -> None:
        """The pages of children hold each child once, in the order of their numbers, none longer than asked."""
        epic = await adapter.create_epic(title="Ship it")
        made = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(12)]
        pages = [await adapter.children(epic.id, limit=5)]
        while pages[-1].next is not None and len(pages) < 5:
            pages.append(await adapter.children(epic.id, limit=5, after=pages[-1].next))

        assert [len(page.items) for page in pages] == [5, 5, 2]
        assert [bead.id for page in pages for bead in page.items] == [bead.id for bead in made]

    @clause("beads.children.direct")
    async def test_children_are_the_direct_ones_open_or_not(self, adapter: Beads) -> None:
        """The children of a bead are its direct ones, whole, whether open or closed."""
        epic = await adapter.create_epic(title="Ship it")
        first, second = [await adapter.create_child(parent_id=epic.id, **FIELDS) for _ in range(2)]
        await adapter.create_child(parent_id=first.id, title="piece")
        await adapter.close(second.id)

        assert (await adapter.children(epic.id)).items == [await adapter.show(bead.id) for bead in (first, second)]

    @clause("beads.missing.not-found")
    async def test_what_is_not_there_is_not_found(self, adapter: Beads) -> None:
        """Whatever is done with a bead that is not there is NotFound, with its id."""
        epic = await adapter.create_epic(title="Ship it")
        for call in (
            partial(adapter.show, "bd-none"),
            partial(adapter.children, "bd-none"),
            partial(adapter.create_child, parent_id="bd-none", title="orphan"),
            partial(adapter.claim, "bd-none", actor="ada"),
            partial(adapter.close, "bd-none"),
            partial(adapter.release, "bd-none"),
            partial(adapter.add_dependency, epic.id, blocker_id="bd-none"),
            partial(adapter.add_dependency, "bd-none", blocker_id=epic.id),
        ):
            with pytest.raises(NotFound) as caught:
                await call()
            assert (caught.value.resource, caught.value.id) == ("bead", "bd-none")

    @clause("beads.missing.renewed", needs=("leases",))
    async def test_what_is_not_there_is_not_renewed(self, adapter: Beads) -> None:
        """Renewing the claim of a bead that is not there is NotFound."""
        with pytest.raises(NotFound):
            await adapter.renew("bd-none", lease_seconds=1)

    @clause("beads.missing.nothing-ready")
    async def test_under_what_is_not_there_nothing_is_ready(self, adapter: Beads) -> None:
        """Under a bead that does not exist nothing is ready."""
        await adapter.create_epic(title="Ship it")

        assert await adapter.get_ready(parent_id="bd-none") == []

    @clause("beads.init.again")
    async def test_init_again_changes_nothing(self, adapter: Beads) -> None:
        """To init again changes nothing."""
        task = await own_task(adapter, **FIELDS)
        await adapter.claim(task.id, actor="ada")
        before = [await adapter.show(bead_id) for bead_id in (task.id, task.id.rpartition(".")[0])]
        await adapter.init()

        assert [await adapter.show(bead.id) for bead in before] == before
