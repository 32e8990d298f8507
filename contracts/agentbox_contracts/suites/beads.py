"""The promises of the beads port, clause by clause."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import (
    AlreadyClaimed,
    Conflict,
    InvalidInput,
    NotFound,
    StaleClaim,
)
from agentbox_contracts.suites.lifecycle import LifecycleSuite, OpenAdapter

LEASE = 0.05


async def expired(adapter: Beads, bead: Bead, *, actor: str = "ada") -> Bead:
    """*bead* claimed by *actor* under a lease that has run out."""
    held = await adapter.claim(bead.id, actor=actor, lease_seconds=LEASE)
    # The clock is the store's: asking is the only way to know.
    while bead.id not in [ready.id for ready in await adapter.get_ready(limit=1000)]:  # noqa: ASYNC110
        await asyncio.sleep(LEASE / 5)
    return held


class BeadsSuite(LifecycleSuite):
    """Every clause runs against every adapter of the slot."""

    slot = "beads"

    async def any_read(self, adapter: Beads) -> Any:
        return await adapter.show("bd-none")

    # create, show, children

    async def test_an_epic_is_shown_as_it_was_created(self, adapter: Beads) -> None:
        metadata = {"n": 1, "deep": {"list": [1.5, None, True, "ü"]}}
        epic = await adapter.create_epic(
            title="Ship it ✓", description="all of it", priority=0, tags=("a", "b"), metadata=metadata, actor="ada"
        )

        assert await adapter.show(epic.id) == epic
        assert (epic.title, epic.description, epic.priority) == ("Ship it ✓", "all of it", 0)
        assert (epic.tags, epic.metadata, epic.created_by) == (("a", "b"), metadata, "ada")
        assert (epic.kind, epic.status, epic.fence, epic.holder) == ("epic", "open", 0, None)
        assert epic.created_at.tzinfo is not None

    async def test_ids_are_short_and_children_are_numbered_in_order(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        children = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(3)]
        grandchild = await adapter.create_child(parent_id=children[0].id, title="piece")

        assert epic.id.startswith("bd-")
        assert len(epic.id) >= 7
        assert [child.id for child in children] == [f"{epic.id}.{n}" for n in (1, 2, 3)]
        assert grandchild.id == f"{epic.id}.1.1"
        assert len({bead.uid for bead in (epic, *children)}) == 4

    async def test_children_come_in_pages(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        made = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(12)]
        seen: list[Bead] = []
        after = None
        while True:
            page = await adapter.children(epic.id, limit=5, after=after)
            seen += page.items
            if (after := page.next) is None:
                break

        assert [bead.id for bead in seen] == [bead.id for bead in made]

    async def test_what_is_not_there_is_not_found(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        for call in (
            adapter.show("bd-none"),
            adapter.children("bd-none"),
            adapter.create_child(parent_id="bd-none", title="orphan"),
            adapter.claim("bd-none", actor="ada"),
            adapter.close("bd-none"),
            adapter.release("bd-none"),
            adapter.renew("bd-none", lease_seconds=1),
            adapter.add_dependency(epic.id, blocker_id="bd-none"),
            adapter.add_dependency("bd-none", blocker_id=epic.id),
        ):
            with pytest.raises(NotFound) as caught:
                await call
            assert (caught.value.resource, caught.value.id) == ("bead", "bd-none")

    async def test_a_closed_parent_takes_no_children(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.close(epic.id)

        with pytest.raises(Conflict):
            await adapter.create_child(parent_id=epic.id, title="late")
        assert (await adapter.children(epic.id)).items == []

    # claim

    async def test_claimed_by_another_is_refused(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.claim(epic.id, actor="ada")

        with pytest.raises(AlreadyClaimed) as caught:
            await adapter.claim(epic.id, actor="grace")
        assert caught.value.actor == "ada"

    async def test_claiming_again_changes_nothing(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        held = await adapter.claim(epic.id, actor="ada", lease_seconds=60)

        assert await adapter.claim(epic.id, actor="ada", lease_seconds=600) == held

    async def test_of_simultaneous_claims_exactly_one_wins(self, open_adapter: OpenAdapter, manifest: str) -> None:
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            for _ in range(10):
                epic = await one.create_epic(title="Ship it")
                claims = [(one, other)[n % 2].claim(epic.id, actor=f"actor {n}") for n in range(8)]
                results = await asyncio.gather(*claims, return_exceptions=True)

                winners = [result for result in results if isinstance(result, Bead)]
                assert [bead.fence for bead in winners] == [1]
                assert sum(isinstance(result, AlreadyClaimed) for result in results) == 7
                assert (await other.show(epic.id)).holder == winners[0].holder

    async def test_the_fence_rises_with_each_new_holder(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        fences = []
        for actor in ("ada", "grace", "ada"):
            fences.append((await adapter.claim(epic.id, actor=actor)).fence)
            await adapter.release(epic.id, actor=actor)

        assert fences == [1, 2, 3]

    async def test_after_an_expired_lease_the_fence_rises_for_the_same_actor_too(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await expired(adapter, epic)

        assert (await adapter.claim(epic.id, actor="ada", lease_seconds=60)).fence == 2

    async def test_a_stale_holder_can_write_nothing(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        stale = await expired(adapter, epic)
        held = await adapter.claim(epic.id, actor="grace", lease_seconds=60)
        for call in (
            adapter.renew(epic.id, lease_seconds=60, fence=stale.fence),
            adapter.release(epic.id, actor="ada", fence=stale.fence),
            adapter.close(epic.id, actor="ada", fence=stale.fence),
        ):
            with pytest.raises(StaleClaim):
                await call

        assert await adapter.show(epic.id) == held

    async def test_a_stale_holder_cannot_close_what_its_successor_closed(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        stale = await expired(adapter, epic)
        held = await adapter.claim(epic.id, actor="grace", lease_seconds=60)
        await adapter.close(epic.id, fence=held.fence)

        with pytest.raises(StaleClaim):
            await adapter.close(epic.id, fence=stale.fence)

    async def test_under_a_lease_the_fence_is_needed(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.claim(epic.id, actor="ada", lease_seconds=60)
        for call in (
            adapter.renew(epic.id, lease_seconds=60),
            adapter.release(epic.id, actor="ada"),
            adapter.close(epic.id, actor="ada"),
        ):
            with pytest.raises(StaleClaim):
                await call

    async def test_renewing_extends_the_lease(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        held = await expired(adapter, epic)
        renewed = await adapter.renew(epic.id, lease_seconds=3600, fence=held.fence)

        assert held.lease_expires_at is not None
        assert renewed.lease_expires_at is not None
        assert renewed.lease_expires_at > held.lease_expires_at
        assert epic.id not in [bead.id for bead in await adapter.get_ready()]
        with pytest.raises(AlreadyClaimed):
            await adapter.claim(epic.id, actor="grace")

    async def test_only_a_claim_can_be_renewed(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")

        with pytest.raises(Conflict):
            await adapter.renew(epic.id, lease_seconds=60)

    async def test_releasing_opens_it_again(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.claim(epic.id, actor="ada")
        with pytest.raises(AlreadyClaimed):
            await adapter.release(epic.id, actor="grace")
        released = await adapter.release(epic.id, actor="ada")

        assert (released.status, released.holder) == ("open", None)
        assert await adapter.release(epic.id) == released

    # close

    async def test_closing_records_outcome_reason_and_who(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.claim(epic.id, actor="ada")
        closed = await adapter.close(epic.id, outcome="failed", reason="no time", actor="ada")

        assert (closed.status, closed.outcome, closed.reason) == ("closed", "failed", "no time")
        assert closed.closed_by == "ada"
        assert closed.closed_at is not None
        assert await adapter.show(epic.id) == closed

    async def test_closing_again_changes_nothing_and_another_outcome_is_refused(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        closed = await adapter.close(epic.id)

        assert await adapter.close(epic.id, reason="again") == closed
        with pytest.raises(Conflict):
            await adapter.close(epic.id, outcome="failed")
        with pytest.raises(Conflict):
            await adapter.claim(epic.id, actor="ada")
        with pytest.raises(Conflict):
            await adapter.release(epic.id)

    async def test_only_the_holder_closes_a_claimed_bead(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        await adapter.claim(epic.id, actor="ada")

        with pytest.raises(AlreadyClaimed):
            await adapter.close(epic.id, actor="grace")

    async def test_an_epic_waits_for_its_children(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        children = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(2)]
        with pytest.raises(Conflict):
            await adapter.close(epic.id)
        assert epic.id not in [bead.id for bead in await adapter.get_ready()]
        for child in children:
            await adapter.close(child.id, outcome="cancelled")

        assert [bead.id for bead in await adapter.get_ready()] == [epic.id]
        assert (await adapter.close(epic.id)).outcome == "done"

    # dependencies and ready

    async def test_a_blocked_bead_is_not_ready_and_cannot_be_claimed(self, adapter: Beads) -> None:
        first, second = await adapter.create_epic(title="first"), await adapter.create_epic(title="second")
        blocked = await adapter.add_dependency(second.id, blocker_id=first.id)

        assert (blocked.depends_on, blocked.is_blocked) == ((first.id,), True)
        assert [bead.id for bead in await adapter.get_ready()] == [first.id]
        with pytest.raises(Conflict):
            await adapter.claim(second.id, actor="ada")

    @pytest.mark.parametrize("outcome", ["failed", "cancelled", "needs_human"])
    async def test_only_done_unblocks(self, adapter: Beads, outcome: Any) -> None:
        first, second = await adapter.create_epic(title="first"), await adapter.create_epic(title="second")
        third = await adapter.create_epic(title="third")
        await adapter.add_dependency(second.id, blocker_id=first.id)
        await adapter.add_dependency(second.id, blocker_id=third.id)
        await adapter.close(third.id, outcome="done")
        await adapter.close(first.id, outcome=outcome)

        assert await adapter.get_ready() == []
        assert (await adapter.show(second.id)).open_blockers == 1

    async def test_done_unblocks_and_a_done_blocker_blocks_nothing(self, adapter: Beads) -> None:
        first, second = await adapter.create_epic(title="first"), await adapter.create_epic(title="second")
        await adapter.add_dependency(second.id, blocker_id=first.id)
        again = await adapter.add_dependency(second.id, blocker_id=first.id)
        assert again.open_blockers == 1
        await adapter.close(first.id)
        third = await adapter.create_epic(title="third")

        assert (await adapter.claim(second.id, actor="ada")).fence == 1
        assert not (await adapter.add_dependency(third.id, blocker_id=first.id)).is_blocked

    async def test_nothing_waits_in_a_circle(self, adapter: Beads) -> None:
        beads = [await adapter.create_epic(title=f"number {n}") for n in range(4)]
        for this, following in itertools.pairwise(beads):
            await adapter.add_dependency(following.id, blocker_id=this.id)
        child = await adapter.create_child(parent_id=beads[0].id, title="part")

        with pytest.raises(InvalidInput):
            await adapter.add_dependency(beads[0].id, blocker_id=beads[0].id)
        for blocker in (beads[0], beads[3]):
            with pytest.raises(Conflict):
                await adapter.add_dependency(child.id, blocker_id=blocker.id)
        with pytest.raises(Conflict):
            await adapter.add_dependency(beads[0].id, blocker_id=beads[3].id)
        assert (await adapter.show(beads[0].id)).depends_on == ()

    async def test_ready_work_comes_by_priority_then_age(self, adapter: Beads) -> None:
        made = [await adapter.create_epic(title=f"number {n}", priority=p) for n, p in enumerate((2, 1, 0, 1, 0))]
        expected = [made[n].id for n in (2, 4, 1, 3, 0)]

        assert [bead.id for bead in await adapter.get_ready()] == expected
        assert [bead.id for bead in await adapter.get_ready(limit=2)] == expected[:2]

    async def test_ready_work_of_one_parent(self, adapter: Beads) -> None:
        epic, other = await adapter.create_epic(title="epic"), await adapter.create_epic(title="other")
        child = await adapter.create_child(parent_id=epic.id, title="part")

        assert [bead.id for bead in await adapter.get_ready(parent_id=epic.id)] == [child.id]
        assert await adapter.get_ready(parent_id=other.id) == []

    async def test_an_expired_lease_is_ready_again_in_its_old_place(self, adapter: Beads) -> None:
        urgent, later = await adapter.create_epic(title="u", priority=0), await adapter.create_epic(title="l")
        await expired(adapter, urgent)

        assert [bead.id for bead in await adapter.get_ready()] == [urgent.id, later.id]

    async def test_claim_ready_takes_each_bead_once(self, open_adapter: OpenAdapter, manifest: str) -> None:
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            made = {(await one.create_epic(title=f"number {n}")).id for n in range(20)}
            claims = [(one, other)[n % 2].claim_ready(actor=f"actor {n}") for n in range(24)]
            taken = [bead.id for bead in await asyncio.gather(*claims) if bead is not None]

        assert sorted(taken) == sorted(made)

    # keys

    async def test_the_same_key_is_one_write(self, open_adapter: OpenAdapter, manifest: str) -> None:
        async with open_adapter(manifest) as adapter:
            epics = await asyncio.gather(*(adapter.create_epic(title="Ship it", key="k1") for _ in range(5)))
            children = [await adapter.create_child(parent_id=epics[0].id, title="part", key="k2") for _ in range(2)]
            taken = [await adapter.claim_ready(actor="ada", key="k3") for _ in range(2)]
        async with open_adapter(manifest) as adapter:
            assert await adapter.create_epic(title="Ship it", key="k1") == epics[0]
            assert len((await adapter.children(epics[0].id)).items) == 1

        assert all(epic == epics[0] for epic in epics)
        assert children[0] == children[1]
        assert taken[0] == taken[1]
        assert taken[0] is not None

    async def test_a_key_for_another_call_is_refused(self, adapter: Beads) -> None:
        await adapter.create_epic(title="Ship it", key="k")

        with pytest.raises(Conflict):
            await adapter.create_epic(title="Ship another", key="k")
        with pytest.raises(Conflict):
            await adapter.claim_ready(actor="ada", key="k")

    async def test_a_key_does_not_remember_that_nothing_was_ready(self, adapter: Beads) -> None:
        assert await adapter.claim_ready(actor="ada", key="k") is None
        epic = await adapter.create_epic(title="Ship it")

        claimed = await adapter.claim_ready(actor="ada", key="k")
        assert claimed is not None
        assert claimed.id == epic.id

    # cancel, durability, bad input

    async def test_a_cancelled_create_leaves_all_or_nothing(self, adapter: Beads) -> None:
        epic = await adapter.create_epic(title="Ship it")
        for step in range(20):
            task = asyncio.create_task(adapter.create_child(parent_id=epic.id, title=f"part {step}"))
            for _ in range(step % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for _ in range(100):  # what was begun may still end
            before = (await adapter.children(epic.id)).items
            count = (await adapter.show(epic.id)).open_children
            if before == (await adapter.children(epic.id)).items:
                break
            await asyncio.sleep(0.05)

        assert count == len(before)

    async def test_what_was_acknowledged_is_there_after_reopening(
        self, open_adapter: OpenAdapter, manifest: str
    ) -> None:
        async with open_adapter(manifest) as adapter:
            made = await asyncio.gather(*(adapter.create_epic(title=f"number {n}") for n in range(50)))
            closed = await asyncio.gather(*(adapter.close(bead.id) for bead in made[:25]))
        async with open_adapter(manifest) as adapter:
            for bead in (*closed, *made[25:]):
                assert await adapter.show(bead.id) == bead

    @pytest.mark.parametrize(
        "bad",
        [
            {"title": ""},
            {"title": "x" * 10_000_000},
            {"title": "nul\0"},
            {"title": "\ud800"},
            {"title": 7},
            {"title": None},
            {"title": "x", "priority": -1},
            {"title": "x", "priority": "high"},
            {"title": "x", "priority": 1.5},
            {"title": "x", "tags": ("",)},
            {"title": "x", "tags": "abc"},
            {"title": "x", "metadata": {"n": float("nan")}},
            {"title": "x", "metadata": {"n": object()}},
            {"title": "x", "metadata": {1: "x"}},
            {"title": "x", "metadata": {"big": "x" * 2_000_000}},
            {"title": "x", "metadata": {"agentbox": 1}},
            {"title": "x", "actor": ""},
            {"title": "x", "key": ""},
            {"title": "x", "colour": "red"},
            {},
        ],
        ids=lambda bad: str(bad)[:40],
    )
    async def test_bad_input_is_refused_and_nothing_is_written(self, adapter: Beads, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput) as caught:
            await adapter.create_epic(**bad)

        assert (caught.value.slot, caught.value.method, caught.value.code) == ("beads", "create_epic", "invalid_input")
        assert await adapter.get_ready() == []

    async def test_deep_metadata_is_refused(self, adapter: Beads) -> None:
        deep: dict[str, Any] = {}
        for _ in range(200):
            deep = {"d": deep}

        with pytest.raises(InvalidInput):
            await adapter.create_epic(title="x", metadata=deep)

    @pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf"), 1e12, "soon"])
    async def test_a_lease_is_a_sensible_number_of_seconds(self, adapter: Beads, lease: Any) -> None:
        epic = await adapter.create_epic(title="Ship it")

        with pytest.raises(InvalidInput):
            await adapter.claim(epic.id, actor="ada", lease_seconds=lease)
        assert (await adapter.show(epic.id)).status == "open"

    @pytest.mark.parametrize("name", ["' OR 1=1 --", "%", "ü\u202e", "a\nb", "{}", "../x", "🜁" * 50])
    async def test_hostile_names_are_names(self, adapter: Beads, name: str) -> None:
        epic = await adapter.create_epic(title=name, tags=(name,), metadata={name: name})
        await adapter.claim(epic.id, actor=name)

        shown = await adapter.show(epic.id)
        assert (shown.title, shown.tags, shown.metadata, shown.holder) == (name, (name,), {name: name}, name)
        with pytest.raises(NotFound):
            await adapter.show(name)

    # sync

    async def _filled(self, adapter: Beads) -> list[Bead]:
        epic = await adapter.create_epic(title="Ship it", tags=("x",), metadata={"n": 1}, actor="ada")
        first, second = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(2)]
        await adapter.add_dependency(second.id, blocker_id=first.id)
        await adapter.claim(first.id, actor="ada", lease_seconds=3600)
        return [await adapter.show(bead.id) for bead in (epic, first, second)]

    async def test_sync_carries_beads_whole_to_another_store(
        self, open_adapter: OpenAdapter, manifest: str, adapter: Beads, tmp_path: Path
    ) -> None:
        beads = await self._filled(adapter)
        file = tmp_path / "beads.jsonl"
        assert (await adapter.sync(str(file))).exported == 3
        other = self.elsewhere(open_adapter, manifest, tmp_path)
        async with other as store:
            report = await store.sync(str(file))

            assert (report.created, report.conflicts) == (3, ())
            assert [await store.show(bead.id) for bead in beads] == beads
            assert (await store.sync(str(file))).unchanged == 3
            child = await store.create_child(parent_id=beads[0].id, title="new here")
            await store.sync(str(file))
        assert (await adapter.sync(str(file))).created == 1
        assert await adapter.show(child.id) == child

    async def test_sync_again_changes_nothing(self, adapter: Beads, tmp_path: Path) -> None:
        await self._filled(adapter)
        file = tmp_path / "beads.jsonl"
        await adapter.sync(str(file))
        before = file.read_bytes()
        report = await adapter.sync(str(file))

        assert (report.created, report.updated, report.exported, report.unchanged) == (0, 0, 0, 3)
        assert file.read_bytes() == before

    async def test_sync_reads_the_bd_tools_own_records(self, adapter: Beads, tmp_path: Path) -> None:
        file = tmp_path / "beads.jsonl"
        records: list[dict[str, Any]] = [
            {"id": "bd-a1", "title": "Epic", "status": "open", "priority": 2, "issue_type": "epic"},
            {"id": "bd-a2", "title": "Bug", "status": "in_progress", "assignee": "ada", "issue_type": "bug"},
            {"id": "bd-a3", "title": "Old", "status": "closed", "close_reason": "ok", "labels": ["x"]},
        ]
        for record in records:
            record |= {"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05.678901234Z"}
        records[0]["dependencies"] = [{"issue_id": "bd-a1", "depends_on_id": "bd-a2", "type": "blocks"}]
        file.write_bytes(b"\n".join(msgspec.json.encode(record) for record in records))
        report = await adapter.sync(str(file), direction="import")

        assert (report.created, report.conflicts) == (3, ())
        assert (await adapter.show("bd-a1")).depends_on == ("bd-a2",)
        assert (await adapter.show("bd-a2")).holder == "ada"
        assert (await adapter.show("bd-a3")).outcome == "done"
        assert (await adapter.sync(str(file), direction="import")).unchanged == 3

    async def test_sync_reports_an_id_that_means_another_bead(self, adapter: Beads, tmp_path: Path) -> None:
        epic = await adapter.create_epic(title="ours")
        file = tmp_path / "beads.jsonl"
        theirs = {"id": epic.id, "title": "theirs", "created_at": "2026-01-02T03:04:05Z"}
        file.write_bytes(msgspec.json.encode(theirs))
        report = await adapter.sync(str(file))

        assert [conflict.id for conflict in report.conflicts] == [epic.id]
        assert (await adapter.show(epic.id)).title == "ours"
        assert b"theirs" in file.read_bytes()

    async def test_sync_deletes_by_tombstone_and_never_by_absence(self, adapter: Beads, tmp_path: Path) -> None:
        kept, gone = await adapter.create_epic(title="kept"), await adapter.create_epic(title="gone")
        file = tmp_path / "beads.jsonl"
        tombstone = {"id": gone.id, "status": "tombstone", "metadata": {"agentbox": {"uid": gone.uid}}}
        file.write_bytes(msgspec.json.encode(tombstone))
        report = await adapter.sync(str(file))

        assert (report.deleted, report.exported) == (1, 1)
        assert await adapter.show(kept.id) == kept
        with pytest.raises(NotFound):
            await adapter.show(gone.id)
        assert (await adapter.sync(str(file))).deleted == 0

    @pytest.mark.parametrize("line", [b"nonsense", b"[1]", b'{"id":1}', b'{"title":"x"}', b"\xff\xfe", b"<<<<<<< ours"])
    async def test_sync_names_the_line_that_is_no_bead(self, adapter: Beads, tmp_path: Path, line: bytes) -> None:
        file = tmp_path / "beads.jsonl"
        good = {"id": "bd-good", "title": "good", "created_at": "2026-01-02T03:04:05Z"}
        file.write_bytes(msgspec.json.encode(good) + b"\n" + line)

        with pytest.raises(InvalidInput, match=r"beads\.jsonl:2: "):
            await adapter.sync(str(file))
        assert await adapter.get_ready() == []
        with pytest.raises(NotFound):
            await adapter.sync(str(tmp_path / "none.jsonl"), direction="import")

    def elsewhere(self, open_adapter: OpenAdapter, manifest: str, tmp_path: Path) -> Any:
        """The same adapter on a store of its own. An author whose manifest names the store overrides this."""
        raise AssertionError(f"{type(self).__name__} needs `elsewhere`, which opens a second, empty store")
