"""Merge the records of a file with a store in Postgres, in one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agentbox.adapters._postgres import transaction
from agentbox.adapters.beads._facts import Caller
from agentbox.adapters.beads._jsonl import Record
from agentbox.adapters.beads._pg_outbox import tell_merged
from agentbox.adapters.beads._pg_sql import ALL, GRAPH_LOCK
from agentbox.adapters.beads._pg_tables import NAMES, bead_of
from agentbox.adapters.beads._plan import Plan, plan
from agentbox.adapters.beads._rules import own_number
from agentbox_contracts.beads import Bead
from agentbox_contracts.wire import decode, encode

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["merge"]

_WHOLE_TABLES = ("SET LOCAL enable_seqscan = on", "SET LOCAL enable_bitmapscan = on")
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Reading goes on; writers wait until we are done, so that what the plan was made of is what it is applied to.
_WRITERS_WAIT = "LOCK TABLE bead IN SHARE ROW EXCLUSIVE MODE"

_STORED = [*(name for name in NAMES if name not in ("depends_on", "open_blockers", "open_children")), "number"]
_MARKS = ", ".join(f"${number}" for number, _ in enumerate(_STORED, start=1))
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in (*_STORED, "ready") if name not in ("id", "uid"))
_STORE = (
    f"INSERT INTO bead ({', '.join(_STORED)}, ready) VALUES ({_MARKS}, false)"
    f" ON CONFLICT (uid) DO UPDATE SET {_CHANGES}"
)
# What waits for what is derived from the merged beads: cheaper to count anew than to follow every change.
_RECOUNT = """
UPDATE bead SET open_blockers = counted.blockers, open_children = counted.children, dependents = counted.dependents,
    last_child = counted.last_child, ready = counted.ready
FROM (
    SELECT seq, blockers, children, waiting AS dependents, greatest(bead.last_child, highest) AS last_child,
        status = 'open' AND blockers = 0 AND children = 0 AS ready
    FROM bead, LATERAL (
        SELECT count(*) FILTER (WHERE other.outcome IS DISTINCT FROM 'done') AS blockers
        FROM dependency JOIN bead AS other ON other.id = dependency.blocker WHERE dependency.bead = bead.id
    ) AS waited_for, LATERAL (
        SELECT count(*) AS waiting FROM dependency WHERE dependency.blocker = bead.id
    ) AS waiting_for, LATERAL (
        SELECT count(*) FILTER (WHERE child.status <> 'closed') AS children, coalesce(max(child.number), 0) AS highest
        FROM bead AS child WHERE child.parent = bead.id
    ) AS below
) AS counted
WHERE bead.seq = counted.seq AND (bead.open_blockers, bead.open_children, bead.dependents, bead.last_child, bead.ready)
    IS DISTINCT FROM (counted.blockers, counted.children, counted.dependents, counted.last_child, counted.ready)
"""


async def merge(db: Connection, records: list[Record], direction: str, caller: Caller | None) -> Plan:
    """Bring *records* into the store unless only exporting; give what was done and what the file should hold then."""
    async with transaction(db, _SNAPSHOT, *_WHOLE_TABLES):
        found = await _planned(db, records, direction)
    if found.is_empty:
        return found
    async with transaction(db, GRAPH_LOCK, _WRITERS_WAIT, *_WHOLE_TABLES):
        found = await _planned(db, records, direction)
        await _apply(db, found)
        if caller is not None:
            await tell_merged(db, found, caller)
    return found


async def _planned(db: Connection, records: list[Record], direction: str) -> Plan:
    rows, graves = await db.fetch(ALL), await db.fetch("SELECT uid, record FROM tombstone")

    def work() -> Plan:
        tombstones = {uid: decode(text, dict[str, Any]) for uid, text in graves}
        return plan(map(bead_of, rows), tombstones, records, direction)

    return await asyncio.to_thread(work)


async def _apply(db: Connection, found: Plan) -> None:
    await db.execute("DELETE FROM dependency WHERE bead = ANY($1) OR blocker = ANY($1)", found.deleted)
    await db.execute("DELETE FROM bead WHERE id = ANY($1)", found.deleted)
    await db.executemany(_STORE, [_row(bead) for bead in found.stored])
    await db.execute("DELETE FROM dependency WHERE bead = ANY($1)", list(found.linked))
    links = [(bead_id, blocker) for bead_id, blockers in found.linked.items() for blocker in blockers]
    await db.executemany("INSERT INTO dependency (bead, blocker) VALUES ($1, $2)", links)
    await db.executemany("UPDATE bead SET depends_on = $2 WHERE id = $1", list(found.linked.items()))
    graves = [(uid, encode(record).decode()) for uid, record in found.graves.items()]
    await db.executemany("INSERT INTO tombstone VALUES ($1, $2) ON CONFLICT DO NOTHING", graves)
    await db.execute(_RECOUNT)


def _row(bead: Bead) -> tuple[Any, ...]:
    values: dict[str, Any] = {
        "parent": bead.parent_id,
        "metadata": encode(bead.metadata).decode(),
        "lease_until": bead.lease_expires_at,
        "number": own_number(bead),
    }
    return tuple(values[name] if name in values else getattr(bead, name) for name in _STORED)
