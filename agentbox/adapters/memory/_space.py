"""
The vectors of one set as one process sees them: index files for most, a block in memory for what is newer.

Only the thread that reads uses it. Everything in it can be had again from the tables.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Literal

from agentbox.adapters.memory import _segment
from agentbox.adapters.memory._records import VectorSet
from agentbox.adapters.memory._segment import Segment, SegmentRow, listed
from agentbox.adapters.memory._tables import SPAN
from agentbox.adapters.memory._text import MAX_PIECES
from agentbox.adapters.memory._vectors import MARGIN, Block, Hit, Subset, block, numpy, subset

__all__ = ["Plan", "Space"]

Plan = Literal["exact", "subset", "index"]

READ_COST, MULTIPLY_COST = 0.03, 0.008
"""Reading a vector of a subset from memory, which some queries share, and comparing it with one query; both as a part
of what one more candidate of an index search costs."""

MOST = 8192
"""No more than this is asked of an index; it would be slower than comparing everything."""

LEAST = 64
"""A block has room for so many vectors in any case."""

ROOM = 64_000_000
"""So many bytes of vectors of subsets are remembered, and one subset in any case."""


class Space:
    """One set of vectors, kept up with the store by `sync`."""

    def __init__(self, namespace: int, vectors: VectorSet, folder: Path) -> None:
        self.vectors = vectors
        self._namespace = namespace
        self._folder = folder
        self._begin([])

    def _begin(self, rows: list[SegmentRow]) -> None:
        self._segments = Segment.opened(rows, self._folder, self.vectors.dimensions)
        rows = [segment.row for segment in self._segments]
        self._tail: Block = block(self.vectors.dimensions)
        self._dead: set[int] = set()
        self._last = rows[-1].last if rows else 0
        self._gone = min((row.gone for row in rows), default=0)
        self._cut: dict[int, tuple[Subset, Block]] = {}

    def __len__(self) -> int:
        return len(self._tail) + sum(segment.row.entries for segment in self._segments) - len(self._dead)

    @property
    def size(self) -> int:
        """About how many bytes of memory this takes; the files are not in it."""
        return self._width * (LEAST + len(self._tail) + sum(len(cut) for _, cut in self._cut.values()))

    @property
    def tail(self) -> int:
        """How many vectors are in no index."""
        return len(self._tail)

    def sync(self, db: sqlite3.Connection) -> None:
        """Bring this up to the snapshot of *db*."""
        rows = listed(db, self.vectors.id, self._folder)
        if rows != [segment.row for segment in self._segments]:
            self._begin(rows)
        self._sync_gone(db)
        first = self.vectors.id * SPAN
        newer = db.execute(
            "SELECT id - ?, data FROM vector WHERE id > ? AND id < ?", (first, first + self._last, first + SPAN)
        )
        while some := newer.fetchmany(4096):
            self._tail.add(some)
            self._last = some[-1][0]

    def _sync_gone(self, db: sqlite3.Connection) -> None:
        (forgotten,) = db.execute("SELECT forgotten FROM namespace WHERE id = ?", (self._namespace,)).fetchone()
        if forgotten > self._gone:
            self._begin([segment.row for segment in self._segments])
            self._gone = max(self._gone, forgotten)
        gone = db.execute(
            "SELECT seq, record FROM gone WHERE namespace = ? AND seq > ? ORDER BY seq", (self._namespace, self._gone)
        ).fetchall()
        if gone:
            records = [record for _, record in gone]
            self._tail.drop(records)
            if self._segments:
                last = self._segments[-1].row.last
                self._dead.update(record for record in records if record <= last)
            self._gone = gone[-1][0]

    def plan(self, among: Subset | None, want: int, queries: int) -> Plan:
        """How the *want* nearest to so many queries are found: by comparing all, or all of a subset, or by an index."""
        if not self._segments:
            return "exact" if among is None else "subset"
        if among is None or len(among) * (READ_COST / queries + MULTIPLY_COST) > self._count(among, want):
            return "index"
        return "subset"

    @property
    def margin(self) -> float:
        """What a hit's similarity may be off by."""
        return _segment.MARGIN if self._segments else MARGIN

    def top(self, db: sqlite3.Connection, queries: Sequence[Any], want: int, among: Subset | None) -> list[list[Hit]]:
        """For each query the *want* most similar vectors, best first; fewer only when there are no more."""
        if not self._segments:
            return self._tail.top(queries, want, among)
        if among is not None and self.plan(among, want, len(queries)) == "subset":
            return self._cut_out(db, among).top(queries, want, None)
        return self._by_index(db, queries, want, among)

    def _count(self, among: Subset | None, want: int) -> int:
        """How many an index must give so that *want* remain of them."""
        entries = sum(segment.row.entries for segment in self._segments)
        passing = entries - len(self._dead) if among is None else min(len(among), entries)
        share = max(passing, 1) / entries
        # About `enough` of them pass, give or take the root of `enough * (1 - share)`: twice that is kept in hand.
        enough = (math.sqrt(1 - share) + math.sqrt(1 - share + want)) ** 2
        return math.ceil(enough / share)

    def _by_index(
        self, db: sqlite3.Connection, queries: Sequence[Any], want: int, among: Subset | None
    ) -> list[list[Hit]]:
        """As many candidates as it takes; where they are too few after all, the query asks again by itself."""
        count, matrix = self._count(among, want), numpy().asarray(queries, dtype="f4")
        candidates = self._ask(matrix, count, among)
        tails = self._tail.top(queries, want, among) if self._tail else [[]] * len(queries)
        found = [self._living(hits, tail) for hits, tail in zip(candidates, tails, strict=True)]
        for number, one in enumerate(found):
            wider = count
            while len(one) < want and (wider := 4 * wider) <= MOST:
                (more,) = self._ask(matrix[number : number + 1], wider, among)
                one = self._living(more, tails[number])
            if len(one) < want:
                everything = among if among is not None else subset(self._every(db))
                (one,) = self._cut_out(db, everything).top([queries[number]], want, None)
            found[number] = one
        return found

    def _ask(self, matrix: Any, count: int, among: Subset | None) -> list[list[Hit]]:
        """For each query what all files give of those that pass, best first."""
        hits: list[list[Hit]] = [[] for _ in matrix]
        for segment in self._segments:
            similarities, labels = segment.search(matrix, count)
            records = (labels // MAX_PIECES).astype("i8")
            found: Iterable[Iterable[Hit]] = map(zip, similarities.tolist(), records.tolist())
            if among is not None:
                found = map(compress, found, among.mask(records.ravel()).reshape(records.shape).tolist())
            for one, more in zip(hits, found, strict=True):
                one.extend(more)
        return hits if len(self._segments) == 1 else [sorted(one, reverse=True) for one in hits]

    def _living(self, hits: list[Hit], tail: list[Hit]) -> list[Hit]:
        """Candidates without what is dead, and with those that are in no index yet."""
        living = [hit for hit in hits if hit[1] not in self._dead] if self._dead else hits
        return sorted([*living, *tail], reverse=True) if tail else living

    def _cut_out(self, db: sqlite3.Connection, among: Subset) -> Block:
        """The vectors of a subset, remembered as long as there is room."""
        kept = self._cut.pop(id(among), None)
        if kept is None:
            kept = (among, self._read(db, among.ids()))
        self._cut[id(among)] = kept
        while len(self._cut) > 1 and sum(len(cut) for _, cut in self._cut.values()) * self._width > ROOM:
            self._cut.pop(next(iter(self._cut)))
        return kept[1]

    @property
    def _width(self) -> int:
        return 4 * self.vectors.dimensions

    def _read(self, db: sqlite3.Connection, records: Sequence[int]) -> Block:
        found, base = block(self.vectors.dimensions), self.vectors.id * SPAN
        for start in range(0, len(records), 500):
            some = [base + record for record in records[start : start + 500]]
            sql = f"SELECT id - ?, data FROM vector WHERE id IN ({', '.join('?' * len(some))}) ORDER BY id"
            found.add(db.execute(sql, (base, *some)).fetchall())
        return found

    def _every(self, db: sqlite3.Connection) -> list[int]:
        base = self.vectors.id * SPAN
        rows = db.execute("SELECT id - ? FROM vector WHERE id >= ? AND id < ?", (base, base, base + SPAN))
        return [row[0] for row in rows]
