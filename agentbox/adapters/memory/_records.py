"""Records in SQLite: what each call does, in the transaction that is open."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from agentbox.adapters.memory import _fulltext, _members
from agentbox.adapters.memory._embedder import vector_fingerprint
from agentbox.adapters.memory._members import successor
from agentbox.adapters.memory._tables import COLUMNS, SPAN, record_of
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import EmbeddingError, NotFound
from agentbox_contracts.memory import Record

__all__ = [
    "Draft",
    "VectorSet",
    "activate",
    "active_set",
    "delete",
    "has_expired",
    "is_empty",
    "keys",
    "missing",
    "mixing",
    "namespace_id",
    "namespaces",
    "new_set",
    "put_vectors",
    "retrieve",
    "store",
    "sweep",
]

SWEEP = 500
"""Expired records removed in one transaction."""

KEPT, NOW_AND_THEN = 10_000, 1_000
"""So many rows of `gone` a namespace keeps at least, and after so many removals it is seen to."""

LIVING = "(record.expires_at IS NULL OR record.expires_at > ?)"


@attrs.frozen(kw_only=True)
class VectorSet:
    """One set of vectors of a namespace, all by the same embedder."""

    id: int
    fingerprint: str
    dimensions: int


@attrs.frozen(kw_only=True)
class Draft:
    """A record about to be stored; `vectors` are of unit length, one a piece, `fingerprint` says whose they are."""

    key: str
    namespace: str
    value: bytes
    metadata: dict[str, Any]
    text: str
    hash: bytes
    vectors: Sequence[Any]
    fingerprint: str
    source: str | None
    session_id: str | None
    bead_id: str | None


def namespace_id(db: sqlite3.Connection, name: str) -> int | None:
    """The id of a namespace that something was stored in once."""
    row = db.execute("SELECT id FROM namespace WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


def active_set(db: sqlite3.Connection, namespace: int) -> VectorSet | None:
    """The vectors that searches of the namespace compare."""
    row = db.execute(
        "SELECT vector_set.id, fingerprint, dimensions FROM namespace JOIN vector_set ON vector_set.id = active"
        " WHERE namespace.id = ?",
        (namespace,),
    ).fetchone()
    return None if row is None else VectorSet(id=row[0], fingerprint=row[1], dimensions=row[2])


def is_empty(db: sqlite3.Connection, namespace: int, now: int) -> bool:
    """Whether no living record is in the namespace."""
    sql = f"SELECT 1 FROM record WHERE namespace = ? AND {LIVING} LIMIT 1"
    return db.execute(sql, (namespace, now)).fetchone() is None


def store(db: sqlite3.Connection, draft: Draft, now: int, expires_at: int | None) -> Record:
    """Put the record in place of whatever its key had. Raises EmbeddingError before anything is written."""
    namespace = namespace_id(db, draft.namespace)
    vectors = _bind(db, namespace, draft, now)
    if namespace is None:
        cursor = db.execute("INSERT INTO namespace (name) VALUES (?)", (draft.namespace,))
        namespace = int(cursor.lastrowid or 0)
    created_at, updated_at = _replace(db, namespace, draft.key, now)
    original = _original(db, namespace, draft.hash, now)
    metadata = msgspec.json.encode(draft.metadata)
    origin = (draft.source, draft.session_id, draft.bead_id)
    cursor = db.execute(
        "INSERT INTO record (namespace, key, value, metadata, text, hash, twin, duplicate_of, source, session_id,"
        " bead_id, created_at, updated_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            namespace,
            draft.key,
            draft.value,
            metadata,
            draft.text,
            draft.hash,
            original is not None,
            original,
            *origin,
            created_at,
            updated_at,
            expires_at,
        ),
    )
    record = int(cursor.lastrowid or 0)
    if draft.vectors:
        put_vectors(db, vectors or _new_set(db, namespace, draft), record, draft.vectors)
    _fulltext.put(db, namespace, record, draft.text)
    _members.put(db, namespace, record, draft.metadata)
    row = (record, draft.key, draft.value, metadata, *origin, original, created_at, updated_at, expires_at)
    return record_of(draft.namespace, row)


def retrieve(db: sqlite3.Connection, name: str, key: str, now: int) -> Record:
    """The living record of *key*."""
    row = db.execute(
        f"SELECT {COLUMNS} FROM namespace JOIN record ON record.namespace = namespace.id"
        f" WHERE namespace.name = ? AND record.key = ? AND {LIVING}",
        (name, key, now),
    ).fetchone()
    if row is None:
        raise missing(name, key)
    return record_of(name, row)


def delete(db: sqlite3.Connection, name: str, key: str, now: int) -> None:
    """Remove the living record of *key* and everything derived from it."""
    namespace = namespace_id(db, name)
    sql = f"SELECT id FROM record WHERE namespace = ? AND key = ? AND {LIVING}"
    row = None if namespace is None else db.execute(sql, (namespace, key, now)).fetchone()
    if namespace is None or row is None:
        raise missing(name, key)
    _remove(db, row[0])


def keys(db: sqlite3.Connection, name: str, prefix: str, limit: int, after: str | None, now: int) -> Page[str]:
    """A page of the living keys that begin with *prefix*."""
    namespace = namespace_id(db, name)
    bounds, values = ["record.key >= ?"], [prefix]
    if (end := successor(prefix)) is not None:
        bounds.append("record.key < ?")
        values.append(end)
    if after is not None:
        bounds.append("record.key > ?")
        values.append(after)
    sql = f"SELECT key FROM record WHERE namespace = ? AND {' AND '.join(bounds)} AND {LIVING} ORDER BY key LIMIT ?"
    return _page([row[0] for row in db.execute(sql, (namespace, *values, now, limit + 1))], limit)


def namespaces(db: sqlite3.Connection, limit: int, after: str | None, now: int) -> Page[str]:
    """A page of the namespaces that hold a living record."""
    sql = (
        "SELECT name FROM namespace WHERE name > ? AND EXISTS"
        f" (SELECT 1 FROM record WHERE record.namespace = namespace.id AND {LIVING}) ORDER BY name LIMIT ?"
    )
    return _page([row[0] for row in db.execute(sql, (after or "", now, limit + 1))], limit)


def has_expired(db: sqlite3.Connection, now: int) -> bool:
    """Whether there is something to sweep."""
    sql = "SELECT 1 FROM record WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT 1"
    return db.execute(sql, (now,)).fetchone() is not None


def sweep(db: sqlite3.Connection, now: int) -> int:
    """Remove some records that have expired; how many."""
    sql = "SELECT id FROM record WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?"
    expired = [row[0] for row in db.execute(sql, (now, SWEEP))]
    for record in expired:
        _remove(db, record)
    return len(expired)


def put_vectors(db: sqlite3.Connection, vectors: VectorSet, record: int, pieces: Sequence[Any]) -> None:
    """Keep the vectors of a record's pieces, one after the other."""
    data = b"".join(memoryview(piece).tobytes() for piece in pieces)
    db.execute("INSERT OR REPLACE INTO vector VALUES (?, ?)", (vectors.id * SPAN + record, data))


