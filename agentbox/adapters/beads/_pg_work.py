"""
What beads promise, as coroutines of a connection.

A write is one statement that carries its own condition. When it changed nothing, a look at the bead says what was
wrong, or that there was nothing to do, or, when the bead has changed meanwhile, that it should be tried again. With a
caller to name, the same statement also puts the fact into the outbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg

from agentbox.adapters._postgres import transaction
from agentbox.adapters.beads import _pg_sql as sql
from agentbox.adapters.beads import _rules
from agentbox.adapters.beads._facts import Caller
from agentbox.adapters.beads._ids import uuid7
from agentbox.adapters.beads._pg_tables import bead_of
from agentbox_contracts.beads import Bead
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import Conflict, InvalidInput
from agentbox_contracts.wire import decode, encode

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

_READY = {False: sql.ready(None), True: sql.ready("")}
_CLAIM_READY = {False: sql.claim_ready(None), True: sql.claim_ready("")}
_AWAIT_READY = {False: sql.await_ready(None), True: sql.await_ready("")}


class NumberTaken(Conflict):
    """The next number of a child is the id of a bead that came from elsewhere."""


async def find(db: Connection, bead_id: str) -> Bead:
    """The bead, or NotFound."""
    return (await _look(db, bead_id))[0]


async def _look(db: Connection, bead_id: str) -> tuple[Bead, datetime]:
    """The bead and the server's time."""
    row = await db.fetchrow(sql.FIND, bead_id)
    if row is None:
        raise _rules.no_bead(bead_id)
    return bead_of(row), row[-1]


async def _changed(db: Connection, statement: str, caller: Caller | None, *values: Any) -> asyncpg.Record | None:
    """The row that *statement* gives, the fact written down when there is a *caller*."""
    if caller is None:
        return await db.fetchrow(statement, *values)
    return await db.fetchrow(sql.TOLD[statement], *values, caller.session_id, caller.execution_id)


async def create_epic(db: Connection, ids: Iterator[str], fields: dict[str, Any], caller: Caller | None) -> Bead:
    """Insert an epic under the first free id of *ids*."""
    for bead_id in ids:
        row = await _changed(db, sql.CREATE_EPIC, caller, bead_id, *_values(fields))
        if row is not None:
            return bead_of(row)
    raise Conflict("no id is free")


async def create_child(db: Connection, parent_id: str, fields: dict[str, Any], caller: Caller | None) -> Bead:
    """Insert a child under the next number of its parent. Raises NumberTaken when that is not free."""
    while True:
        if parent_id.count(".") < _rules.DEPTH:
            try:
                row = await _changed(db, sql.CREATE_CHILD, caller, parent_id, *_values(fields))
            except asyncpg.UniqueViolationError as error:
                raise NumberTaken(f"{parent_id} has a child of that number", resource="bead", id=parent_id) from error
            if row is not None:
                return bead_of(row)
        _rules.check_parent(await find(db, parent_id))


async def skip_number(db: Connection, parent_id: str) -> None:
    await db.execute(sql.SKIP_NUMBER, parent_id)


def _values(fields: dict[str, Any]) -> tuple[Any, ...]:
    return (
        uuid7(datetime.now(UTC)),
        fields["title"],
        fields["description"],
        fields["priority"],
        fields["tags"],
        encode(fields["metadata"]).decode(),
        fields["actor"],
    )


async def depend(db: Connection, bead_id: str, blocker_id: str, caller: Caller | None) -> Bead:
    if bead_id == blocker_id:
        raise InvalidInput(f"{bead_id} cannot wait for itself", resource="bead", id=bead_id)
    async with transaction(db, sql.GRAPH_LOCK):
        # The blocker first, as a close does it, which goes on to whatever waits.
        found = {row["id"]: bead_of(row) for row in await db.fetch(sql.LOCK_BOTH, bead_id, blocker_id)}
        for wanted in (bead_id, blocker_id):
            if wanted not in found:
                raise _rules.no_bead(wanted)
        bead = found[bead_id]
        if blocker_id in bead.depends_on:
            return bead
        if bead.status == "closed":
            raise Conflict(f"{bead_id} is closed and waits for nothing", resource="bead", id=bead_id)
        if await db.fetchval(sql.WAITS, bead_id, blocker_id):
            waits = f"{blocker_id} waits for {bead_id} already, so {bead_id} cannot wait for it"
            raise Conflict(waits, resource="bead", id=bead_id)
        added = 0 if found[blocker_id].outcome == "done" else 1
        row = await _changed(db, sql.DEPEND, caller, bead_id, blocker_id, added)
        assert row is not None
        return bead_of(row)


