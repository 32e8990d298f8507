"""The tables of memory in SQLite, their migrations, and a row as a record."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, TypeVar

import msgspec

from agentbox.adapters._sqlite import upgrade
from agentbox.adapters._time import instant
from agentbox_contracts.memory import Record

__all__ = ["COLUMNS", "SPAN", "made", "migrate", "record_of", "records_of"]

T = TypeVar("T")

SPAN = 1 << 40
"""How many records a set of vectors has room for: the vectors of record r in set s are row s * SPAN + r."""

# A record gets a new id whenever it is stored, so that what is newer than an id is what was stored since, and nothing
# derived from an old value can be taken for the new one. `gone` lists the ids that are no more.
# `forgotten` is the last row of `gone` that was removed: who has not read as far must begin anew.
# A segment is an index file over the records from `first` to `last`; those in `gone` after its `gone` are dead in it.
# `twin` is 1 for records whose content other keys have had too.
# A namespace's vectors are those of its active set. Another set may grow beside it until it takes over.
VERSION_1 = """
CREATE TABLE namespace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    active INTEGER,
    has_text INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE vector_set (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    dimensions INTEGER NOT NULL
);
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    metadata BLOB NOT NULL,
    text TEXT NOT NULL,
    hash BLOB NOT NULL,
    twin INTEGER NOT NULL DEFAULT 0,
    duplicate_of TEXT,
    source TEXT,
    session_id TEXT,
    bead_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER
);
CREATE UNIQUE INDEX record_key ON record (namespace, key);
CREATE INDEX record_namespace ON record (namespace);
CREATE INDEX record_hash ON record (namespace, hash);
CREATE INDEX record_expiry ON record (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE vector (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE member (
    namespace INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    value NOT NULL,
    record INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, kind, value, record)
) WITHOUT ROWID;
CREATE TABLE gone (seq INTEGER PRIMARY KEY AUTOINCREMENT, namespace INTEGER NOT NULL, record INTEGER NOT NULL);
CREATE INDEX gone_namespace ON gone (namespace, seq);
CREATE TABLE segment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    vectors INTEGER NOT NULL,
    file TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    effort INTEGER NOT NULL
);
CREATE INDEX segment_vectors ON segment (vectors, first);
"""

# The checksum is of a file's links. What was written without one is as good as lost, and is written again.
VERSION_2 = "ALTER TABLE segment ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1"

MIGRATIONS = (VERSION_1, VERSION_2)

COLUMNS = (
    "record.id, record.key, record.value, record.metadata, record.source, record.session_id, record.bead_id,"
    " record.duplicate_of, record.created_at, record.updated_at, record.expires_at"
)

_decode = msgspec.json.decode


def migrate(db: sqlite3.Connection) -> None:
    """Create or upgrade the tables, in the transaction that is open. Raises AdapterUnavailable for a newer store."""
    upgrade(db, "memory", MIGRATIONS)


def record_of(namespace: str, row: tuple[Any, ...]) -> Record:
    """A row of COLUMNS as a record."""
    created_at = instant(row[8])
    return Record(
        key=row[1],
        namespace=namespace,
        value=_decode(row[2]),
        metadata={} if row[3] == b"{}" else _decode(row[3]),
        source=row[4],
        session_id=row[5],
        bead_id=row[6],
        duplicate_of=row[7],
        created_at=created_at,
        updated_at=created_at if row[8] == row[9] else instant(row[9]),
        expires_at=None if row[10] is None else instant(row[10]),
    )


def records_of(namespace: str, rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    """Rows that begin with COLUMNS as records."""
    if not rows:
        return []
    _, keys, values, metadata, sources, sessions, beads, originals, created, updated, expiry, *_ = zip(
        *rows, strict=True
    )
    births = [instant(moment) for moment in created]
    changes = zip(births, created, updated, strict=True)
    return made(
        Record,
        len(rows),
        key=keys,
        namespace=repeat(namespace),
        value=map(_decode, values),
        metadata=map(_decode, metadata),
        source=sources,
        session_id=sessions,
        bead_id=beads,
        duplicate_of=originals,
        created_at=births,
        updated_at=[birth if first == last else instant(last) for birth, first, last in changes],
        expires_at=map(instant, expiry),
    )


def made(kind: type[T], count: int, **columns: Iterable[Any]) -> list[T]:
    """
    So many of a frozen class with slots, from a column of values for each of its fields.

    The constructor sets one field of one value at a time, by name; for the matches of a search that is a good part of
    all that Python does.
    """
    created = [object.__new__(kind) for _ in range(count)]
    for name, values in columns.items():
        deque(map(getattr(kind, name).__set__, created, values), maxlen=0)
    return created
