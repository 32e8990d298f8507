"""Clauses of beads: hostile names and values are refused with nothing written, or kept exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AgentboxError, InvalidInput, NotFound
from agentbox_contracts.suites._beads_common import epic_of, own_task
from agentbox_contracts.suites._beads_sync import new_id, records_of, write_records
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.wire import encode

__all__ = ["GarbageClauses"]

NAMES = (
    "' OR 1=1 --",
    "Robert'); DROP TABLE bead;--",
    "%",
    "a_b%c",
    "ü\u202eabc",
    "a\nb\r\nc\td",
    "\x01\x1b[31m\x7f",
    " two  spaces ",
    "{}",
    "../../etc/passwd",
    "/",
    "e\u0301 \u00e9",
    "\u200b\ufeff\uffff\U0010ffff",
    "NULL",
    "$(id) `id` ${HOME}",
    "🜁" * 50,
)


def deep(levels: int) -> dict[str, Any]:
    """An object with so many objects inside each other."""
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"d": found}
    return found


REFUSED: tuple[dict[str, Any], ...] = (
    {"title": ""},
    {"title": "x" * 501},
    {"title": "x" * 10_000_000},
    {"title": "nul\0"},
    {"title": "\ud800"},
    {"title": 7},
    {"title": None},
    {"title": b"x"},
    {"description": "x" * 65_537},
    {"priority": -1},
    {"priority": 10},
    {"priority": "high"},
    {"priority": 1.5},
    {"tags": ("",)},
    {"tags": ("nul\0",)},
    {"tags": "abc"},
    {"tags": ("x",) * 101},
    {"metadata": {"n": float("nan")}},
    {"metadata": {"n": float("-inf")}},
    {"metadata": {"n": object()}},
    {"metadata": {"n": "\udfff"}},
    {"metadata": {"n\0": 1}},
    {"metadata": {1: "x"}},
    {"metadata": {"big": "x" * 2_000_000}},
    {"metadata": deep(200)},
    {"metadata": []},
    {"metadata": {"agentbox": 1}},
    {"actor": ""},
    {"actor": "x" * 201},
    {"key": ""},
    {"key": "x" * 201},
    {"colour": "red"},
)

EXTREMES: tuple[dict[str, Any], ...] = (
    {"title": "x" * 500},
    {"title": "🜁" * 500},
    {"description": "ü\n" * 32_768},
    {"priority": 0},
    {"priority": 9},
    {"tags": tuple(f"{n}" * 33 for n in range(100, 200))},
    {"metadata": deep(64)},
    {"metadata": {"big": "x" * 1_000_000}},
    {"metadata": {"n": [0, -1, 2**53, 2**63 - 1, -(2**63), 0.1, 1e308, 5e-324, -1.5e-7, True, None, "", [], {}]}},
    {"metadata": {"n": [1 << 64, -(1 << 80)]}},
    {"metadata": {"": "", "a.b": 1, "a": {"b": 2}, "$ref": "#", "__proto__": {"x": 1}}},
    {"actor": "x" * 200},
)


class GarbageClauses:
    """What nobody should send, and somebody will."""

    @clause("beads.garbage.refused")
    async def test_bad_input_is_refused_and_nothing_is_written(self, adapter: Beads) -> None:
        """What the contract does not allow is InvalidInput, which names the call, and nothing is written."""
        epic = await adapter.create_epic(title="Ship it")
        for bad in REFUSED:
            with pytest.raises(InvalidInput) as caught:
                await adapter.create_child(parent_id=epic.id, **{"title": "x", **bad})
            named = (caught.value.slot, caught.value.method, caught.value.code)
            assert named == ("beads", "create_child", "invalid_input")
        for lease in (0, -1, float("nan"), float("inf"), 1e12, "soon"):
            with pytest.raises(InvalidInput):
                await adapter.claim(epic.id, actor="ada", lease_seconds=lease)  # type: ignore[arg-type]

        assert (await adapter.children(epic.id)).items == []
        assert await adapter.show(epic.id) == epic

    @clause("beads.garbage.names-kept")
    async def test_hostile_names_are_names(self, adapter: Beads) -> None:
        """A hostile name is a name: titles, tags, actors, metadata and reasons come back exactly."""
        for name in NAMES:
            task = await own_task(adapter, title=name, description=name, tags=(name,), metadata={name: name})
            await adapter.claim(task.id, actor=name)
            await adapter.close(task.id, reason=name)
            shown = await adapter.show(task.id)

            assert (shown.title, shown.description, shown.tags) == (name, name, (name,))
            assert (shown.metadata, shown.holder, shown.closed_by, shown.reason) == ({name: name}, name, name, name)

    @clause("beads.garbage.names-apart")
    async def test_names_that_look_alike_are_apart(self, adapter: Beads) -> None:
        """Actors are compared exactly: one that looks like another is another."""
        for actor, other in (("ada", "Ada"), ("ada", "ada "), ("\u00e9", "e\u0301"), ("a", "\u0430"), ("_", "%")):
            task = await own_task(adapter)
            await adapter.claim(task.id, actor=actor)

            with pytest.raises(AgentboxError):
                await adapter.claim(task.id, actor=other)

    @clause("beads.garbage.extremes-kept")
    async def test_the_most_that_is_allowed_is_kept_exactly(self, adapter: Beads) -> None:
        """The most that is allowed comes back exactly."""
        for fields in EXTREMES:
            task = await own_task(adapter, **fields)
            shown = await adapter.show(task.id)
            kept = {name: getattr(shown, {"actor": "created_by"}.get(name, name)) for name in fields}

            assert kept == fields
            assert encode(kept) == encode(fields), "a number changed its type"

    @clause("beads.garbage.ids-not-found")
    async def test_hostile_ids_find_nothing(self, adapter: Beads) -> None:
        """A hostile id finds nothing: NotFound, or InvalidInput, and never another bead."""
        task = await own_task(adapter)
        almost = (f"{task.id} ", task.id.upper(), f"{task.id}.", f"{epic_of(task)}.01", f"{epic_of(task)}.%")
        for bead_id in (*NAMES, *almost, "", "\0", "x" * 121, "\ud800"):
            for call in (
                partial(adapter.show, bead_id),
                partial(adapter.close, bead_id),
                partial(adapter.create_child, parent_id=bead_id, title="x"),
                partial(adapter.add_dependency, task.id, blocker_id=bead_id),
            ):
                with pytest.raises((NotFound, InvalidInput)):
                    await call()

        assert await adapter.show(task.id) == task

    @clause("beads.garbage.file-refused", needs=("sync",))
    async def test_a_file_of_nonsense_is_refused(self, adapter: Beads, tmp_path: Path) -> None:
        """A file of nonsense, cut off or of wrong types, is InvalidInput, and nothing is written."""
        file = tmp_path / "beads.jsonl"
        good = new_id()
        for bad in (*nonsense(), *({"id": new_id(), "title": "x", **bad} for bad in WRONG)):
            write_records(file, {"id": good, "title": "good"}, *([bad] if isinstance(bad, dict) else []))
            file.write_bytes(before := file.read_bytes() + (b"\n" + bad if isinstance(bad, bytes) else b""))

            with pytest.raises(InvalidInput):
                await adapter.sync(str(file))
            assert file.read_bytes() == before
            with pytest.raises(NotFound):
                await adapter.show(good)

    @clause("beads.garbage.file-circles", needs=("sync",))
    async def test_a_file_brings_no_circles(self, adapter: Beads, tmp_path: Path) -> None:
        """A file in which beads wait for each other brings no circle into the store, and says so."""
        ids = [new_id() for _ in range(3)]
        links = [(ids[n], ids[(n + 1) % 3], "blocks") for n in range(3)]
        parent, child, itself = new_id(), new_id(), new_id()
        links += [(child, parent, "parent-child"), (child, parent, "blocks"), (itself, itself, "parent-child")]
        file = tmp_path / "beads.jsonl"
        write_records(file, *(linked(bead_id, links) for bead_id in (*ids, parent, child, itself)))
        report = await adapter.sync(str(file))
        conflicting = {conflict.id for conflict in report.conflicts}

        assert conflicting >= {child, itself}
        assert conflicting & set(ids)
        edges = {bead_id: (await adapter.show(bead_id)).depends_on for bead_id in ids}
        assert sum(map(len, edges.values())) == 2
        assert (await adapter.show(child)).depends_on == ()
        assert records_of(file).keys() >= {*ids, parent, child, itself}


WRONG: tuple[dict[str, Any], ...] = (
    {"id": 7},
    {"id": ""},
    {"id": "x" * 121},
    {"title": ""},
    {"title": "x" * 501},
    {"title": "nul\0"},
    {"title": ["x"]},
    {"description": 1},
    {"description": "x" * 65_537},
    {"status": 3},
    {"priority": "high"},
    {"priority": -1},
    {"priority": 10**30},
    {"labels": "abc"},
    {"labels": [1]},
    {"labels": [""]},
    {"dependencies": [1]},
    {"dependencies": [{"type": "blocks"}]},
    {"metadata": []},
    {"metadata": {"agentbox": 1}},
    {"metadata": {"agentbox": {"uid": 7}}},
    {"metadata": {"agentbox": {"uid": "x"}}},
    {"metadata": {"agentbox": {"fence": -1}}},
    {"metadata": {"agentbox": {"fence": 1 << 63}}},
    {"metadata": {"agentbox": {"fence": "1"}}},
    {"metadata": {"agentbox": {"outcome": "perhaps"}}, "status": "closed"},
    {"metadata": deep(200)},
    {"created_at": "yesterday"},
    {"created_at": 7},
    {"created_at": "0001-01-01T00:00:00+23:00"},
    {"updated_at": "9999-12-31T23:59:59-23:00"},
    {"status": "closed", "closed_at": "2026-01-02"},
    {"status": "in_progress", "assignee": 7},
    {"status": "in_progress", "assignee": "x" * 201},
)


def nonsense() -> tuple[bytes, ...]:
    """Lines that are no records."""
    return (
        b"x" * 1_000_000,
        b"\0" * 1000,
        b'{"id": "bd-cut", "title": "cut of',
        b"{" * 100_000,
        b"[" * 100_000,
        bytes(range(256)).replace(b"\n", b"") * 4000,
        b'"just text"',
        b"1e999",
        b"null",
    )


def linked(bead_id: str, links: list[tuple[str, str, str]]) -> dict[str, Any]:
    """A record with those of *links* that begin at it."""
    own = [{"issue_id": start, "depends_on_id": end, "type": kind} for start, end, kind in links if start == bead_id]
    return {"id": bead_id, "title": "in a circle", "dependencies": own}
