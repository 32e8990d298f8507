"""Records in Postgres: what each call does, in a transaction of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import attrs

from agentbox.adapters._postgres import transaction
from agentbox.adapters.memory._embedder import vector_fingerprint
from agentbox.adapters.memory._pg_tables import COLUMNS, LIVING, SIDES, record_of
from agentbox.adapters.memory._text import pieces, words
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import EmbeddingError, NotFound
from agentbox_contracts.memory import Record

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = [
    "Draft",
    "Space",
    "delete",
    "keys",
    "lexeme",
    "missing",
    "mixing",
    "namespaces",
    "retrieve",
    "space",
    "store",
    "sweep",
]

SWEEP = 500
LONGEST = 200
"""Words with more characters are indexed by a hash of them: a lexeme has at most 2 KB."""


@attrs.frozen
class Space:
    """A namespace, what its vectors are by, on which side they are, and what grows on the other."""

    id: int
    fingerprint: str | None
    dimensions: int | None
    side: int
    generation: int
    next_fingerprint: str | None
    next_dimensions: int | None

    @property
    def column(self) -> str:
        """Where the vectors are that searches compare."""
        return SIDES[self.side]

    @property
    def other(self) -> str:
        """Where those are that may take over."""
        return SIDES[1 - self.side]


@attrs.frozen(kw_only=True)
class Draft:
    """A record about to be stored; `vectors` are of unit length, one a piece, `fingerprint` says whose they are."""

    key: str
    namespace: str
    value: bytes
    metadata: bytes
    text: str
    hash: bytes
    vectors: Sequence[str | None]
    """As Postgres reads them; None for a piece that has none."""
    dimensions: int
    fingerprint: str
    source: str | None
    session_id: str | None
    bead_id: str | None
    ttl_seconds: float | None

    @property
    def has_vectors(self) -> bool:
        return any(vector is not None for vector in self.vectors)


async def space(db: Connection, name: str, lock: str = "") -> Space | None:
    """The namespace, when something was stored in it once."""
    columns = "id, fingerprint, dimensions, side, generation, next_fingerprint, next_dimensions"
    row = await db.fetchrow(f"SELECT {columns} FROM namespace WHERE name = $1 {lock}", name)
    return None if row is None else Space(*row)


STORE = f"""
INSERT INTO record AS old (namespace, key, value, metadata, facts, text, hash, duplicate_of, source, session_id,
    bead_id, created_at, updated_at, expires_at)
VALUES ($1, $2, $3, $4, $4::json::jsonb, $5, $6,
    (SELECT key FROM record WHERE namespace = $1 AND hash = $6 AND key <> $2 AND {LIVING}
        ORDER BY updated_at, id LIMIT 1),
    $7, $8, $9, now(), now(), now() + $10::float8 * interval '1 second')
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, metadata = excluded.metadata, facts = excluded.facts, text = excluded.text,
    hash = excluded.hash, duplicate_of = excluded.duplicate_of, source = excluded.source,
    session_id = excluded.session_id, bead_id = excluded.bead_id, fresh = NULL,
    created_at = CASE WHEN old.expires_at <= now() THEN now() ELSE old.created_at END,
    updated_at = greatest(now(), old.updated_at), expires_at = excluded.expires_at
RETURNING {COLUMNS.replace("record.", "old.")}
"""


async def store(db: Connection, draft: Draft, vector: str) -> Record:
    """Put the record in place of whatever its key had. Raises EmbeddingError before anything is written."""
    async with transaction(db):
        bound = await _bound(db, draft)
        row = await db.fetchrow(
            STORE,
            bound.id,
            draft.key,
            draft.value.decode(),
            draft.metadata.decode(),
            draft.text,
            draft.hash,
            draft.source,
            draft.session_id,
            draft.bead_id,
            draft.ttl_seconds,
        )
        assert row is not None
        await db.execute("DELETE FROM piece WHERE record = $1", row[0])
        if rows := _rows(bound.id, draft):
            numbers, lengths, lines, vectors = zip(*rows, strict=True)
            await db.execute(
                f"INSERT INTO piece (namespace, record, number, length, words, {bound.column})"
                f" SELECT $1, $2, number, length, words::tsvector, embedding::{vector}"
                " FROM unnest($3::int[], $4::int[], $5::text[], $6::text[]) AS new (number, length, words, embedding)",
                bound.id,
                row[0],
                numbers,
                lengths,
                lines,
                vectors,
            )
    return record_of(draft.namespace, row)


async def _bound(db: Connection, draft: Draft) -> Space:
    """The namespace, bound to what the draft's vectors are by, and held so until the transaction ends."""
    found = await space(db, draft.namespace)
    if found is None:
        await db.execute("INSERT INTO namespace (name) VALUES ($1) ON CONFLICT DO NOTHING", draft.namespace)
    elif not draft.has_vectors or found.fingerprint == draft.fingerprint:
        held = await space(db, draft.namespace, "FOR SHARE")
        if held == found:
            return held
    # Whoever binds a namespace has it alone: of two that come first with different vectors one is refused.
    held = await space(db, draft.namespace, "FOR UPDATE")
    assert held is not None
    if not draft.has_vectors or held.fingerprint == draft.fingerprint:
        return held
    if held.fingerprint is not None and not await _is_empty(db, held.id):
        raise mixing(draft.namespace, held, draft.fingerprint, draft.dimensions)
    column = held.column
    await db.execute(f"UPDATE piece SET {column} = NULL WHERE namespace = $1 AND {column} IS NOT NULL", held.id)
    bind = (
        "UPDATE namespace SET fingerprint = $2, dimensions = $3, generation = generation + 1, next_fingerprint = NULL,"
        " next_dimensions = NULL, clean = clean AND next_fingerprint IS NULL WHERE id = $1"
    )
    await db.execute(bind, held.id, draft.fingerprint, draft.dimensions)
    return held


