"""The tables of beads in SQLite, their migrations, and a row as a bead."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from agentbox_contracts.beads import Bead
from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["COLUMNS", "bead_of", "instant", "micros", "migrate"]

# `ready` is what get_ready and claim_ready walk: 1 for open beads that wait for nothing, and for those whose lease was
# found expired. It is kept by every write, so that finding work costs the same in a store of any size.
VERSION_1 = """
CREATE TABLE bead (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    uid TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    parent TEXT,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    depends_on TEXT NOT NULL,
    open_blockers INTEGER NOT NULL DEFAULT 0,
    open_children INTEGER NOT NULL DEFAULT 0,
    holder TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER,
    lease_until INTEGER,
    outcome TEXT,
    reason TEXT NOT NULL DEFAULT '',
    created_by TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    closed_by TEXT,
    closed_at INTEGER,
    number INTEGER NOT NULL DEFAULT 0,
    last_child INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL
);
CREATE INDEX bead_ready ON bead (priority, created_at, seq) WHERE ready = 1;
CREATE INDEX bead_ready_child ON bead (parent, priority, created_at, seq) WHERE ready = 1;
CREATE INDEX bead_child ON bead (parent, number, seq) WHERE parent IS NOT NULL;
CREATE INDEX bead_lease ON bead (lease_until)
    WHERE status = 'claimed' AND ready = 0 AND open_blockers = 0 AND open_children = 0 AND lease_until IS NOT NULL;
CREATE TABLE dependency (
    bead TEXT NOT NULL,
    blocker TEXT NOT NULL,
    PRIMARY KEY (bead, blocker)
) WITHOUT ROWID;
CREATE INDEX dependency_blocker ON dependency (blocker, bead);
CREATE TABLE tombstone (uid TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE once (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    result BLOB NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX once_age ON once (created_at);
"""

MIGRATIONS = (VERSION_1,)

COLUMNS = (
    "id, uid, kind, title, description, status, priority, parent, tags, metadata, depends_on, open_blockers, "
    "open_children, holder, fence, claimed_at, lease_until, outcome, reason, created_by, created_at, updated_at, "
    "closed_by, closed_at"
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_decode = msgspec.json.decode


def migrate(db: sqlite3.Connection) -> None:
    """Create or upgrade the tables, in the transaction that is open. Raises AdapterUnavailable for a newer store."""
    db.execute("CREATE TABLE IF NOT EXISTS version (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
    have = db.execute("SELECT coalesce(max(version), 0) FROM version").fetchone()[0]
    if have > len(MIGRATIONS):
        raise AdapterUnavailable(
            f"the beads store has version {have}, and this agentbox knows up to {len(MIGRATIONS)}; use a newer agentbox"
        )
    for number, script in enumerate(MIGRATIONS[have:], start=have + 1):
        for statement in script.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO version VALUES (?, ?)", (number, datetime.now(UTC).isoformat()))


def micros(moment: datetime) -> int:
    """A moment as whole microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def instant(value: int | None) -> datetime | None:
    """Microseconds since 1970 as a moment."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def bead_of(row: tuple[Any, ...]) -> Bead:
    """A row of COLUMNS as a bead."""
    tags, metadata, depends_on = row[8], row[9], row[10]
    return Bead(
        id=row[0],
        uid=row[1],
        kind=row[2],
        title=row[3],
        description=row[4],
        status=row[5],
        priority=row[6],
        parent_id=row[7],
        tags=() if tags == "[]" else tuple(_decode(tags)),
        metadata={} if metadata == "{}" else _decode(metadata),
        depends_on=() if depends_on == "[]" else tuple(_decode(depends_on)),
        open_blockers=row[11],
        open_children=row[12],
        holder=row[13],
        fence=row[14],
        claimed_at=instant(row[15]),
        lease_expires_at=instant(row[16]),
        outcome=row[17],
        reason=row[18],
        created_by=row[19],
        created_at=_EPOCH + timedelta(microseconds=row[20]),
        updated_at=_EPOCH + timedelta(microseconds=row[21]),
        closed_by=row[22],
        closed_at=instant(row[23]),
    )