def new_set(db: sqlite3.Connection, namespace: int, fingerprint: str, dimensions: int) -> VectorSet:
    """A further set of vectors, not yet the active one."""
    cursor = db.execute(
        "INSERT INTO vector_set (namespace, fingerprint, dimensions) VALUES (?, ?, ?)",
        (namespace, fingerprint, dimensions),
    )
    return VectorSet(id=int(cursor.lastrowid or 0), fingerprint=fingerprint, dimensions=dimensions)


def activate(db: sqlite3.Connection, namespace: int, vectors: VectorSet) -> None:
    """Let searches compare these vectors from now on. Those of every other set are removed."""
    db.execute("UPDATE namespace SET active = ? WHERE id = ?", (vectors.id, namespace))
    others = db.execute("SELECT id FROM vector_set WHERE namespace = ? AND id <> ?", (namespace, vectors.id)).fetchall()
    for (other,) in others:
        db.execute("DELETE FROM vector WHERE id BETWEEN ? AND ?", (other * SPAN, (other + 1) * SPAN - 1))
        db.execute("DELETE FROM segment WHERE vectors = ?", (other,))
        db.execute("DELETE FROM vector_set WHERE id = ?", (other,))


def mixing(name: str, bound: VectorSet, fingerprint: str, dimensions: int) -> EmbeddingError:
    """The refusal, naming both."""
    if fingerprint == vector_fingerprint(dimensions) and bound.fingerprint == vector_fingerprint(bound.dimensions):
        return EmbeddingError(f"{name}: its vectors have {bound.dimensions} dimensions, this one has {dimensions}")
    return EmbeddingError(
        f"{name}: the namespace is bound to {bound.fingerprint}, and vectors of {fingerprint} must not mix with it"
    )


