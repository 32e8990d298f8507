"""Merge the records of a file with a store in SQLite, in the transaction that is open."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from agentbox.adapters._time import micros
from agentbox.adapters.beads import _facts
from agentbox.adapters.beads._jsonl import Record
from agentbox.adapters.beads._outbox import Tell
from agentbox.adapters.beads._plan import Plan, plan
from agentbox.adapters.beads._rules import own_number
from agentbox.adapters.beads._tables import COLUMNS, bead_of
from agentbox_contracts.beads import Bead
from agentbox_contracts.wire import decode, encode

__all__ = ["merge"]

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


def merge(db: sqlite3.Connection, records: list[Record], direction: str, now: datetime, tell: Tell | None) -> Plan:
    """Bring *records* into the store unless only exporting; give what was done and what the file should hold then."""
    beads = (bead_of(row) for row in db.execute(f"SELECT {COLUMNS} FROM bead"))
    tombstones = {uid: decode(text, dict[str, Any]) for uid, text in db.execute("SELECT uid, record FROM tombstone")}
    found = plan(beads, tombstones, records, direction)
    if not found.is_empty:
        _apply(db, found)
        if tell is not None:
            for bead_id, fact in _facts.merged(found):
                tell(db, micros(now), bead_id, fact)
    return found


def _apply(db: sqlite3.Connection, found: Plan) -> None:
    for bead_id in found.deleted:
        db.execute("DELETE FROM dependency WHERE bead = ?1 OR blocker = ?1", (bead_id,))
        db.execute("DELETE FROM bead WHERE id = ?", (bead_id,))
    for bead in found.stored:
        _store(db, bead)
    for bead_id, blockers in found.linked.items():
        db.execute("DELETE FROM dependency WHERE bead = ?", (bead_id,))
        db.executemany("INSERT INTO dependency VALUES (?, ?)", [(bead_id, blocker) for blocker in blockers])
        db.execute("UPDATE bead SET depends_on = ? WHERE id = ?", (encode(blockers).decode(), bead_id))
    graves = [(uid, encode(record).decode()) for uid, record in found.graves.items()]
    db.executemany("INSERT OR IGNORE INTO tombstone VALUES (?, ?)", graves)
    for statement in _RECOUNT:
        db.execute(statement)


def _store(db: sqlite3.Connection, bead: Bead) -> None:
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
        "depends_on": "[]",
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
        "number": own_number(bead),
        "ready": 0,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    updates = ", ".join(f"{name} = excluded.{name}" for name in row if name not in ("id", "uid"))
    db.execute(
        f"INSERT INTO bead ({names}) VALUES ({marks}) ON CONFLICT (uid) DO UPDATE SET {updates}", tuple(row.values())
    )
