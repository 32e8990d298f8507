"""
What beads promise, as functions of a connection inside a transaction.

Each change is told to *tell* where there is one: the fact is on disk when the change is, and not otherwise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from agentbox.adapters._time import micros
from agentbox.adapters.beads import _facts, _rules
from agentbox.adapters.beads._ids import uuid7
from agentbox.adapters.beads._outbox import Tell
from agentbox.adapters.beads._tables import COLUMNS, bead_of
from agentbox_contracts.beads import Bead
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import Conflict, InvalidInput
from agentbox_contracts.wire import decode, encode

DAY = 86_400_000_000

_SHOW = f"SELECT {COLUMNS} FROM bead WHERE id = ?"

# One statement decides the winner, so two claims cannot both succeed.
CLAIM = f"""
UPDATE bead SET status = 'claimed', holder = ?, fence = fence + 1,
    claimed_at = ?2, updated_at = ?2, lease_until = ?3, ready = 0
WHERE id = ?4 AND open_blockers = 0 AND (status = 'open' OR status = 'claimed' AND lease_until <= ?2)
RETURNING {COLUMNS}
"""
_READY = "ready = 1 AND (status = 'open' OR lease_until <= ?1)"
_ORDER = "ORDER BY priority, created_at, seq"
_EXPIRED = """
status = 'claimed' AND ready = 0 AND open_blockers = 0 AND open_children = 0 AND lease_until IS NOT NULL
AND lease_until <= ?
"""
_FREED = "ready = CASE WHEN status = 'open' AND {0} THEN 1 ELSE ready END"
# From a bead upwards to everything that waits for it: the beads that depend on it, and its parent.
_WAITING = """
WITH RECURSIVE waiting (id) AS (
    SELECT ?
    UNION SELECT dependency.bead FROM dependency JOIN waiting ON dependency.blocker = waiting.id
    UNION SELECT bead.parent FROM bead JOIN waiting ON bead.id = waiting.id WHERE bead.parent IS NOT NULL
)
SELECT 1 FROM waiting WHERE id = ? LIMIT 1
"""


def find(db: sqlite3.Connection, bead_id: str) -> Bead:
    """The bead, or NotFound."""
    row = db.execute(_SHOW, (bead_id,)).fetchone()
    if row is None:
        raise _rules.no_bead(bead_id)
    return bead_of(row)


def create(
    db: sqlite3.Connection, ids: Iterator[str], now: datetime, fields: dict[str, Any], tell: Tell | None
) -> Bead:
    """Insert a bead under the first free id of *ids*."""
    parent = fields.get("parent_id")
    moment = micros(now)
    for bead_id in ids:
        row = db.execute(
            "INSERT INTO bead (id, uid, kind, title, description, status, priority, parent, tags, metadata, depends_on,"
            " created_by, created_at, updated_at, number, ready)"
            " VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, '[]', ?, ?, ?, ?, 1)"
            f" ON CONFLICT (id) DO NOTHING RETURNING {COLUMNS}",
            (
                bead_id,
                uuid7(now),
                "task" if parent else "epic",
                fields["title"],
                fields["description"],
                fields["priority"],
                parent,
                encode(fields["tags"]).decode(),
                encode(fields["metadata"]).decode(),
                fields["actor"],
                moment,
                moment,
                int(bead_id.rpartition(".")[2]) if parent else 0,
            ),
        ).fetchone()
        if row is not None:
            bead = bead_of(row)
            if tell is not None:
                tell(db, moment, bead.id, _facts.created(bead))
            return bead
    raise Conflict("no id is free")


def child_ids(db: sqlite3.Connection, parent_id: str) -> Iterator[str]:
    """Candidates for a child's id; taking the first counts the child in. Raises NotFound or Conflict before that."""
    _rules.check_parent(find(db, parent_id))
    db.execute("UPDATE bead SET open_children = open_children + 1, ready = 0 WHERE id = ?", (parent_id,))
    while True:
        number = db.execute(
            "UPDATE bead SET last_child = last_child + 1 WHERE id = ? RETURNING last_child", (parent_id,)
        ).fetchone()[0]
        yield f"{parent_id}.{number}"


