"""Clustered vectors, and stores of memory filled with them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from agentbox.adapters._sqlite import PRAGMAS, Database
from agentbox.adapters.memory import _records
from agentbox.adapters.memory._build import Builder
from agentbox.adapters.memory._records import Draft
from agentbox.adapters.memory._tables import migrate
from agentbox.app import open_app
from agentbox_contracts.memory import Memory

__all__ = ["DIMENSIONS", "Clusters", "brute", "connection", "draft", "fill", "index", "memory_of", "metadata"]

DIMENSIONS = 384
CHUNK = 10_000
MANIFEST = """
[state]
path = "."

[adapters]
beads = "off"
pods = "off"
events = "off"
memory = "embedded"
"""


class Clusters:
    """Vectors around centres, as those of texts about some subjects are: each as near to its centre as texts are."""

    def __init__(self, count: int = 500, spread: float = 1.0, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = self._random.standard_normal((count, DIMENSIONS), dtype="f4")
        self._spread = spread

    def draw(self, count: int) -> Any:
        """So many vectors of unit length."""
        chosen = self._random.integers(0, len(self._centres), count)
        drawn = self._centres[chosen] + self._spread * self._random.standard_normal((count, DIMENSIONS), dtype="f4")
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def fill(folder: Path, chunks: Iterator[Any], namespace: str = "default") -> None:
    """
    A store with these vectors, a record each: `k0` and on.

    Metadata have members `half`, `tenth` and `hundredth`, which are 0 for that part of the records.
    """
    folder.mkdir(exist_ok=True)
    with closing(connection(folder)) as db:
        for pragma in ("PRAGMA synchronous=OFF", "PRAGMA cache_size=-200000"):
            db.execute(pragma)
        db.execute("BEGIN IMMEDIATE")
        migrate(db)
        number = 0
        for chunk in chunks:
            for vector in chunk:
                _records.store(db, draft(number, vector, namespace), 1_000_000 + number, None)
                number += 1
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def connection(folder: Path) -> sqlite3.Connection:
    """A plain connection to the store in *folder*, with the adapter's pragmas, in autocommit mode."""
    db = sqlite3.connect(folder / "memory.db", isolation_level=None, timeout=20)
    for pragma in ("PRAGMA journal_mode=WAL", *PRAGMAS):
        db.execute(pragma)
    return db


def metadata(number: int) -> dict[str, int]:
    """What the record of that number has."""
    spread = number * 2_654_435_761 % 2**32  # so that neighbours in one member are none in another
    return {"half": spread % 2, "tenth": spread // 7 % 10, "hundredth": spread // 77 % 100}


def draft(number: int, vector: Any, namespace: str = "default") -> Draft:
    """The record of that number."""
    return Draft(
        key=f"k{number}",
        namespace=namespace,
        value=msgspec.json.encode(number),
        metadata=metadata(number),
        text="",
        hash=number.to_bytes(16, "big"),
        vectors=[vector],
        fingerprint=f"vector:{DIMENSIONS}",
        source=None,
        session_id=None,
        bead_id=None,
    )


def index(folder: Path, namespace: str = "default") -> None:
    """Build what index is due, with every core."""
    with closing(Database(folder / "memory.db", busy_timeout_seconds=20).connection()) as db:
        builder = Builder(db, folder / "memory.index", threads=os.cpu_count() or 1, stopped=lambda: False, tail=10_000)
        while builder.run(namespace):
            pass


@asynccontextmanager
async def memory_of(folder: Path) -> AsyncIterator[Memory]:
    """`app.adapters.memory` of an app whose state folder is *folder*."""
    manifest = folder / "agentbox.toml"
    manifest.write_text(MANIFEST)
    async with open_app(manifest) as app:
        assert app.slots["memory"].failure == "", app.slots["memory"].failure
        yield app.adapters.memory


def brute(queries: Any, vectors: Any, count: int = 10) -> Any:
    """For each query the places of the nearest vectors."""
    best = [
        np.argpartition(-(queries[i : i + 50] @ vectors.T), count, axis=1)[:, :count]
        for i in range(0, len(queries), 50)
    ]
    return np.concatenate(best)