def _bind(db: sqlite3.Connection, namespace: int | None, draft: Draft, now: int) -> VectorSet | None:
    """The set that the draft's vectors belong in; None when a new one is needed, or none."""
    bound = None if namespace is None else active_set(db, namespace)
    if not draft.vectors or namespace is None or bound is None or bound.fingerprint == draft.fingerprint:
        return bound
    if is_empty(db, namespace, now):
        return None
    raise mixing(draft.namespace, bound, draft.fingerprint, len(draft.vectors[0]))


def _new_set(db: sqlite3.Connection, namespace: int, draft: Draft) -> VectorSet:
    vectors = new_set(db, namespace, draft.fingerprint, len(draft.vectors[0]))
    activate(db, namespace, vectors)
    return vectors


def _replace(db: sqlite3.Connection, namespace: int, key: str, now: int) -> tuple[int, int]:
    """Remove what *key* had; when the record that is to come was created, and updated: never before it was last."""
    sql = "SELECT id, created_at, updated_at, expires_at FROM record WHERE namespace = ? AND key = ?"
    old = db.execute(sql, (namespace, key)).fetchone()
    if old is None:
        return now, now
    record, created_at, updated_at, expires_at = old
    _remove(db, record)
    return now if expires_at is not None and expires_at <= now else created_at, max(now, updated_at)


def _original(db: sqlite3.Connection, namespace: int, hash: bytes, now: int) -> str | None:
    """The key that has had this content longest; all that have it are marked."""
    sql = f"SELECT id, key FROM record WHERE namespace = ? AND hash = ? AND {LIVING} ORDER BY id LIMIT 1"
    row = db.execute(sql, (namespace, hash, now)).fetchone()
    if row is None:
        return None
    db.execute("UPDATE record SET twin = 1 WHERE id = ? AND twin = 0", (row[0],))
    return str(row[1])


def _remove(db: sqlite3.Connection, record: int) -> None:
    row = db.execute("SELECT namespace, metadata, text FROM record WHERE id = ?", (record,)).fetchone()
    namespace, metadata, text = row
    db.execute("DELETE FROM record WHERE id = ?", (record,))
    gone = db.execute("INSERT INTO gone (namespace, record) VALUES (?, ?)", (namespace, record)).lastrowid or 0
    for (vectors,) in db.execute("SELECT id FROM vector_set WHERE namespace = ?", (namespace,)).fetchall():
        db.execute("DELETE FROM vector WHERE id = ?", (vectors * SPAN + record,))
    _fulltext.drop(db, namespace, record, text)
    _members.drop(db, namespace, record, msgspec.json.decode(metadata))
    if gone % NOW_AND_THEN == 0:
        _forget(db, namespace)


def _forget(db: sqlite3.Connection, namespace: int) -> None:
    """Remove old rows of `gone` that no index file needs: whoever has not read as far begins anew."""
    sql = "SELECT seq FROM gone WHERE namespace = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
    old = db.execute(sql, (namespace, KEPT)).fetchone()
    if old is None:
        return
    sql = "SELECT min(gone) FROM segment WHERE vectors IN (SELECT id FROM vector_set WHERE namespace = ?)"
    (needed,) = db.execute(sql, (namespace,)).fetchone()
    last = old[0] if needed is None else min(old[0], needed)
    db.execute("DELETE FROM gone WHERE namespace = ? AND seq <= ?", (namespace, last))
    db.execute("UPDATE namespace SET forgotten = max(forgotten, ?) WHERE id = ?", (last, namespace))


def missing(name: str, key: str) -> NotFound:
    return NotFound(f"{name} holds no {key!r}", resource="memory", id=key)


def _page(found: list[str], limit: int) -> Page[str]:
    return Page(items=found[:limit], next=found[limit - 1] if len(found) > limit else None)