def depend(db: sqlite3.Connection, bead_id: str, blocker_id: str, now: datetime, tell: Tell | None) -> Bead:
    if bead_id == blocker_id:
        raise InvalidInput(f"{bead_id} cannot wait for itself", resource="bead", id=bead_id)
    bead, blocker = find(db, bead_id), find(db, blocker_id)
    if blocker_id in bead.depends_on:
        return bead
    if bead.status == "closed":
        raise Conflict(f"{bead_id} is closed and waits for nothing", resource="bead", id=bead_id)
    if waits(db, bead_id, blocker_id):
        raise Conflict(
            f"{blocker_id} waits for {bead_id} already, so {bead_id} cannot wait for it", resource="bead", id=bead_id
        )
    db.execute("INSERT INTO dependency VALUES (?, ?)", (bead_id, blocker_id))
    added = 0 if blocker.outcome == "done" else 1
    row = db.execute(
        "UPDATE bead SET depends_on = ?, open_blockers = open_blockers + ?2, updated_at = ?,"
        f" ready = CASE WHEN ?2 THEN 0 ELSE ready END WHERE id = ? RETURNING {COLUMNS}",
        (encode([*bead.depends_on, blocker_id]).decode(), added, micros(now), bead_id),
    ).fetchone()
    if tell is not None:
        tell(db, micros(now), bead_id, _facts.depends(bead, blocker_id))
    return bead_of(row)


def waits(db: sqlite3.Connection, bead_id: str, blocker_id: str) -> bool:
    """Whether *blocker_id* waits, over any number of steps, for *bead_id*."""
    return db.execute(_WAITING, (bead_id, blocker_id)).fetchone() is not None


def claim(
    db: sqlite3.Connection, bead_id: str, actor: str, lease: float | None, now: datetime, tell: Tell | None
) -> Bead:
    moment = micros(now)
    row = db.execute(CLAIM, (actor, moment, _until(moment, lease), bead_id)).fetchone()
    if row is not None:
        bead = bead_of(row)
        if tell is not None:
            tell(db, moment, bead_id, _facts.claimed(bead))
        return bead
    bead = find(db, bead_id)
    is_held = _rules.is_held(bead, actor, now)
    assert is_held, "the statement above claims what can be claimed"
    return bead


def claim_ready(
    db: sqlite3.Connection, parent: str | None, actor: str, lease: float | None, now: datetime, tell: Tell | None
) -> Bead | None:
    sweep(db, now)
    found = ready(db, parent, 1, now)
    return claim(db, found[0].id, actor, lease, now, tell) if found else None


def ready(db: sqlite3.Connection, parent: str | None, limit: int, now: datetime) -> list[Bead]:
    where = f"{_READY} AND parent = ?2" if parent is not None else _READY
    index = "bead_ready_child" if parent is not None else "bead_ready"
    rows = db.execute(
        f"SELECT {COLUMNS} FROM bead INDEXED BY {index} WHERE {where} {_ORDER} LIMIT ?3", (micros(now), parent, limit)
    )
    return [bead_of(row) for row in rows]


def has_expired(db: sqlite3.Connection, now: datetime) -> bool:
    """Whether a lease ran out that `sweep` has not seen."""
    return db.execute(f"SELECT 1 FROM bead WHERE {_EXPIRED} LIMIT 1", (micros(now),)).fetchone() is not None


def sweep(db: sqlite3.Connection, now: datetime) -> None:
    """Mark beads whose lease ran out as ready. Holder and fence stay: they may still renew until somebody claims."""
    db.execute(f"UPDATE bead SET ready = 1 WHERE {_EXPIRED}", (micros(now),))


def renew(
    db: sqlite3.Connection, bead_id: str, lease: float, fence: int | None, now: datetime, tell: Tell | None
) -> Bead:
    _rules.check_renewal(find(db, bead_id), fence)
    moment = micros(now)
    bead = _update(db, bead_id, "lease_until = ?, updated_at = ?, ready = 0", _until(moment, lease), moment)
    if tell is not None:
        tell(db, moment, bead_id, _facts.renewed(bead))
    return bead


