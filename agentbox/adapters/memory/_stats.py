"""What a store of memory holds, in numbers."""

from __future__ import annotations

import sqlite3

import attrs

from agentbox.adapters.memory._tables import SPAN

__all__ = ["NamespaceStats", "stats"]


@attrs.frozen(kw_only=True)
class NamespaceStats:
    """
    One namespace. `vectors` are those of its text's pieces, `pending` those of the set that is to take over.

    `expired` records are invisible already and not yet swept.
    """

    namespace: str
    records: int
    expired: int
    vectors: int
    dimensions: int | None
    embedder: str | None
    pending: int
    pending_embedder: str | None
    bytes: int


def stats(db: sqlite3.Connection, now: int) -> list[NamespaceStats]:
    """Every namespace that holds something, by name."""
    rows = db.execute(
        "SELECT namespace.id, name, active, count(*), sum(expires_at IS NOT NULL AND expires_at <= ?),"
        " sum(length(value) + length(metadata) + length(CAST(text AS BLOB)))"
        " FROM namespace JOIN record ON record.namespace = namespace.id GROUP BY namespace.id ORDER BY name",
        (now,),
    ).fetchall()
    return [_namespace(db, *row) for row in rows]


def _namespace(
    db: sqlite3.Connection, id: int, name: str, active: int | None, count: int, expired: int, size: int
) -> NamespaceStats:
    sets = db.execute("SELECT id, fingerprint, dimensions FROM vector_set WHERE namespace = ?", (id,)).fetchall()
    bound = next((found for found in sets if found[0] == active), None)
    other = next((found for found in sets if found[0] != active), None)
    vectors, vector_bytes = _vectors(db, bound) if bound else (0, 0)
    return NamespaceStats(
        namespace=name,
        records=count - expired,
        expired=expired,
        vectors=vectors,
        dimensions=bound[2] if bound else None,
        embedder=bound[1] if bound else None,
        pending=_vectors(db, other)[0] if other else 0,
        pending_embedder=other[1] if other else None,
        bytes=size + vector_bytes,
    )


def _vectors(db: sqlite3.Connection, found: tuple[int, str, int]) -> tuple[int, int]:
    """How many vectors a set has, and their bytes."""
    first = found[0] * SPAN
    sql = "SELECT coalesce(sum(length(data)), 0) FROM vector WHERE id > ? AND id < ?"
    (size,) = db.execute(sql, (first, first + SPAN)).fetchone()
    return size // (4 * found[2]), size
