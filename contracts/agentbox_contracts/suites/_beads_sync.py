"""Clauses of beads: exchange with a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import msgspec
import pytest

from agentbox_contracts.beads import Bead, Beads, SyncReport
from agentbox_contracts.errors import InvalidInput, NotFound
from agentbox_contracts.suites._beads_common import own_task
from agentbox_contracts.suites.clauses import clause

__all__ = ["SyncClauses", "new_id", "records_of", "write_records"]

EARLIER, LATER = "2020-01-02T03:04:05Z", "2120-01-02T03:04:05Z"


def new_id() -> str:
    """An id of another tool, which no bead of this store has."""
    return f"bd-{uuid4().hex}"


def write_records(file: Path, *records: Mapping[str, Any]) -> None:
    """Write *records*, a line each. One without a creation time gets one."""
    lines = [msgspec.json.encode({"created_at": EARLIER, **record}) for record in records]
    file.write_bytes(b"\n".join(lines))


def records_of(file: Path) -> dict[str, dict[str, Any]]:
    """The records of a file by id."""
    lines = [line for line in file.read_bytes().splitlines() if line]
    found = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
    return {record["id"]: record for record in found}


async def filled(adapter: Beads) -> list[Bead]:
    """An epic and two tasks that say all that a bead can say."""
    epic = await adapter.create_epic(title="Ship it", tags=("x", "b"), metadata={"n": 1}, actor="ada")
    first, second, third = [await adapter.create_child(parent_id=epic.id, title=f"part {n}") for n in range(3)]
    await adapter.add_dependency(second.id, blocker_id=first.id)
    await adapter.claim(first.id, actor="ada")
    await adapter.close(third.id, outcome="failed", reason="no time", actor="grace")
    return [await adapter.show(bead.id) for bead in (epic, first, second, third)]


class SyncClauses:
    """sync."""

    @clause("beads.sync.exported", needs=("sync",))
    async def test_an_export_holds_the_fields_of_the_bd_tool(self, adapter: Beads, tmp_path: Path) -> None:
        """An export writes every bead, a line each, with the fields of the `bd` tool."""
        epic, first, second, third = await filled(adapter)
        report = await adapter.sync(str(tmp_path / "beads.jsonl"), direction="export")
        found = records_of(tmp_path / "beads.jsonl")

        def fields(bead: Bead, *names: str) -> list[Any]:
            return [found.get(bead.id, {}).get(name) for name in names]

        assert report.exported == len(found)
        shown = fields(epic, "title", "status", "priority", "issue_type", "labels")
        assert shown == ["Ship it", "open", 1, "epic", ["x", "b"]]
        assert fields(first, "issue_type", "status", "assignee") == ["task", "in_progress", "ada"]
        assert fields(third, "status", "close_reason") == ["closed", "no time"]
        (links,) = fields(second, "dependencies")
        ends = {(link["issue_id"], link["depends_on_id"], link["type"]) for link in links or ()}
        assert ends == {(second.id, first.id, "blocks"), (second.id, epic.id, "parent-child")}
        metadata = found.get(epic.id, {}).get("metadata", {})
        assert (metadata.get("n"), metadata.get("agentbox", {}).get("uid")) == (1, epic.uid)

    @clause("beads.sync.whole", needs=("sync",))
    async def test_a_bead_comes_whole_from_another_store(self, adapter: Beads, tmp_path: Path) -> None:
        """What one store exported, another imports whole."""
        beads = await filled(adapter)
        file = tmp_path / "beads.jsonl"
        await adapter.sync(str(file), direction="export")
        prefix = new_id()
        moved = [self._moved(records_of(file)[bead.id], beads[0].id, prefix) for bead in beads]
        write_records(file, *moved)
        report = await adapter.sync(str(file), direction="import")

        assert (report.created, report.conflicts) == (4, ())
        expected = [
            attrs.evolve(
                bead,
                id=record["id"],
                uid=record["metadata"]["agentbox"]["uid"],
                parent_id=bead.parent_id and prefix,
                depends_on=tuple(other.replace(beads[0].id, prefix) for other in bead.depends_on),
            )
            for bead, record in zip(beads, moved, strict=True)
        ]
        assert [await adapter.show(bead.id) for bead in expected] == expected

    def _moved(self, record: dict[str, Any], before: str, after: str) -> dict[str, Any]:
        """*record* as if it came from another store, where the epic *before* is called *after*."""
        text = msgspec.json.encode(record).decode().replace(before, after)
        moved: dict[str, Any] = msgspec.json.decode(text)
        uid = moved["metadata"]["agentbox"]["uid"]
        moved["metadata"]["agentbox"]["uid"] = uid[:-12] + uuid4().hex[:12]
        return moved

    @clause("beads.sync.again", needs=("sync",))
    async def test_sync_again_changes_nothing(self, adapter: Beads, tmp_path: Path) -> None:
        """To sync again changes nothing, in the store nor in the file."""
        beads = await filled(adapter)
        file = tmp_path / "beads.jsonl"
        await adapter.sync(str(file))
        before = file.read_bytes()
        report = await adapter.sync(str(file))

        assert attrs.evolve(report, unchanged=0) == SyncReport()
        assert report.unchanged == len(records_of(file))
        assert file.read_bytes() == before
        assert [await adapter.show(bead.id) for bead in beads] == beads

    @clause("beads.sync.bd-records", needs=("sync",))
    async def test_sync_reads_the_bd_tools_own_records(self, adapter: Beads, tmp_path: Path) -> None:
        """Records that the `bd` tool itself wrote are read, and are the same beads every time."""
        file = tmp_path / "beads.jsonl"
        epic, bug, old = new_id(), new_id(), new_id()
        link = {"issue_id": epic, "depends_on_id": bug, "type": "blocks"}
        write_records(
            file,
            {"id": epic, "title": "Epic", "status": "open", "issue_type": "epic", "dependencies": [link]},
            {"id": bug, "title": "Bug", "status": "in_progress", "assignee": "ada", "issue_type": "bug"},
            {
                "id": old,
                "title": "Old",
                "status": "closed",
                "close_reason": "ok",
                "updated_at": LATER[:-1] + ".123456789Z",
            },
        )
        first = await adapter.sync(str(file), direction="import")
        again = await adapter.sync(str(file), direction="import")

        assert (first.created, first.conflicts, again.unchanged) == (3, (), 3)
        shown = [await adapter.show(bead_id) for bead_id in (epic, bug, old)]
        assert [(bead.kind, bead.status) for bead in shown] == [
            ("epic", "open"),
            ("task", "claimed"),
            ("task", "closed"),
        ]
        assert (shown[0].depends_on, shown[0].open_blockers, shown[1].holder) == ((bug,), 1, "ada")
        assert (shown[2].outcome, shown[2].reason) == ("done", "ok")

    @clause("beads.sync.later-wins", needs=("sync",))
    async def test_the_later_change_wins(self, adapter: Beads, tmp_path: Path) -> None:
        """Of two versions of a bead the one that was changed later wins, in the store and in the file."""
        file = tmp_path / "beads.jsonl"
        newer, older = await adapter.create_epic(title="ours"), await adapter.create_epic(title="ours")
        write_records(
            file,
            {"id": newer.id, "title": "theirs", "updated_at": LATER, "metadata": {"agentbox": {"uid": newer.uid}}},
            {"id": older.id, "title": "theirs", "updated_at": EARLIER, "metadata": {"agentbox": {"uid": older.uid}}},
        )
        report = await adapter.sync(str(file))

        assert report.updated == 1
        assert [(await adapter.show(bead.id)).title for bead in (newer, older)] == ["theirs", "ours"]
        assert [records_of(file)[bead.id]["title"] for bead in (newer, older)] == ["theirs", "ours"]

    @clause("beads.sync.fence-kept", needs=("sync",))
    async def test_an_import_lowers_no_fence(self, adapter: Beads, tmp_path: Path) -> None:
        """A later record from another store lowers no fence."""
        task = await own_task(adapter)
        for _ in range(3):
            await adapter.claim(task.id, actor="ada")
            await adapter.release(task.id)
        ours = {"uid": task.uid, "fence": 1}
        write_records(
            tmp_path / "beads.jsonl",
            {"id": task.id, "title": "theirs", "updated_at": LATER, "metadata": {"agentbox": ours}},
        )
        await adapter.sync(str(tmp_path / "beads.jsonl"), direction="import")

        assert (await adapter.claim(task.id, actor="grace")).fence == 4

    @clause("beads.sync.id-clash", needs=("sync",))
    async def test_sync_reports_an_id_that_means_another_bead(self, adapter: Beads, tmp_path: Path) -> None:
        """An id that means another bead on the other side is a reported conflict, and both stay as they are."""
        epic = await adapter.create_epic(title="ours")
        file = tmp_path / "beads.jsonl"
        write_records(file, {"id": epic.id, "title": "theirs"})
        report = await adapter.sync(str(file))

        assert [conflict.id for conflict in report.conflicts] == [epic.id]
        assert await adapter.show(epic.id) == epic
        assert records_of(file)[epic.id]["title"] == "theirs"

    @clause("beads.sync.tombstone", needs=("sync",))
    async def test_a_tombstone_deletes(self, adapter: Beads, tmp_path: Path) -> None:
        """A tombstone deletes its bead, for good: an old record does not bring it back."""
        gone = await adapter.create_epic(title="gone")
        file = tmp_path / "beads.jsonl"
        ours = {"agentbox": {"uid": gone.uid}}
        write_records(file, {"id": gone.id, "status": "tombstone", "metadata": ours})
        deleted = [(await adapter.sync(str(file), direction="import")).deleted for _ in range(2)]
        write_records(file, {"id": gone.id, "title": "gone", "metadata": ours})
        await adapter.sync(str(file), direction="import")

        assert deleted == [1, 0]
        with pytest.raises(NotFound):
            await adapter.show(gone.id)

    @clause("beads.sync.absence", needs=("sync",))
    async def test_absence_deletes_nothing(self, adapter: Beads, tmp_path: Path) -> None:
        """Nothing is deleted because it is absent, neither from the store nor from the file."""
        ours, theirs = await adapter.create_epic(title="ours"), new_id()
        file = tmp_path / "beads.jsonl"
        write_records(file, {"id": theirs, "title": "theirs"})
        await adapter.sync(str(file), direction="export")

        assert records_of(file).keys() >= {ours.id, theirs}
        write_records(file, {"id": theirs, "title": "theirs"})
        await adapter.sync(str(file))
        assert await self._titles(adapter, ours.id) == "ours"

    async def _titles(self, adapter: Beads, bead_id: str) -> str | None:
        try:
            return (await adapter.show(bead_id)).title
        except NotFound:
            return None

    @clause("beads.sync.direction", needs=("sync",))
    async def test_a_direction_leaves_the_other_side_alone(self, adapter: Beads, tmp_path: Path) -> None:
        """An import leaves the file as it is, an export the store."""
        theirs = new_id()
        file = tmp_path / "beads.jsonl"
        write_records(file, {"id": theirs, "title": "theirs"})
        exported = await adapter.sync(str(file), direction="export")
        with pytest.raises(NotFound):
            await adapter.show(theirs)
        before = file.read_bytes()
        await adapter.create_epic(title="ours")
        imported = await adapter.sync(str(file), direction="import")

        assert (exported.created, imported.created, imported.exported) == (0, 1, 0)
        assert file.read_bytes() == before

    @clause("beads.sync.bad-line", needs=("sync",))
    async def test_sync_names_the_line_that_is_no_bead(self, adapter: Beads, tmp_path: Path) -> None:
        """A line that is no bead is named, and nothing is changed."""
        file = tmp_path / "beads.jsonl"
        for line in (b"nonsense", b"[1]", b'{"id":1}', b'{"title":"x"}', b"\xff\xfe", b"<<<<<<< ours"):
            good = new_id()
            write_records(file, {"id": good, "title": "good"})
            file.write_bytes(before := file.read_bytes() + b"\n" + line)

            with pytest.raises(InvalidInput, match=r"beads\.jsonl:2: "):
                await adapter.sync(str(file))
            assert file.read_bytes() == before
            with pytest.raises(NotFound):
                await adapter.show(good)

    @clause("beads.sync.no-file", needs=("sync",))
    async def test_a_file_to_import_must_be_there(self, adapter: Beads, tmp_path: Path) -> None:
        """A file that should be imported and is not there is NotFound."""
        with pytest.raises(NotFound):
            await adapter.sync(str(tmp_path / "none.jsonl"), direction="import")
