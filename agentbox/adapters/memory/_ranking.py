"""Candidates made into matches: read again from the store, scored exactly, ordered, the same content only once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from agentbox.adapters.memory._tables import COLUMNS, SPAN
from agentbox.adapters.memory._text import pieces
from agentbox.adapters.memory._vectors import Hit, cosines

__all__ = [
    "Found",
    "Reader",
    "Row",
    "best_records",
    "merged",
    "ordered",
    "passage",
    "relevance",
    "scored",
    "similarities",
]

_HASH = len(COLUMNS.split(","))
_TWIN, _VECTORS = _HASH + 1, _HASH + 2

Row: TypeAlias = tuple[Any, ...]


class Found:
    """A living record and what it scored."""

    __slots__ = ("hash", "id", "key", "piece", "row", "score")

    def __init__(self, row: tuple[Any, ...], score: float = 0.0, piece: int | None = None) -> None:
        self.row = row
        self.score = score
        self.piece = piece
        self.id: int = row[0]
        self.key: str = row[1]
        self.hash: bytes = row[_HASH]

    @property
    def is_twin(self) -> bool:
        """Whether other keys have had this content."""
        return bool(self.row[_TWIN])

    @property
    def vectors(self) -> bytes | None:
        data: bytes | None = self.row[_VECTORS]
        return data


class Reader:
    """
    Reads candidates of one namespace on one snapshot, each at most once.

    A row is a record's id, the rest of COLUMNS, its content's hash, whether that has twins, and its vectors or None.
    """

    def __init__(self, db: sqlite3.Connection, vectors: int, now: int) -> None:
        self._db = db
        self._vectors = vectors
        self._now = now
        self._known: dict[int, Row | None] = {}

    def prepare(self, records: Iterable[int]) -> None:
        """Read what will be asked for together."""
        if missing := list({record for record in records if record not in self._known}):
            self._fetch(missing)

    def read(self, records: Iterable[int]) -> list[Row]:
        """Those of *records* that are there and have not expired, in that order."""
        wanted = list(records)
        self.prepare(wanted)
        known = self._known
        return [row for record in wanted if (row := known[record]) is not None]

    def _fetch(self, records: Sequence[int]) -> None:
        for start in range(0, len(records), 500):
            some = records[start : start + 500]
            self._known.update(dict.fromkeys(some))
            # A multiple of eight, so that few different statements are prepared.
            padded = [*some, *[-1] * (-len(some) % 8)]
            rows = self._db.execute(
                f"SELECT {COLUMNS}, record.hash, record.twin, vector.data FROM record"
                " LEFT JOIN vector ON vector.id = ? + record.id"
                f" WHERE record.id IN ({', '.join('?' * len(padded))})"
                " AND (record.expires_at IS NULL OR record.expires_at > ?)",
                (self._vectors * SPAN, *padded, self._now),
            )
            self._known.update({row[0]: row for row in rows.fetchall()})


def best_records(hits: Iterable[Hit]) -> list[Hit]:
    """The best hit of each record, in order."""
    best: dict[int, float] = {}
    for score, record in hits:
        best.setdefault(record, score)
    return [(score, record) for record, score in best.items()]


def ordered(found: Iterable[Found]) -> list[Found]:
    """By score, then by key."""
    return sorted(found, key=lambda f: (-f.score, f.key))


def merged(some: list[Found], more: list[Found]) -> list[Found]:
    """Two ordered lists as one."""
    return ordered([*some, *more]) if some else more


def scored(query: Any, rows: Sequence[Row], known: Mapping[int, float]) -> list[Found]:
    """Those that have vectors, with their exact similarity to *query*, in order; *known* are some already."""
    chosen = [row for row in rows if row[_VECTORS]]
    if missing := [row for row in chosen if row[0] not in known]:
        found = cosines([query], [[row[_VECTORS] for row in missing]])[0]
        known = {**known, **{row[0]: score for row, score in zip(missing, found, strict=True)}}
    return ordered(Found(row, known[row[0]]) for row in chosen)


def similarities(queries: Sequence[Any], rows: Sequence[Sequence[Row]]) -> list[dict[int, float]]:
    """For each query its exact similarity to the records of its own rows, all in one go."""
    chosen = [[row for row in some if row[_VECTORS]] for some in rows]
    found = cosines(queries, [[row[_VECTORS] for row in some] for some in chosen])
    return [{row[0]: score for row, score in zip(*pair, strict=True)} for pair in zip(chosen, found, strict=True)]


def relevance(rank: float) -> float:
    """BM25 as a number between 0 and 1."""
    return rank / (1 + rank) if rank > 0 else 0.0


def passage(db: sqlite3.Connection, found: Found, query: Any, piece: int | None) -> str | None:
    """The piece of the record's text that matched: by text where *piece* says which, else the nearest to *query*."""
    (text,) = db.execute("SELECT text FROM record WHERE id = ?", (found.id,)).fetchone()
    parts = pieces(text)
    if piece is None and query is not None and found.vectors:
        size = 4 * len(query)
        single = [found.vectors[start : start + size] for start in range(0, len(found.vectors), size)]
        (near,) = cosines([query], [single])
        piece = near.index(max(near))
    return parts[piece].text if piece is not None and piece < len(parts) else None
