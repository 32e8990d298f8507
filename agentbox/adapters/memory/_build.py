"""
Building index files beside a running store, in any process, one at a time.

Reads in short transactions, so that writers go on; the new file replaces older ones in one transaction.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from agentbox.adapters.memory._records import VectorSet, active_set, namespace_id
from agentbox.adapters.memory._segment import SegmentRow, checksum_of, listed, mapped, new_index, save, usearch
from agentbox.adapters.memory._tables import SPAN
from agentbox.adapters.memory._text import MAX_PIECES
from agentbox.adapters.memory._vectors import numpy

__all__ = ["Builder"]

WHOLE = 200_000
"""Up to so many entries are kept in one file, whatever it costs to write it anew."""

SLACK = 4
"""A file is written anew with what is newer when that is at least this part of it."""

DEAD = 5
"""A file of which this part is dead is built from scratch."""

BATCH = 512
SAMPLE = 128
EFFORTS = (32, 36, 40, 44, 48, 52, 56, 64, 72, 80, 96, 128, 192, 256, 384, 512, 768, 1024)
RECALL = 0.99
RUBBISH_SECONDS = 60.0
"""For so long a file that was replaced stays, for those who have just read its name."""


@attrs.frozen
class Plan:
    """What to build: kept files, and the one that grows, or None to begin from scratch; `first` record to be added."""

    replaced: tuple[SegmentRow, ...]
    grows: SegmentRow | None
    first: int
    last: int
    gone: int


class _Stopped(Exception):
    """The store is being closed, or what was planned cannot be."""


class Builder:
    """Builds the index of one set when that is due. Works on a connection of the calling thread's own."""

    def __init__(
        self, db: sqlite3.Connection, folder: Path, *, threads: int, stopped: Callable[[], bool], tail: int
    ) -> None:
        self._db = db
        self._folder = folder
        self._threads = threads
        self._stopped = stopped
        self._tail = tail

    def run(self, name: str) -> bool:
        """Build the index of that namespace if it is due and nobody else does; whether a new file is in use."""
        namespace = namespace_id(self._db, name)
        vectors = None if namespace is None else active_set(self._db, namespace)
        if namespace is None or vectors is None or usearch() is None:
            return False
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with _alone(self._folder / "lock") as alone:
            plan = self._plan(namespace, vectors) if alone else None
            return plan is not None and self._follow(plan, namespace, vectors)

    def _follow(self, plan: Plan, namespace: int, vectors: VectorSet) -> bool:
        try:
            index = self._index(plan, vectors)
            effort = self._effort(index, vectors, plan)
        except _Stopped:
            return False
        self._publish(namespace, vectors.id, plan, index, effort)
        self._clean()
        return True

    def _plan(self, namespace: int, vectors: VectorSet) -> Plan | None:
        db = self._db
        db.execute("BEGIN")
        try:
            segments = listed(db, vectors.id, self._folder)
            start = segments[-1].last if segments else 0
            base = vectors.id * SPAN
            size, last = db.execute(
                "SELECT coalesce(sum(length(data)), 0), max(id) - ? FROM vector WHERE id > ? AND id < ?",
                (base, base + start, base + SPAN),
            ).fetchone()
            (gone,) = db.execute("SELECT coalesce(max(seq), 0) FROM gone").fetchone()
            rotten = self._rotten(namespace, segments)
        finally:
            db.execute("COMMIT")
        tail = size // (4 * vectors.dimensions)
        if rotten:
            return Plan(tuple(segments), None, 0, last or start, gone)
        if tail < self._tail:
            return None
        return _merging(segments, tail, last, gone)

    def _rotten(self, namespace: int, segments: list[SegmentRow]) -> bool:
        dead = sum(
            self._db.execute(
                "SELECT count(*) FROM gone WHERE namespace = ? AND seq > ? AND record BETWEEN ? AND ?",
                (namespace, segment.gone, segment.first, segment.last),
            ).fetchone()[0]
            for segment in segments
        )
        return bool(dead) and dead * DEAD > sum(segment.entries for segment in segments)

    def _index(self, plan: Plan, vectors: VectorSet) -> Any:
        """The new index, in memory."""
        index = new_index(vectors.dimensions)
        if plan.grows is not None:
            path = self._folder / plan.grows.file
            if mapped(path, vectors.dimensions) is None:
                raise _Stopped  # the next run does not count on that file
            index.load(os.fspath(path))
        for labels, matrix in self._batches(vectors, plan.first, plan.last):
            index.add(labels, matrix, threads=self._threads, copy=True)
        return index

    def _batches(self, vectors: VectorSet, first: int, last: int) -> Iterator[tuple[Any, Any]]:
        """Labels and vectors of the records from *first* to *last*. Raises _Stopped."""
        np, base, dimensions = numpy(), vectors.id * SPAN, vectors.dimensions
        while rows := self._db.execute(
            "SELECT id - ?, data FROM vector WHERE id >= ? AND id <= ? ORDER BY id LIMIT ?",
            (base, base + first, base + last, BATCH),
        ).fetchall():
            if self._stopped():
                raise _Stopped
            matrix = np.frombuffer(b"".join([data for _, data in rows]), dtype="f4").reshape(-1, dimensions)
            labels = [
                record * MAX_PIECES + piece for record, data in rows for piece in range(len(data) // (4 * dimensions))
            ]
            yield np.array(labels, dtype="u8"), matrix
            first = rows[-1][0] + 1

    def _effort(self, index: Any, vectors: VectorSet, plan: Plan) -> int:
        """How many candidates must be kept to find nearly all of what an exact search would, tried on a sample."""
        np = numpy()
        first = plan.grows.first if plan.grows else plan.first
        queries = self._sample(vectors, first, plan.last)
        if not len(queries):  # all have been deleted
            return EFFORTS[-1]
        best = np.full((len(queries), 10), -2.0, dtype="f4")
        for _, matrix in self._batches(vectors, first, plan.last):
            found = np.concatenate([best, queries @ matrix.T], axis=1)
            best = -np.partition(-found, 9, axis=1)[:, :10]
        least = best.min(axis=1) - 1e-3
        for effort in EFFORTS:
            index.expansion_search = effort
            near = 1.0 - index.search(queries, min(10, len(index)), threads=self._threads).distances
            if (near >= least[:, None]).mean() >= RECALL:
                return effort
        return EFFORTS[-1]

    def _sample(self, vectors: VectorSet, first: int, last: int) -> Any:
        """Vectors like those that are stored, but not themselves."""
        np, base, dimensions = numpy(), vectors.id * SPAN, vectors.dimensions
        random = np.random.default_rng(0)
        places = sorted(random.integers(first, last, size=SAMPLE, endpoint=True).tolist())
        sql = "SELECT data FROM vector WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1"
        found = [self._db.execute(sql, (base + place, base + last)).fetchone() for place in places]
        rows = np.array([np.frombuffer(row[0], dtype="f4")[:dimensions] for row in found if row])
        rows = rows.reshape(-1, dimensions)
        rows = rows + 0.5 * random.standard_normal(rows.shape, dtype="f4") / np.sqrt(dimensions)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("f4")

    def _publish(self, namespace: int, vectors: int, plan: Plan, index: Any, effort: int) -> None:
        name = f"{vectors}-{uuid.uuid4().hex}.usearch"
        entries = len(index)
        size, checksum = (save(index, self._folder / name), checksum_of(self._folder / name)) if entries else (0, 0)
        first = plan.grows.first if plan.grows else plan.first
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            # Files that were lost or spoilt have rows too; whatever this one covers, it replaces.
            db.execute("DELETE FROM segment WHERE vectors = ? AND last >= ?", (vectors, first))
            if entries and db.execute("SELECT 1 FROM vector_set WHERE id = ?", (vectors,)).fetchone():
                db.execute(
                    "INSERT INTO segment (vectors, file, bytes, entries, first, last, gone, effort, checksum)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (vectors, name, size, entries, first, plan.last, _gone(plan), effort, checksum),
                )
            self._forget(namespace, vectors)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        for row in plan.replaced:
            os.utime(self._folder / row.file)

    def _forget(self, namespace: int, vectors: int) -> None:
        """Remove the rows of `gone` that no file needs any more."""
        (least,) = self._db.execute("SELECT min(gone) FROM segment WHERE vectors = ?", (vectors,)).fetchone()
        if least:
            self._db.execute("DELETE FROM gone WHERE namespace = ? AND seq <= ?", (namespace, least))
            self._db.execute("UPDATE namespace SET forgotten = max(forgotten, ?) WHERE id = ?", (least, namespace))

    def _clean(self) -> None:
        known = {row[0] for row in self._db.execute("SELECT file FROM segment")}
        for path in self._folder.glob("*.[ut][sm]*"):
            if path.name not in known and path.stat().st_mtime < time.time() - RUBBISH_SECONDS:
                path.unlink(missing_ok=True)


def _merging(segments: list[SegmentRow], tail: int, last: int, gone: int) -> Plan:
    """Merge what is newer with as many of the youngest files as are not much larger."""
    size, merged = tail, list[SegmentRow]()
    for segment in reversed(segments):
        if segment.entries > max(WHOLE, SLACK * size):
            break
        merged.insert(0, segment)
        size += segment.entries
    if not merged:
        return Plan((), None, segments[-1].last + 1 if segments else 0, last, gone)
    return Plan(tuple(merged), merged[0], merged[0].last + 1, last, gone)


def _gone(plan: Plan) -> int:
    """From where on `gone` tells what is dead in the new file: what it grew from has dead entries of its own."""
    return plan.gone if plan.grows is None else plan.grows.gone


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other process, and no other thread, is in here; the lock goes with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
