"""Merge the records of a file with a store, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import attrs

from agentbox.adapters.beads._jsonl import Record, bead_of_record, record_of
from agentbox.adapters.beads._tables import COLUMNS, bead_of, micros
from agentbox.adapters.beads._work import waits
from agentbox_contracts.beads import Bead, SyncConflict, SyncReport
from agentbox_contracts.wire import decode, encode

__all__ = ["Merged", "merge"]

# What waits for what is derived from the merged beads: cheaper to count anew than to follow every change.
_RECOUNT = (
    "UPDATE bead SET open_blockers = (SELECT count(*) FROM dependency JOIN bead AS other"
    " ON other.id = dependency.blocker WHERE dependency.bead = bead.id AND other.outcome IS NOT 'done')"
    " WHERE open_blockers > 0 OR id IN (SELECT bead FROM dependency)",
    "UPDATE bead SET open_children = (SELECT count(*) FROM bead AS child"
    " WHERE child.parent = bead.id AND child.status <> 'closed'), last_child = max(last_child,"
    " (SELECT coalesce(max(number), 0) FROM bead AS child WHERE child.parent = bead.id))"
    " WHERE open_children > 0 OR id IN (SELECT parent FROM bead)",
    "UPDATE bead SET ready = (status = 'open' AND open_blockers = 0 AND open_children = 0)",
)


@attrs.frozen
class Merged:
    """What to report, and what the file should hold."""

    report: SyncReport
    records: list[Record]


def merge(db: sqlite3.Connection, records: list[Record], direction: str) -> Merged:
    """Bring *records* into the store unless only exporting; give what the file should hold then."""
    merger = _Merger(db)
    if direction != "export":
        merger.take(records)
    held = merger.export(records)
    exported = 0 if direction == "import" else merger.exported
    report = SyncReport(
        created=merger.created,
        updated=merger.updated,
        deleted=merger.deleted,
        unchanged=merger.unchanged,
        exported=exported,
        conflicts=tuple(SyncConflict(id=bead_id, reason=reason) for bead_id, reason in merger.conflicts.items()),
    )
    return Merged(report, held)


class _Merger:
    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.created = self.updated = self.deleted = self.unchanged = self.exported = 0
        self.conflicts: dict[str, str] = {}

    def take(self, records: list[Record]) -> None:
        """Into the store: tombstones first, then beads, parents before children, then dependencies."""
        graves = [record for record in records if record.get("status") == "tombstone"]
        beads = [bead_of_record(record) for record in records if record.get("status") != "tombstone"]
        for record in graves:
            self._bury(record)
        touched = [bead for bead in _parents_first(beads) if self._accept(bead)]
        for bead in touched:
            self._link(bead)
        if touched or self.deleted:
            for statement in _RECOUNT:
                self.db.execute(statement)

    def _bury(self, record: Record) -> None:
        uid, bead_id = _uid(record), record["id"]
        found = self._one("uid = ?", uid) if uid else self._one("id = ?", bead_id)
        if found is None:
            self.unchanged += 1
            if uid:
                self._remember(uid, record)
        elif self.db.execute("SELECT 1 FROM bead WHERE parent = ? LIMIT 1", (found.id,)).fetchone():
            self.conflicts[bead_id] = "it is deleted in the file and has children here"
        else:
            for dependent in self._dependents(found.id):
                self._set_dependencies(dependent, [other for other in dependent.depends_on if other != found.id])
            self.db.execute("DELETE FROM dependency WHERE bead = ?", (found.id,))
            self.db.execute("DELETE FROM bead WHERE id = ?", (found.id,))
            self._remember(found.uid, record)
            self.deleted += 1

    def _accept(self, bead: Bead) -> bool:
        """Create or update; False when the store stays as it is."""
        same = self._one("uid = ?", bead.uid)
        if same is None:
            return self._create(bead)
        if same.id != bead.id:
            self.conflicts[bead.id] = f"the same bead is {same.id} here"
            return False
        theirs, ours = record_of(bead), record_of(same)
        if theirs == ours or not _is_newer(theirs, ours, bead, same):
            self.unchanged += 1
            return False
        self._store(attrs.evolve(bead, fence=max(bead.fence, same.fence), parent_id=same.parent_id), same)
        self.updated += 1
        return True

    def _create(self, bead: Bead) -> bool:
        if self.db.execute("SELECT 1 FROM tombstone WHERE uid = ?", (bead.uid,)).fetchone():
            self.unchanged += 1
            return False
        if self._one("id = ?", bead.id) is not None:
            self.conflicts[bead.id] = "the id means another bead here"
            return False
        if bead.parent_id is not None and self._one("id = ?", bead.parent_id) is None:
            self.conflicts[bead.id] = f"its parent {bead.parent_id} is not here"
            return False
        self._store(bead, None)
        self.created += 1
        return True

    def _store(self, bead: Bead, same: Bead | None) -> None:
        number = bead.id.rpartition(".")[2]
        row: dict[str, Any] = {
            "id": bead.id,
            "uid": bead.uid,
            "kind": bead.kind,
            "title": bead.title,
            "description": bead.description,
            "status": bead.status,
            "priority": bead.priority,
            "parent": bead.parent_id,
            "tags": encode(bead.tags).decode(),
            "metadata": encode(bead.metadata).decode(),
            "depends_on": encode(same.depends_on if same else []).decode(),
            "holder": bead.holder,
            "fence": bead.fence,
            "claimed_at": micros(bead.claimed_at) if bead.claimed_at else None,
            "lease_until": micros(bead.lease_expires_at) if bead.lease_expires_at else None,
            "outcome": bead.outcome,
            "reason": bead.reason,
            "created_by": bead.created_by,
            "created_at": micros(bead.created_at),
            "updated_at": micros(bead.updated_at),
            "closed_by": bead.closed_by,
            "closed_at": micros(bead.closed_at) if bead.closed_at else None,
            "number": int(number) if bead.parent_id and number.isdigit() else 0,
            "ready": 0,
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        updates = ", ".join(f"{name} = excluded.{name}" for name in row if name not in ("id", "uid"))
        self.db.execute(
            f"INSERT INTO bead ({names}) VALUES ({marks}) ON CONFLICT (uid) DO UPDATE SET {updates}",
            tuple(row.values()),
        )

    def _link(self, bead: Bead) -> None:
        """Give the bead the dependencies of its record; those that cannot be are conflicts."""
        current = self._one("id = ?", bead.id)
        assert current is not None
        kept: list[str] = []
        self.db.execute("DELETE FROM dependency WHERE bead = ?", (bead.id,))
        for blocker in bead.depends_on:
            if blocker == bead.id or waits(self.db, bead.id, blocker):
                self.conflicts[bead.id] = f"it would wait for {blocker}, which waits for it"
            elif self._one("id = ?", blocker) is None:
                self.conflicts[bead.id] = f"it waits for {blocker}, which is not here"
            else:
                kept.append(blocker)
                self.db.execute("INSERT INTO dependency VALUES (?, ?)", (bead.id, blocker))
        self.db.execute("UPDATE bead SET depends_on = ? WHERE id = ?", (encode(kept).decode(), bead.id))

    def export(self, records: list[Record]) -> list[Record]:
        """What the file should hold: ours, and whatever of the file's the store does not know or may not replace."""
        held = {record["id"]: record for record in records}
        for record in self._ours():
            there = held.get(record["id"])
            if there is None or (there != record and self._may_replace(there, record)):
                self.exported += 1
                held[record["id"]] = record
        return list(held.values())

    def _may_replace(self, there: Record, ours: Record) -> bool:
        if there.get("status") == "tombstone" or ours["status"] == "tombstone":
            return there.get("status") != "tombstone"
        theirs, mine = bead_of_record(there), bead_of_record(ours)
        if theirs.uid != mine.uid:
            self.conflicts[mine.id] = "the id means another bead in the file"
            return False
        if mine.id in self.conflicts:
            return False
        return record_of(theirs) != ours and not _is_newer(there, ours, theirs, mine)

    def _ours(self) -> Iterator[Record]:
        for row in self.db.execute(f"SELECT {COLUMNS} FROM bead ORDER BY id"):
            yield record_of(bead_of(row))
        for (text,) in self.db.execute("SELECT record FROM tombstone"):
            yield decode(text, dict[str, Any])

    def _one(self, where: str, value: str) -> Bead | None:
        row = self.db.execute(f"SELECT {COLUMNS} FROM bead WHERE {where}", (value,)).fetchone()
        return bead_of(row) if row else None

    def _dependents(self, bead_id: str) -> list[Bead]:
        rows = self.db.execute(
            f"SELECT {COLUMNS} FROM bead WHERE id IN (SELECT bead FROM dependency WHERE blocker = ?)", (bead_id,)
        )
        return [bead_of(row) for row in rows]

    def _set_dependencies(self, bead: Bead, others: list[str]) -> None:
        self.db.execute("DELETE FROM dependency WHERE bead = ?", (bead.id,))
        self.db.executemany("INSERT INTO dependency VALUES (?, ?)", [(bead.id, other) for other in others])
        self.db.execute("UPDATE bead SET depends_on = ? WHERE id = ?", (encode(others).decode(), bead.id))

    def _remember(self, uid: str, record: Record) -> None:
        self.db.execute("INSERT OR IGNORE INTO tombstone VALUES (?, ?)", (uid, encode(record).decode()))


def _uid(record: Record) -> str | None:
    metadata = record.get("metadata")
    ours = metadata.get("agentbox") if isinstance(metadata, dict) else None
    uid = ours.get("uid") if isinstance(ours, dict) else None
    return uid if isinstance(uid, str) else None


def _is_newer(theirs: Record, ours: Record, bead: Bead, same: Bead) -> bool:
    """The later change wins; of two at the same moment the greater record, so that both sides choose alike."""
    if bead.updated_at != same.updated_at:
        return bead.updated_at > same.updated_at
    return encode(theirs) > encode(ours)


def _parents_first(beads: list[Bead]) -> list[Bead]:
    by_id = {bead.id: bead for bead in beads}

    def depth(bead: Bead) -> int:
        steps, parent = 0, bead.parent_id
        while parent in by_id and steps <= len(by_id):
            steps, parent = steps + 1, by_id[parent].parent_id
        return steps

    return sorted(beads, key=depth)
