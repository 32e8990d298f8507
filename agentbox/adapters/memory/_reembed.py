"""
Give a namespace another embedder, without a moment in which a search is wrong.

The new vectors grow in a set of their own beside the active one, and take its place in one step when none is missing.
Who is killed meanwhile begins where it was: what is in the set already is not embedded again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from array import array
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import attrs

from agentbox.adapters._sqlite import Database
from agentbox.adapters.memory import _records
from agentbox.adapters.memory._embedder import Embedder, vector_fingerprint
from agentbox.adapters.memory._records import VectorSet
from agentbox.adapters.memory._tables import SPAN
from agentbox.adapters.memory._text import pieces
from agentbox.adapters.memory._vectors import unit
from agentbox_contracts.errors import Conflict, EmbeddingError, NotFound

__all__ = ["LAST_SECONDS", "Progress", "Stride", "reembed", "vectors_of"]

FEWEST, MOST = 8, 64
QUICK_SECONDS, SLOW_SECONDS = 0.5, 2.0
LAST_SECONDS = 60.0

_MISSING = (
    "SELECT record.id, record.text FROM record LEFT JOIN vector ON vector.id = ? + record.id"
    " WHERE record.namespace = ? AND record.id > ? AND record.text <> '' AND vector.id IS NULL"
    " ORDER BY record.id LIMIT ?"
)


@attrs.frozen(kw_only=True)
class Progress:
    """How far it is: of *total* records *done* have their new vectors; *before* is what the namespace was bound to."""

    before: str
    after: str
    done: int
    total: int
    finished: bool = False


@attrs.define
class Stride:
    """
    How many records are embedded at once: as many as take about a second.

    So it is seen to get on, little is lost when it is killed, and a service is not asked more often than need be.
    Others wait for the last of them, which are embedded in the transaction that ends it.
    """

    size: int = FEWEST

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Learn from how long this takes."""
        started = monotonic()
        yield
        took = monotonic() - started
        if took < QUICK_SECONDS:
            self.size = min(MOST, self.size * 2)
        elif took > SLOW_SECONDS:
            self.size = max(FEWEST, self.size // 2)


@attrs.define
class _Work:
    db: Database
    name: str
    namespace: int
    bound: VectorSet
    target: VectorSet
    embedder: Embedder
    done: int
    total: int
    cursor: int = 0
    stride: Stride = attrs.field(factory=Stride)

    def progress(self, *, finished: bool = False) -> Progress:
        """How far it is, as far as is known without counting again."""
        before, after = self.bound.fingerprint, self.target.fingerprint
        total = self.done if finished else max(self.done, self.total)
        return Progress(before=before, after=after, done=self.done, total=total, finished=finished)


async def vectors_of(embedder: Embedder, text: str) -> list[Any]:
    """The vectors of a text's pieces, of unit length; none where no piece has one."""
    (found,) = await _vectors_of(embedder, [text])
    return found


async def reembed(db: Database, name: str, embedder: Embedder) -> AsyncGenerator[Progress, None]:
    """
    Embed all texts of the namespace *name* with *embedder*, which is open, and bind the namespace to it.

    Where it is bound to it already, what was begun for another one is dropped.

    Raises:
        NotFound: There is no such namespace.
        EmbeddingError: Callers brought its vectors; no embedder can make them again.
        Conflict: Something else gave the namespace other vectors meanwhile.
    """
    bound = await db.read(lambda connection: _bound(connection, name))
    if bound.fingerprint == embedder.fingerprint:
        await db.write(lambda connection: _abandon(connection, name, bound))
        yield Progress(before=bound.fingerprint, after=bound.fingerprint, done=0, total=0, finished=True)
        return
    work = await db.write(lambda connection: _begun(connection, db, name, bound, embedder))
    while True:
        yield work.progress()
        rows = await db.read(lambda connection: _missing(connection, work))
        if len(rows) < work.stride.size and await _finish(work):
            break
        with work.stride.timed():
            await _embed(work, rows)
    yield work.progress(finished=True)


def _bound(db: sqlite3.Connection, name: str) -> VectorSet:
    namespace = _records.namespace_id(db, name)
    bound = None if namespace is None else _records.active_set(db, namespace)
    if bound is None:
        raise NotFound(f"{name}: no such namespace holds vectors", resource="memory", id=name)
    if bound.fingerprint == vector_fingerprint(bound.dimensions):
        raise EmbeddingError(f"{name}: callers brought its vectors, which no embedder can make again from its texts")
    return bound


def _abandon(db: sqlite3.Connection, name: str, bound: VectorSet) -> None:
    """Drop what was begun for another embedder."""
    namespace = _records.namespace_id(db, name)
    if namespace is not None and _records.active_set(db, namespace) == bound:
        _records.activate(db, namespace, bound)


def _begun(db: sqlite3.Connection, file: Database, name: str, bound: VectorSet, embedder: Embedder) -> _Work:
    """The set to fill: one that was begun before, or a new one."""
    namespace = _records.namespace_id(db, name) or 0
    sql = "SELECT id FROM vector_set WHERE namespace = ? AND fingerprint = ? AND dimensions = ?"
    row = db.execute(sql, (namespace, embedder.fingerprint, embedder.dimensions)).fetchone()
    if row is None:
        target = _records.new_set(db, namespace, embedder.fingerprint, embedder.dimensions)
    else:
        target = VectorSet(id=row[0], fingerprint=embedder.fingerprint, dimensions=embedder.dimensions)
    first = target.id * SPAN
    (done,) = db.execute("SELECT count(*) FROM vector WHERE id > ? AND id < ?", (first, first + SPAN)).fetchone()
    sql = "SELECT count(*) FROM record WHERE namespace = ? AND text <> ''"
    (total,) = db.execute(sql, (namespace,)).fetchone()
    return _Work(
        db=file,
        name=name,
        namespace=namespace,
        bound=bound,
        target=target,
        embedder=embedder,
        done=done,
        total=total,
    )


def _missing(db: sqlite3.Connection, work: _Work) -> list[tuple[int, str]]:
    """The next records that lack their new vectors; a record that is stored again has a new and greater id."""
    return db.execute(_MISSING, (work.target.id * SPAN, work.namespace, work.cursor, work.stride.size)).fetchall()


async def _embed(work: _Work, rows: Sequence[tuple[int, str]]) -> None:
    vectors = await _vectors_of(work.embedder, [text for _, text in rows])
    await work.db.write(lambda db: _put(db, work, rows, vectors))
    work.cursor = rows[-1][0] if rows else work.cursor
    work.done += len(rows)


async def _finish(work: _Work) -> bool:
    """
    The last few records and the switch, in one transaction; false when there are more than a few.

    Were they embedded before the transaction, steady writers could keep it from ever finding nothing missing.
    """
    loop = asyncio.get_running_loop()

    def last(db: sqlite3.Connection) -> int | None:
        rows = _missing(db, work)
        if len(rows) >= work.stride.size:
            return None
        embedding = asyncio.run_coroutine_threadsafe(_vectors_of(work.embedder, [text for _, text in rows]), loop)
        _put(db, work, rows, embedding.result(LAST_SECONDS))
        _records.activate(db, work.namespace, work.target)
        return len(rows)

    embedded = await work.db.write(last)
    work.done += embedded or 0
    return embedded is not None


def _put(db: sqlite3.Connection, work: _Work, rows: Sequence[tuple[int, str]], vectors: Sequence[list[Any]]) -> None:
    active = _records.active_set(db, work.namespace)
    there = db.execute("SELECT 1 FROM vector_set WHERE id = ?", (work.target.id,)).fetchone()
    if there is None or active not in (work.bound, work.target):
        raise Conflict(
            f"{work.name}: it was given other vectors meanwhile; begin again", resource="memory", id=work.name
        )
    living = "SELECT 1 FROM record WHERE id = ?"
    for (record, _), found in zip(rows, vectors, strict=True):
        if found and db.execute(living, (record,)).fetchone():
            _records.put_vectors(db, work.target, record, found)


async def _vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[list[Any]]:
    parts = [[piece.text for piece in pieces(text)] for text in texts]
    flat = [part for some in parts for part in some]
    vectors = iter([unit(vector) for vector in await embedder.embed(flat, kind="document")] if flat else [])
    nothing = array("f", bytes(4 * embedder.dimensions))
    found: list[list[Any]] = []
    for some in parts:
        own = [next(vectors) for _ in some]
        found.append([vector or nothing for vector in own] if any(own) else [])
    return found
