"""The tables of beads in SQLite, their migrations, and a row as a bead."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from agentbox.adapters._sqlite import upgrade
from agentbox.adapters._time import instant
from agentbox_contracts.beads import Bead

__all__ = ["COLUMNS", "bead_of", "migrate"]

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

# AUTOINCREMENT, because a number that came back would let one carrier forget what another has yet to deliver.
VERSION_2 = """
CREATE TABLE outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    type TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    session_id TEXT,
    execution_id TEXT,
    data TEXT NOT NULL
);
CREATE TABLE carrier (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, until INTEGER NOT NULL)
"""

MIGRATIONS = (VERSION_1, VERSION_2)

COLUMNS = (
    "id, uid, kind, title, description, status, priority, parent, tags, metadata, depends_on, open_blockers, "
    "open_children, holder, fence, claimed_at, lease_until, outcome, reason, created_by, created_at, updated_at, "
    "closed_by, closed_at"
)

_decode = msgspec.json.decode


def migrate(db: sqlite3.Connection) -> None:
    """Create or upgrade the tables, in the transaction that is open. Raises AdapterUnavailable for a newer store."""
    upgrade(db, "beads", MIGRATIONS)


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
        created_at=instant(row[20]),
        updated_at=instant(row[21]),
        closed_by=row[22],
        closed_at=instant(row[23]),
    )
