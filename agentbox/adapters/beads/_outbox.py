"""The outbox of beads in SQLite: what changed, written down in the transaction that changed it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentbox.adapters._time import instant
from agentbox.adapters.beads._facts import Caller
from agentbox_contracts.events import Event
from agentbox_contracts.outbox import OUTBOX_LEASE_SECONDS, OUTBOX_LIMIT, Letter
from agentbox_contracts.vocabulary import Fact, OutboxTrimmed, source_of

__all__ = ["Tell", "leave", "teller", "trim", "unsent", "waits"]

Tell = Callable[[sqlite3.Connection, int, str, Fact], None]
"""Write down a fact: the connection, the moment, the bead's id, the fact."""

_SAY = "INSERT INTO outbox (type, subject, at, session_id, execution_id, data) VALUES (?, ?, ?, ?, ?, ?)"
# A lease that ends later than any could was taken before the clock went back.
_TAKE = """
INSERT INTO carrier (one, name, until) VALUES (1, ?1, ?2)
ON CONFLICT (one) DO UPDATE SET name = ?1, until = ?2
WHERE name = ?1 OR until <= ?3 OR until - ?2 > ?2 - ?3 RETURNING 1
"""
_UNSENT = "SELECT n, uid, type, subject, at, session_id, execution_id, data FROM outbox ORDER BY n LIMIT ?"

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def teller(caller: Caller) -> Tell:
    """A function that writes down facts that *caller* caused."""

    def tell(db: sqlite3.Connection, moment: int, bead_id: str, fact: Fact) -> None:
        said = (fact.type, bead_id, moment, caller.session_id, caller.execution_id, _encode(fact).decode())
        db.execute(_SAY, said)

    return tell


def waits(db: sqlite3.Connection) -> bool:
    """Whether anything is in it."""
    return db.execute("SELECT 1 FROM outbox LIMIT 1").fetchone() is not None


def unsent(db: sqlite3.Connection, carrier: str, delivered: Sequence[int], limit: int, moment: int) -> list[Letter]:
    """What waits, after forgetting what was *delivered*; nothing while another carrier is at it."""
    db.executemany("DELETE FROM outbox WHERE n = ?", [(number,) for number in delivered])
    until = moment + round(OUTBOX_LEASE_SECONDS * 1_000_000)
    if db.execute(_TAKE, (carrier, until, moment)).fetchone() is None:
        return []
    trim(db, moment)
    return [Letter(row[0], _event(row)) for row in db.execute(_UNSENT, (limit,))]


def leave(db: sqlite3.Connection, carrier: str) -> None:
    db.execute("DELETE FROM carrier WHERE name = ?", (carrier,))


def trim(db: sqlite3.Connection, moment: int, limit: int = OUTBOX_LIMIT) -> None:
    """Give up the oldest of more than *limit*, and write down that it was done."""
    first, last = db.execute("SELECT (SELECT min(n) FROM outbox), (SELECT max(n) FROM outbox)").fetchone()
    if first is None or last - first < limit:
        return
    # Numbers may have gaps, so this keeps at most as many as it should.
    dropped = db.execute("DELETE FROM outbox WHERE n <= ?", (last - limit + 1,)).rowcount
    teller(Caller(None, None))(db, moment, "beads", OutboxTrimmed(dropped=dropped))


def _event(row: tuple[Any, ...]) -> Event:
    return Event(
        id=row[1],
        type=row[2],
        source=source_of(row[2]),
        subject=row[3],
        time=instant(row[4]),
        session_id=row[5],
        execution_id=row[6],
        data=_decode(row[7]),
    )