def release(
    db: sqlite3.Connection, bead_id: str, actor: str | None, fence: int | None, now: datetime, tell: Tell | None
) -> Bead:
    bead = find(db, bead_id)
    if _rules.is_released(bead, actor, fence):
        return bead
    released = _update(
        db,
        bead_id,
        "status = 'open', holder = NULL, claimed_at = NULL, lease_until = NULL, updated_at = ?,"
        " ready = open_blockers = 0 AND open_children = 0",
        micros(now),
    )
    if tell is not None:
        tell(db, micros(now), bead_id, _facts.released(released))
    return released


def close(
    db: sqlite3.Connection,
    bead_id: str,
    outcome: str,
    reason: str,
    actor: str | None,
    fence: int | None,
    now: datetime,
    tell: Tell | None,
) -> Bead:
    bead = find(db, bead_id)
    if _rules.is_closed(bead, outcome, actor, fence):
        return bead
    moment = micros(now)
    closed = _update(
        db,
        bead_id,
        "status = 'closed', outcome = ?, reason = ?, closed_by = ?, closed_at = ?4, updated_at = ?4,"
        " lease_until = NULL, ready = 0",
        outcome,
        reason,
        actor or bead.holder,
        moment,
    )
    if bead.parent_id is not None:
        freed = _FREED.format("open_children = 1 AND open_blockers = 0")
        db.execute(f"UPDATE bead SET open_children = open_children - 1, {freed} WHERE id = ?", (bead.parent_id,))
    if outcome == "done":
        freed = _FREED.format("open_blockers = 1 AND open_children = 0")
        db.execute(
            f"UPDATE bead SET open_blockers = open_blockers - 1, {freed}"
            " WHERE id IN (SELECT bead FROM dependency WHERE blocker = ?)",
            (bead_id,),
        )
    if tell is not None:
        tell(db, moment, bead_id, _facts.closed(closed))
    return closed


def children(db: sqlite3.Connection, bead_id: str, limit: int, after: str | None) -> Page[Bead]:
    find(db, bead_id)
    place = (-1, -1)
    if after is not None:
        place = db.execute("SELECT number, seq FROM bead WHERE id = ? AND parent = ?", (after, bead_id)).fetchone()
        if place is None:
            raise InvalidInput(f"after: {after} is not a child of {bead_id}", resource="bead", id=after)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM bead WHERE parent = ? AND (number, seq) > (?, ?) ORDER BY number, seq LIMIT ?",
        (bead_id, *place, limit + 1),
    ).fetchall()
    items = [bead_of(row) for row in rows[:limit]]
    return Page(items=items, next=items[-1].id if len(rows) > limit else None)


def once(
    db: sqlite3.Connection, key: str | None, request: str, now: datetime, act: Callable[[], Bead | None]
) -> Bead | None:
    """Do *act* the first time *key* is seen within a day; give the same result again later. None is not remembered."""
    if key is None:
        return act()
    moment = micros(now)
    row = db.execute(
        "SELECT request, result FROM once WHERE key = ? AND created_at > ?", (key, moment - DAY)
    ).fetchone()
    if row is not None:
        if row[0] != request:
            raise Conflict(f"the key {key!r} was used for another call", resource="key", id=key)
        return decode(row[1], Bead)
    result = act()
    if result is not None:
        db.execute("INSERT OR REPLACE INTO once VALUES (?, ?, ?, ?)", (key, request, encode(result), moment))
        db.execute(
            "DELETE FROM once WHERE key IN (SELECT key FROM once WHERE created_at <= ? LIMIT 8)", (moment - DAY,)
        )
    return result


def _update(db: sqlite3.Connection, bead_id: str, changes: str, *values: Any) -> Bead:
    number = len(values) + 1
    row = db.execute(
        f"UPDATE bead SET {changes} WHERE id = ?{number} RETURNING {COLUMNS}", (*values, bead_id)
    ).fetchone()
    return bead_of(row)


def _until(moment: int, lease_seconds: float | None) -> int | None:
    return None if lease_seconds is None else moment + round(lease_seconds * 1_000_000)
