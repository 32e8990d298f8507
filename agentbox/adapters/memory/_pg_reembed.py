"""
Give a namespace in Postgres another embedder, without a moment in which a search is wrong.

The new vectors grow in the column that no search reads. When none is missing the namespace changes sides, which is one
row. Records that are stored meanwhile are marked as missing by the store itself, so none is overlooked, and none gets
a vector of a text that it no longer has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import attrs

from agentbox.adapters._postgres import Postgres, transaction
from agentbox.adapters.memory._embedder import Embedder, vector_fingerprint
from agentbox.adapters.memory._pg_records import Space, space
from agentbox.adapters.memory._pg_tables import LIVING
from agentbox.adapters.memory._pg_vectors import EXACT, VectorIndex, build_index, has_index, written
from agentbox.adapters.memory._reembed import LAST_SECONDS, Progress, Stride
from agentbox.adapters.memory._text import pieces
from agentbox.adapters.memory._vectors import unit
from agentbox_contracts.errors import AgentboxError, Conflict, EmbeddingError, NotFound

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["left_behind", "reembed", "tidy"]

FEW = 8
"""So many records may be embedded while writers wait; after some passes, as many as take about a second."""
PASSES = 3
CLEARED = 5000

_MISSING = (
    "SELECT id, text, hash FROM record WHERE namespace = $1 AND id > $2 AND text <> ''"
    f" AND fresh IS DISTINCT FROM $3 AND {LIVING} ORDER BY id LIMIT $4"
)


@attrs.frozen
class _Text:
    """A record to embed; `hash` tells later whether it still has this text."""

    record: int
    text: str
    hash: bytes


@attrs.define
class _Work:
    db: Postgres
    schema: str
    name: str
    space: Space
    embedder: Embedder
    done: int
    total: int
    passes: int = 0
    stride: Stride = attrs.field(factory=Stride)

    @property
    def after(self) -> str:
        return self.embedder.fingerprint

    def progress(self, *, finished: bool = False) -> Progress:
        total = self.done if finished else max(self.done, self.total)
        before = self.space.fingerprint or ""
        return Progress(before=before, after=self.after, done=self.done, total=total, finished=finished)


async def reembed(db: Postgres, schema: str, name: str, embedder: Embedder) -> AsyncGenerator[Progress, None]:
    """
    Embed all texts of the namespace *name* with *embedder*, which is open, and bind the namespace to it.

    Where it is bound to it already, what was begun for another one is dropped.

    Raises:
        NotFound: There is no such namespace.
        EmbeddingError: Callers brought its vectors; no embedder can make them again.
        Conflict: Something else gave the namespace other vectors meanwhile.
    """
    begun = await db.write(partial(_begun, name=name, embedder=embedder), again=True)
    done, total = await db.read(lambda connection: _counted(connection, begun))
    work = _Work(db=db, schema=schema, name=name, space=begun, embedder=embedder, done=done, total=total)
    if begun.fingerprint == embedder.fingerprint:
        if begun.next_fingerprint is not None:
            await db.write(lambda connection: _abandon(connection, begun), again=True)
            await tidy(db, name)
        yield attrs.evolve(work, done=0).progress(finished=True)
        return
    while True:
        async for step in _pass(work):
            yield step
        await _index(work)
        if await _finish(work):
            break
    # It is done, whatever happens now; what cannot be tidied up now is when the store is tended.
    with suppress(AgentboxError):
        await tidy(db, work.name)
    yield work.progress(finished=True)


async def left_behind(db: Connection) -> list[str]:
    """The namespaces that still hold vectors which nothing compares any more, and which nothing will."""
    sql = "SELECT name FROM namespace WHERE NOT clean AND next_fingerprint IS NULL"
    return [row[0] for row in await db.fetch(sql)]


async def tidy(db: Postgres, name: str) -> None:
    """Remove what a namespace left behind on the other side, a little at a time; ends early when that is in use."""
    left = await db.read(lambda connection: space(connection, name))
    if left is None:
        return
    await db.write(lambda connection: _drop_indexes(connection, left), again=True)
    cursor: int | None = 0
    while cursor is not None:
        cursor = await db.write(partial(_clear, name=name, left=left, after=cursor), again=True)


async def _begun(db: Connection, name: str, embedder: Embedder) -> Space:
    """The namespace, with the other side to be filled: from its beginning, or where an earlier one was killed."""
    async with transaction(db):
        found = await space(db, name, "FOR UPDATE")
        if found is None or found.fingerprint is None:
            raise NotFound(f"{name}: no such namespace holds vectors", resource="memory", id=name)
        if found.fingerprint == vector_fingerprint(found.dimensions or 0):
            raise EmbeddingError(
                f"{name}: callers brought its vectors, which no embedder can make again from its texts"
            )
        if embedder.fingerprint not in (found.fingerprint, found.next_fingerprint):
            await db.execute(
                "UPDATE namespace SET generation = generation + 1, next_fingerprint = $2, next_dimensions = $3,"
                " clean = false WHERE id = $1",
                found.id,
                embedder.fingerprint,
                embedder.dimensions,
            )
            found = await space(db, name)
            assert found is not None
    return found


async def _abandon(db: Connection, begun: Space) -> None:
    """Drop what was begun for another embedder."""
    await db.execute(
        "UPDATE namespace SET generation = generation + 1, next_fingerprint = NULL, next_dimensions = NULL"
        " WHERE id = $1 AND generation = $2",
        begun.id,
        begun.generation,
    )


async def _counted(db: Connection, begun: Space) -> tuple[int, int]:
    """How many records have their new vectors, and how many there are."""
    sql = (
        "SELECT count(*) FILTER (WHERE fresh = $2), count(*) FROM record"
        f" WHERE namespace = $1 AND text <> '' AND {LIVING}"
    )
    done, total = await db.fetchrow(sql, begun.id, begun.generation)  # type: ignore[misc]
    return done, total


async def _pass(work: _Work) -> AsyncGenerator[Progress, None]:
    """Embed all that is missing, once through."""
    work.passes += 1
    cursor = 0
    while True:
        yield work.progress()
        texts = await work.db.read(partial(_missing, work=work, after=cursor, limit=work.stride.size))
        if not texts:
            return
        with work.stride.timed():
            vectors = await _embedded(work.embedder, texts)
            work.done += await work.db.write(partial(_put, work=work, texts=texts, vectors=vectors), again=True)
        cursor = texts[-1].record


async def _missing(db: Connection, work: _Work, after: int, limit: int) -> list[_Text]:
    rows = await db.fetch(_MISSING, work.space.id, after, work.space.generation, limit)
    return [_Text(*row) for row in rows]


async def _finish(work: _Work) -> bool:
    """
    The last few records and the change of sides, in one transaction; false when there are more than a few.

    Were they all embedded before the transaction, steady writers could keep it from ever finding nothing missing.
    """
    embedded = await work.db.write(partial(_last, work=work), again=True)
    work.done += embedded or 0
    return embedded is not None


async def _last(db: Connection, work: _Work) -> int | None:
    patience = f"SET LOCAL idle_in_transaction_session_timeout = '{LAST_SECONDS:.0f}s'"
    async with transaction(db, patience):
        if not await _goes_on(db, work, "FOR UPDATE"):
            return 0
        few = FEW if work.passes < PASSES else work.stride.size
        texts = await _missing(db, work, 0, few)
        if len(texts) == few:
            return None
        embedded = await _put_texts(db, work, texts, await _embedded(work.embedder, texts))
        await db.execute(
            "UPDATE namespace SET side = 1 - side, fingerprint = next_fingerprint, dimensions = next_dimensions,"
            " next_fingerprint = NULL, next_dimensions = NULL, generation = generation + 1, clean = false"
            " WHERE id = $1",
            work.space.id,
        )
        return embedded


async def _put(db: Connection, work: _Work, texts: Sequence[_Text], vectors: Sequence[list[str | None]]) -> int:
    async with transaction(db):
        return await _put_texts(db, work, texts, vectors) if await _goes_on(db, work, "FOR SHARE") else 0


async def _goes_on(db: Connection, work: _Work, lock: str) -> bool:
    """Whether there is anything left to do. Raises Conflict when the namespace went another way."""
    found = await space(db, work.name, lock)
    if found == work.space:
        return True
    if found is not None and found.fingerprint == work.after:
        return False  # another process was faster
    raise Conflict(f"{work.name}: it was given other vectors meanwhile; begin again", resource="memory", id=work.name)


async def _put_texts(db: Connection, work: _Work, texts: Sequence[_Text], vectors: Sequence[list[str | None]]) -> int:
    """Keep the vectors of those records that still have their text and lack them; how many there were."""
    rows = await db.fetch(
        "SELECT id, hash FROM record WHERE id = ANY($1) AND fresh IS DISTINCT FROM $2 ORDER BY id FOR NO KEY UPDATE",
        [each.record for each in texts],
        work.space.generation,
    )
    living = {row[0]: row[1] for row in rows}
    kept = [(each, own) for each, own in zip(texts, vectors, strict=True) if living.get(each.record) == each.hash]
    new = [(each.record, number, vector) for each, own in kept for number, vector in enumerate(own)]
    column = work.space.other
    await db.execute(
        f"INSERT INTO piece AS old (namespace, record, number, length, words, {column})"
        f" SELECT $1, record, number, 0, ''::tsvector, vector::{work.schema}.vector"
        " FROM unnest($2::bigint[], $3::int[], $4::text[]) AS new (record, number, vector)"
        f" ON CONFLICT (record, number) DO UPDATE SET {column} = excluded.{column}",
        work.space.id,
        [row[0] for row in new],
        [row[1] for row in new],
        [row[2] for row in new],
    )
    done = [each.record for each, _ in kept]
    await db.execute("UPDATE record SET fresh = $2 WHERE id = ANY($1)", done, work.space.generation)
    return len(done)


async def _embedded(embedder: Embedder, texts: Sequence[_Text]) -> list[list[str | None]]:
    """For each text the vectors of its pieces; none for a piece that the embedder has none for."""
    parts = [[piece.text for piece in pieces(each.text)] for each in texts]
    flat = [part for some in parts for part in some]
    found = iter(await embedder.embed(flat, kind="document") if flat else [])
    return [[written(unit(next(found))) for _ in some] for some in parts]


async def _index(work: _Work) -> None:
    """The index of a large namespace is there before it is needed."""
    index = VectorIndex(work.space.id, work.space.other, work.embedder.dimensions)

    async def is_due(db: Connection) -> bool:
        sql = f"SELECT count(*) FROM (SELECT FROM piece WHERE namespace = $1 LIMIT {EXACT + 1}) few"
        return bool(await db.fetchval(sql, index.namespace) > EXACT and not await has_index(db, index))

    if index.is_possible and await work.db.read(is_due):
        await work.db.write(lambda db: build_index(db, work.schema, index))


async def _drop_indexes(db: Connection, left: Space) -> None:
    if not await _is_left(db, left):
        return
    sql = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE $1"
    names = [row[0] for row in await db.fetch(sql, f"piece\\_hnsw\\_{left.id}\\_%")]
    for name in names:
        if VectorIndex(left.id, left.other, int(name.split("_")[3])).name == name:
            await db.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


async def _clear(db: Connection, name: str, left: Space, after: int) -> int | None:
    """Clear some pieces; up to which record, or None when there are no more, or something grows there again."""
    async with transaction(db):
        if await space(db, name, "FOR SHARE") != left or left.next_fingerprint is not None:
            return None
        sql = "SELECT max(record) FROM (SELECT record FROM piece WHERE record > $1 ORDER BY record LIMIT $2) few"
        last: int | None = await db.fetchval(sql, after, CLEARED)
        if last is None:
            await db.execute("UPDATE namespace SET clean = true WHERE id = $1", left.id)
            return None
        await db.execute(
            f"UPDATE piece SET {left.other} = NULL"
            f" WHERE record > $2 AND record <= $3 AND namespace = $1 AND {left.other} IS NOT NULL",
            left.id,
            after,
            last,
        )
    return last


async def _is_left(db: Connection, left: Space) -> bool:
    sql = "SELECT EXISTS (SELECT FROM namespace WHERE id = $1 AND generation = $2 AND next_fingerprint IS NULL)"
    return bool(await db.fetchval(sql, left.id, left.generation))
