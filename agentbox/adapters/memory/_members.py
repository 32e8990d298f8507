"""
Members of metadata as rows of an index, and filters as the ids of the records that pass.

Every top-level member of every record is a row (namespace, name, kind, value, record), so that a comparison reads no
more rows than it lets pass.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from agentbox.adapters.memory._filters import All, Any_, Compare, Equal, Exists, Filter, Not, fits, kind_of, nearest

__all__ = ["drop", "ids_where", "ids_with_prefix", "put", "successor"]

NUMBER, TEXT, OTHER, NESTED = 0, 1, 2, 3
LIMIT = 2**63
"""SQLite has integers from -LIMIT to below LIMIT, and compares them and floats exactly."""
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MEMBER = "SELECT record FROM member WHERE namespace = ? AND name = ?"


def put(db: sqlite3.Connection, namespace: int, record: int, metadata: Mapping[str, Any]) -> None:
    """Add the members of a record."""
    db.executemany("INSERT INTO member VALUES (?, ?, ?, ?, ?)", _rows(namespace, record, metadata))


def drop(db: sqlite3.Connection, namespace: int, record: int, metadata: Mapping[str, Any]) -> None:
    """Remove the members of a record, which were put with this metadata."""
    db.executemany(
        "DELETE FROM member WHERE namespace = ? AND name = ? AND kind = ? AND value = ? AND record = ?",
        _rows(namespace, record, metadata),
    )


def ids_where(db: sqlite3.Connection, namespace: int, filter: Filter) -> set[int]:
    """The records of the namespace that pass."""
    match filter:
        case Equal(name, values):
            return set().union(*(_compared(db, namespace, Equal(name, (value,)), value, "=") for value in values))
        case Compare(_, order, value):
            return _compared(db, namespace, filter, value, _SIGNS[order])
        case Exists(name):
            return _ids(db, _MEMBER, namespace, name)
        case Not(part):
            return _everything(db, namespace) - ids_where(db, namespace, part)
        case All(parts):
            sets = [ids_where(db, namespace, part) for part in parts]
            return set.intersection(*sets) if sets else _everything(db, namespace)
        case Any_(parts):
            return set().union(*(ids_where(db, namespace, part) for part in parts))


def _compared(db: sqlite3.Connection, namespace: int, filter: Equal | Compare, value: Any, sign: str) -> set[int]:
    """The records whose member stands to *value* as *sign*, and so *filter*, says."""
    held = _row(value)
    found = _ids(db, f"{_MEMBER} AND kind = ? AND value {sign} ?", namespace, filter.name, *held)
    if held[0] != NUMBER or -LIMIT < value < LIMIT:
        return found
    # Whatever is held as the same float may be less or greater, or the same: the metadata tells.
    near = db.execute(
        "SELECT id, metadata FROM member JOIN record ON record.id = member.record"
        " WHERE member.namespace = ? AND name = ? AND kind = ? AND member.value = ?",
        (namespace, filter.name, *held),
    ).fetchall()
    same = {record for record, metadata in near if fits(filter, msgspec.json.decode(metadata))}
    return found.difference(record for record, _ in near) | same


def ids_with_prefix(db: sqlite3.Connection, namespace: int, prefix: str) -> set[int]:
    """The records of the namespace whose keys begin with *prefix*."""
    end = successor(prefix)
    if end is None:
        return _ids(db, "SELECT id FROM record WHERE namespace = ? AND key >= ?", namespace, prefix)
    return _ids(db, "SELECT id FROM record WHERE namespace = ? AND key >= ? AND key < ?", namespace, prefix, end)


def _ids(db: sqlite3.Connection, sql: str, *values: Any) -> set[int]:
    return {row[0] for row in db.execute(sql, values)}


def _everything(db: sqlite3.Connection, namespace: int) -> set[int]:
    return _ids(db, "SELECT id FROM record WHERE namespace = ?", namespace)


def _rows(namespace: int, record: int, metadata: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(namespace, name, *_row(value), record) for name, value in metadata.items()]


def _row(value: Any) -> tuple[int, Any]:
    """Kind and value as the index holds them. An integer beyond 64 bits with a sign is held as the nearest float."""
    kind = kind_of(value)
    if kind == "text":
        return TEXT, value
    if kind == "number":
        return NUMBER, value if -LIMIT <= value < LIMIT else nearest(value)
    return (OTHER, str(value)) if value is None or isinstance(value, bool) else (NESTED, "")


def successor(prefix: str) -> str | None:
    """The first text, by code point, after everything that begins with *prefix*; None when there is no such text."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)