async def _is_empty(db: Connection, namespace: int) -> bool:
    sql = f"SELECT NOT EXISTS (SELECT FROM record WHERE namespace = $1 AND {LIVING})"
    return bool(await db.fetchval(sql, namespace))


def mixing(name: str, bound: Space, fingerprint: str, dimensions: int) -> EmbeddingError:
    """The refusal, naming both."""
    if fingerprint == vector_fingerprint(dimensions) and bound.fingerprint == vector_fingerprint(bound.dimensions or 0):
        return EmbeddingError(f"{name}: its vectors have {bound.dimensions} dimensions, this one has {dimensions}")
    return EmbeddingError(
        f"{name}: the namespace is bound to {bound.fingerprint}, and vectors of {fingerprint} must not mix with it"
    )


def _rows(namespace: int, draft: Draft) -> list[tuple[int, int, str, str | None]]:
    """Number, count of words, words and vector of each piece."""
    lines = [words(piece.text) for piece in pieces(draft.text)]
    count = max(len(lines), len(draft.vectors))
    lines += [[]] * (count - len(lines))
    vectors = [*draft.vectors, *[None] * (count - len(draft.vectors))]
    rows = [(n, len(line), _tsvector(namespace, line), vectors[n]) for n, line in enumerate(lines)]
    return [row for row in rows if row[1] or row[3] is not None]


def lexeme(namespace: int, word: str) -> str:
    """*word* as it is indexed. It has letters and digits only, so it needs nothing but quotes."""
    if len(word) > LONGEST:
        word = f"#{blake2b(word.encode(), digest_size=16).hexdigest()}"
    return f"{namespace}:{word}"


def _tsvector(namespace: int, line: list[str]) -> str:
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(line, start=1):
        places[lexeme(namespace, word)].append(place)
    return " ".join(f"'{word}':{','.join(map(str, at[:255]))}" for word, at in places.items())


async def retrieve(db: Connection, name: str, key: str) -> Record:
    """The living record of *key*."""
    sql = (
        f"SELECT {COLUMNS} FROM namespace JOIN record ON record.namespace = namespace.id"
        f" WHERE namespace.name = $1 AND record.key = $2 AND {LIVING}"
    )
    row = await db.fetchrow(sql, name, key)
    if row is None:
        raise missing(name, key)
    return record_of(name, row)


async def delete(db: Connection, name: str, key: str) -> bool:
    """Remove the living record of *key* and everything derived from it; whether there was one."""
    sql = (
        "DELETE FROM record USING namespace WHERE record.namespace = namespace.id AND namespace.name = $1"
        f" AND record.key = $2 AND {LIVING} RETURNING record.id"
    )
    return await db.fetchval(sql, name, key) is not None


async def keys(db: Connection, name: str, prefix: str, limit: int, after: str | None) -> Page[str]:
    """A page of the living keys that begin with *prefix*."""
    sql = (
        "SELECT key FROM record WHERE namespace = (SELECT id FROM namespace WHERE name = $1)"
        f" AND key >= $2 AND starts_with(key, $2) AND key > $3 AND {LIVING} ORDER BY key LIMIT $4"
    )
    return _page([row[0] for row in await db.fetch(sql, name, prefix, after or "", limit + 1)], limit)


async def namespaces(db: Connection, limit: int, after: str | None) -> Page[str]:
    """A page of the namespaces that hold a living record."""
    sql = (
        "SELECT name FROM namespace WHERE name > $1 AND EXISTS"
        f" (SELECT FROM record WHERE record.namespace = namespace.id AND {LIVING}) ORDER BY name LIMIT $2"
    )
    return _page([row[0] for row in await db.fetch(sql, after or "", limit + 1)], limit)


async def sweep(db: Connection) -> int:
    """Remove some records that have expired; how many."""
    sql = (
        "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE expires_at <= now()"
        " LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id"
    )
    return len(await db.fetch(sql, SWEEP))


def missing(name: str, key: str) -> NotFound:
    """That there is no such record, or none any more."""
    return NotFound(f"{name} holds no {key!r}", resource="memory", id=key)


def _page(found: list[str], limit: int) -> Page[str]:
    return Page(items=found[:limit], next=found[limit - 1] if len(found) > limit else None)
