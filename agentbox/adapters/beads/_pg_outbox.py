"""The outbox of beads in Postgres: what changed, written down by the statement that changed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agentbox.adapters._postgres import transaction
from agentbox.adapters.beads import _facts
from agentbox.adapters.beads._facts import Caller
from agentbox.adapters.beads._plan import Plan
from agentbox_contracts.events import Event
from agentbox_contracts.outbox import OUTBOX_LEASE_SECONDS, OUTBOX_LIMIT, Letter
from agentbox_contracts.vocabulary import VOCABULARY, Fact, OutboxTrimmed, data_of, source_of

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["leave", "tell", "tell_merged", "trim", "unsent"]

_SAY = "INSERT INTO outbox (type, subject, session_id, execution_id, data) VALUES ($1, $2, $3, $4, $5)"
# A lease that ends later than any could was taken before the clock went back.
_TAKE = f"""
INSERT INTO carrier (name, until) VALUES ($1, now() + interval '{OUTBOX_LEASE_SECONDS} seconds')
ON CONFLICT (one) DO UPDATE SET name = excluded.name, until = excluded.until
WHERE carrier.name = excluded.name OR carrier.until <= now()
    OR carrier.until - excluded.until > interval '{OUTBOX_LEASE_SECONDS} seconds' RETURNING true
"""
_UNSENT = "SELECT n, uid, type, subject, at, session_id, execution_id, data FROM outbox ORDER BY n LIMIT $1"


async def tell_merged(db: Connection, plan: Plan, caller: Caller) -> None:
    """Write down what a sync did, in its transaction."""
    await db.executemany(_SAY, [_row(caller, bead_id, fact) for bead_id, fact in _facts.merged(plan)])


async def tell(db: Connection, subject: str, fact: Fact, caller: Caller) -> None:
    await db.execute(_SAY, *_row(caller, subject, fact))


def _row(caller: Caller, subject: str, fact: Fact) -> tuple[Any, ...]:
    data = msgspec.json.encode(fact).decode()
    return fact.type, subject, caller.session_id, caller.execution_id, data


async def unsent(db: Connection, carrier: str, delivered: Sequence[int], limit: int) -> list[Letter]:
    """What waits, after forgetting what was *delivered*; nothing while another carrier is at it."""
    if not delivered and not await db.fetchval("SELECT EXISTS (SELECT FROM outbox)"):
        return []
    async with transaction(db):
        await db.execute("DELETE FROM outbox WHERE n = ANY($1::bigint[])", delivered)
        if await db.fetchval(_TAKE, carrier) is None:
            return []
        await trim(db)
        return [Letter(row[0], _event(row)) for row in await db.fetch(_UNSENT, limit)]


async def leave(db: Connection, carrier: str) -> None:
    await db.execute("DELETE FROM carrier WHERE name = $1", carrier)


async def trim(db: Connection, limit: int = OUTBOX_LIMIT) -> None:
    """Give up the oldest of more than *limit*, and write down that it was done."""
    first, last = await db.fetchrow("SELECT min(n), max(n) FROM outbox")  # type: ignore[misc]
    if first is None or last - first < limit:
        return
    # Numbers may have gaps, so this keeps at most as many as it should.
    gone = await db.execute("DELETE FROM outbox WHERE n <= $1", last - limit + 1)
    await tell(db, "beads", OutboxTrimmed(dropped=int(gone.rpartition(" ")[2])), Caller(None, None))


def _event(row: Any) -> Event:
    return Event(
        id=row[1],
        type=row[2],
        source=source_of(row[2]),
        subject=row[3],
        time=row[4],
        session_id=row[5],
        execution_id=row[6],
        # The server writes moments in a form of its own; what is told has one form, whoever wrote it down.
        data=data_of(msgspec.json.decode(row[7], type=VOCABULARY[row[2]])),
    )
