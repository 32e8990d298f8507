"""Stores of beads filled with plain SQL, and an app that opens one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentbox.adapters._sqlite import PRAGMAS
from agentbox.adapters.beads._tables import migrate
from agentbox.app import open_app
from agentbox_contracts.beads import Beads

__all__ = ["beads_of", "connection", "fill", "fill_mixed"]

MANIFEST = """
[state]
path = "."

[adapters]
pods = "off"
memory = "off"
events = "{events}"
"""

_NUMBERS = "WITH RECURSIVE numbers (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM numbers WHERE i < ?1)"
_COLUMNS = "id, uid, kind, title, description, tags, metadata, created_at, updated_at"
_VALUES = "'bd-' || i, printf('%032x', i), 'epic', 'bead ' || i, '', '[]', '{}', i, i"


@asynccontextmanager
async def beads_of(folder: Path, *, events: str = "off") -> AsyncIterator[Beads]:
    """`app.adapters.beads` of an app whose state folder is *folder*. With *events* every change is told."""
    manifest = folder / "agentbox.toml"
    manifest.write_text(MANIFEST.format(events=events))
    async with open_app(manifest) as app:
        assert app.slots["beads"].failure == "", app.slots["beads"].failure
        yield app.adapters.beads


def connection(folder: Path) -> sqlite3.Connection:
    """A plain connection to the store in *folder*, with the adapter's pragmas, in autocommit mode."""
    folder.mkdir(exist_ok=True)
    db = sqlite3.connect(folder / "beads.db", isolation_level=None, timeout=20)
    for pragma in ("PRAGMA journal_mode=WAL", *PRAGMAS):
        db.execute(pragma)
    return db


def fill(folder: Path, count: int) -> None:
    """A store with *count* open beads, `bd-1` and on."""
    _run(
        folder,
        count,
        f"{_NUMBERS} INSERT INTO bead ({_COLUMNS}, status, priority, depends_on, ready)"
        f" SELECT {_VALUES}, 'open', 1, '[]', 1 FROM numbers",
    )


def fill_mixed(folder: Path, count: int) -> None:
    """
    A store with *count* beads of every priority: a third wait for the one before them, one in thirty is held under a
    lease that has run out and that nobody has noticed, and one in thirty under a lease that lasts.
    """
    now = time.time_ns() // 1000
    _run(
        folder,
        count,
        f"{_NUMBERS} INSERT INTO bead ({_COLUMNS}, status, priority, depends_on, open_blockers, holder, fence,"
        f" claimed_at, lease_until, ready)"
        f" SELECT {_VALUES}, iif(i % 30 IN (1, 4), 'claimed', 'open'), i % 10,"
        " iif(i % 3 = 0, '[\"bd-' || (i - 1) || '\"]', '[]'), i % 3 = 0,"
        " iif(i % 30 IN (1, 4), 'somebody', NULL), i % 30 IN (1, 4), iif(i % 30 IN (1, 4), i, NULL),"
        f" CASE i % 30 WHEN 1 THEN {now - 1_000_000} WHEN 4 THEN {now + 86_400_000_000} END,"
        " i % 3 <> 0 AND i % 30 NOT IN (1, 4) FROM numbers",
        f"{_NUMBERS} INSERT INTO dependency SELECT 'bd-' || i, 'bd-' || (i - 1) FROM numbers WHERE i % 3 = 0",
    )


def _run(folder: Path, count: int, *statements: str) -> None:
    db = connection(folder)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("BEGIN IMMEDIATE")
    migrate(db)
    for statement in statements:
        db.execute(statement, (count,))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
