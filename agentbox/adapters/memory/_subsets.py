"""What filters and key prefixes let pass, remembered and kept true while records come and go."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import TypeAlias

import attrs
import msgspec

from agentbox.adapters.memory._filters import EVERYTHING, Filter, fits
from agentbox.adapters.memory._members import ids_where, ids_with_prefix
from agentbox.adapters.memory._vectors import Subset, subset

__all__ = ["Sieve", "Subsets"]

KEPT = 64
"""So many subsets of a namespace are remembered."""

OWN, ID = 1000, 10
"""Bytes that a namespace takes in any case, and one more record in a subset."""

PATCH = 5000
"""With more changes than this, it is cheaper to ask anew."""


@attrs.frozen
class Sieve:
    """What a search lets pass: a filter over metadata and a prefix of keys."""

    filter: Filter
    prefix: str

    @property
    def is_narrow(self) -> bool:
        """Whether there is anything that it could keep back."""
        return bool(self.prefix) or self.filter != EVERYTHING

    def passes(self, key: str, metadata: bytes) -> bool:
        """Whether a record passes."""
        return key.startswith(self.prefix) and fits(self.filter, msgspec.json.decode(metadata))


Row: TypeAlias = tuple[int, str, bytes]


class Subsets:
    """The subsets of one namespace."""

    def __init__(self, namespace: int) -> None:
        self._namespace = namespace
        self._kept: OrderedDict[bytes, tuple[Sieve, Subset]] = OrderedDict()
        self._last = 0
        self._gone = 0

    def get(self, db: sqlite3.Connection, name: bytes, sieve: Sieve) -> Subset:
        """The records that pass *sieve*, which *name* stands for; `sync` came before."""
        if (kept := self._kept.get(name)) is not None:
            self._kept.move_to_end(name)
            return kept[1]
        ids = ids_where(db, self._namespace, sieve.filter)
        if sieve.prefix:
            ids &= ids_with_prefix(db, self._namespace, sieve.prefix)
        found = subset(ids)
        self._kept[name] = (sieve, found)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    @property
    def size(self) -> int:
        """About how many bytes this takes."""
        return OWN + sum(len(name) + ID * len(kept) for name, (_, kept) in self._kept.items())

    def sync(self, db: sqlite3.Connection) -> None:
        """Bring what is remembered up to the snapshot of *db*."""
        if not self._kept:
            self._skip(db)
            return
        removed = db.execute(
            "SELECT seq, record FROM gone WHERE namespace = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self._namespace, self._gone, PATCH + 1),
        ).fetchall()
        added: list[Row] = db.execute(
            "SELECT id, key, metadata FROM record WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?",
            (self._namespace, self._last, PATCH + 1),
        ).fetchall()
        (forgotten,) = db.execute("SELECT forgotten FROM namespace WHERE id = ?", (self._namespace,)).fetchone()
        if forgotten > self._gone or len(removed) > PATCH or len(added) > PATCH:
            self._kept.clear()
            self._skip(db)
        elif added or removed:
            self._patch(added, [record for _, record in removed])
            self._last = added[-1][0] if added else self._last
            self._gone = removed[-1][0] if removed else self._gone

    def _patch(self, added: list[Row], removed: list[int]) -> None:
        for name, (sieve, known) in self._kept.items():
            passing = [record for record, key, metadata in added if sieve.passes(key, metadata)]
            self._kept[name] = (sieve, known.changed(passing, removed))

    def _skip(self, db: sqlite3.Connection) -> None:
        sql = "SELECT coalesce(max({}), 0) FROM {} WHERE namespace = ?"
        (self._last,) = db.execute(sql.format("id", "record"), (self._namespace,)).fetchone()
        (seen,) = db.execute(sql.format("seq", "gone"), (self._namespace,)).fetchone()
        (forgotten,) = db.execute("SELECT forgotten FROM namespace WHERE id = ?", (self._namespace,)).fetchone()
        self._gone = max(seen, forgotten)
