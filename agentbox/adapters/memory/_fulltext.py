"""
Full text by FTS5: a table of its own for each namespace, so that neither words nor their statistics cross over.

A row is one piece of one record; only words go in, so nothing that a user writes is ever query syntax.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from agentbox.adapters.memory._text import MAX_PIECES, pieces, words

__all__ = ["drop", "put", "ranked"]

MAX_TERMS = 256
"""So many words of a query are looked for."""


def put(db: sqlite3.Connection, namespace: int, record: int, text: str) -> None:
    """Add the pieces of a record's text."""
    rows = _rows(record, text)
    if not rows:
        return
    (has_text,) = db.execute("SELECT has_text FROM namespace WHERE id = ?", (namespace,)).fetchone()
    if not has_text:
        db.execute(f"CREATE VIRTUAL TABLE fts_{namespace} USING fts5 (words, content='', tokenize='unicode61')")
        db.execute("UPDATE namespace SET has_text = 1 WHERE id = ?", (namespace,))
    db.executemany(f"INSERT INTO fts_{namespace} (rowid, words) VALUES (?, ?)", rows)


def drop(db: sqlite3.Connection, namespace: int, record: int, text: str) -> None:
    """Remove the pieces of a record, which were put with this text."""
    if rows := _rows(record, text):
        db.executemany(f"INSERT INTO fts_{namespace} (fts_{namespace}, rowid, words) VALUES ('delete', ?, ?)", rows)


def ranked(db: sqlite3.Connection, namespace: int, query: str) -> Iterator[tuple[int, int, float]]:
    """Record, number of the piece, and BM25, the better the greater, best first; every word of *query* counts."""
    terms = list(dict.fromkeys(words(query)))[:MAX_TERMS]
    (has_text,) = db.execute("SELECT has_text FROM namespace WHERE id = ?", (namespace,)).fetchone()
    if not terms or not has_text:
        return
    match = " OR ".join(f'"{term}"' for term in terms)
    sql = f"SELECT rowid, bm25(fts_{namespace}) FROM fts_{namespace} WHERE fts_{namespace} MATCH ? ORDER BY rank"
    for rowid, rank in db.execute(sql, (match,)):
        yield rowid // MAX_PIECES, rowid % MAX_PIECES, -rank


def _rows(record: int, text: str) -> list[tuple[int, str]]:
    found = ((number, " ".join(words(piece.text))) for number, piece in enumerate(pieces(text)))
    return [(record * MAX_PIECES + number, line) for number, line in found if line]