async def claim(db: Connection, bead_id: str, actor: str, lease: float | None, caller: Caller | None) -> Bead:
    while True:
        row = await _changed(db, sql.CLAIM, caller, bead_id, actor, lease)
        if row is not None:
            return bead_of(row)
        bead, now = await _look(db, bead_id)
        if _rules.is_held(bead, actor, now):
            return bead


async def claim_ready(
    db: Connection, parent_id: str | None, actor: str, lease: float | None, caller: Caller | None
) -> Bead | None:
    named = parent_id is not None
    while True:
        row = await _changed(db, _CLAIM_READY[named], caller, parent_id, actor, lease)
        assert row is not None
        if row[0] is not None:
            return bead_of(row)
        if row["expired"]:
            await db.execute(sql.SWEEP)
        elif row["locked"]:
            await db.execute(_AWAIT_READY[named], parent_id)
        else:
            return None


async def renew(db: Connection, bead_id: str, lease: float, fence: int | None, caller: Caller | None) -> Bead:
    while True:
        row = await _changed(db, sql.RENEW, caller, bead_id, lease, _known(fence))
        if row is not None:
            return bead_of(row)
        _rules.check_renewal(await find(db, bead_id), fence)


async def release(db: Connection, bead_id: str, actor: str | None, fence: int | None, caller: Caller | None) -> Bead:
    while True:
        row = await _changed(db, sql.RELEASE, caller, bead_id, actor, _known(fence))
        if row is not None:
            return bead_of(row)
        bead = await find(db, bead_id)
        if _rules.is_released(bead, actor, fence):
            return bead


async def close(
    db: Connection,
    bead_id: str,
    outcome: str,
    reason: str,
    actor: str | None,
    fence: int | None,
    caller: Caller | None,
) -> Bead:
    while True:
        row = await _changed(db, sql.CLOSE, caller, bead_id, outcome, reason, actor, _known(fence))
        if row is not None:
            return bead_of(row)
        bead = await find(db, bead_id)
        if _rules.is_closed(bead, outcome, actor, fence):
            return bead


async def ready(db: Connection, parent_id: str | None, limit: int) -> list[Bead]:
    while True:
        rows = await db.fetch(_READY[parent_id is not None], parent_id, limit)
        if not rows[0]["found"]:
            return [bead_of(row) for row in rows if row[0] is not None]
        await db.execute(sql.SWEEP)


async def children(db: Connection, bead_id: str, limit: int, after: str | None) -> Page[Bead]:
    if after is None:
        rows = await db.fetch(sql.CHILDREN, bead_id, limit + 1)
    else:
        rows = await db.fetch(sql.CHILDREN_AFTER, bead_id, limit + 1, after)
    if not rows:
        await find(db, bead_id)
        if after is not None:
            await _check_child(db, bead_id, after)
    items = [bead_of(row) for row in rows[:limit]]
    return Page(items=items, next=items[-1].id if len(rows) > limit else None)


async def _check_child(db: Connection, bead_id: str, after: str) -> None:
    if await db.fetchval("SELECT parent FROM bead WHERE id = $1", after) != bead_id:
        raise InvalidInput(f"after: {after} is not a child of {bead_id}", resource="bead", id=after)


async def once(db: Connection, key: str, request: str, act: Callable[[], Awaitable[Bead | None]]) -> Bead | None:
    """Do *act* the first time *key* is seen within a day; give the same result again later. None is not remembered."""
    try:
        async with transaction(db):
            if await db.fetchval(sql.REMEMBER, key, request) is None:
                return _remembered(key, request, await db.fetchrow(sql.REMEMBERED, key))
            result = await act()
            if result is None:
                raise _NothingDone
            await db.execute(sql.RESULT, key, encode(result))
            return result
    except _NothingDone:
        return None


class _NothingDone(Exception):
    """There is nothing to remember, so the transaction is rolled back."""


def _remembered(key: str, request: str, row: Any) -> Bead:
    if row["request"] != request:
        raise Conflict(f"the key {key!r} was used for another call", resource="key", id=key)
    return decode(row["result"], Bead)


def _known(fence: int | None) -> int | None:
    """*fence*, or one that no bead has for a number that no column can hold."""
    return -1 if fence is not None and fence >= 1 << 63 else fence
