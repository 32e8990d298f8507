"""The statements of beads in Postgres. Each decides and writes in one step; none that finds no row has changed one."""

from __future__ import annotations

import attrs

from agentbox.adapters.beads._pg_tables import COLUMNS
from agentbox_contracts.vocabulary import (
    BeadClaimed,
    BeadClosed,
    BeadCreated,
    BeadDependencyAdded,
    BeadReleased,
    BeadRenewed,
    Fact,
)

# Time is the server's, of the moment the call began. Of two calls that waited for each other the later may have begun
# earlier, so a change is at least one microsecond after the one before it: `sync` keeps the later of two.
_STAMP = (
    "greatest(now(), least(bead.updated_at + interval '1 microsecond', timestamptz '9999-12-31 23:59:59.999999+00'))"
)
_HELD = "status = 'claimed', holder = $2, fence = bead.fence + 1, claimed_at = now(), ready = false,"
_LEASE = "lease_until = now() + make_interval(secs => $3)"
_READY = "bead.ready AND (bead.status = 'open' OR bead.lease_until <= now())"
_ORDER = "bead.priority, bead.created_at, bead.seq"
_EXPIRED = (
    "SELECT bead.seq FROM bead WHERE bead.status = 'claimed' AND NOT bead.ready AND bead.open_blockers = 0"
    " AND bead.open_children = 0 AND bead.lease_until <= now()"
)
_OF_PARENT = "bead.parent = $1"
_ANYWHERE = "$1::text IS NULL"


def _fence(parameter: str) -> str:
    """Under a lease the fence is needed; a fence that is given must be the current one."""
    leased = "(bead.status = 'claimed' AND bead.lease_until IS NOT NULL)"
    return f"CASE WHEN {parameter}::bigint IS NULL THEN NOT {leased} ELSE bead.fence = {parameter} END"


_MEMBERS = {
    "bead_id": "bead.id",
    "parent_id": "bead.parent",
    "lease_expires_at": "bead.lease_until",
    "blocker_id": "$2::text",
}
_ACTORS: dict[type[Fact], str] = {BeadCreated: "bead.created_by", BeadClosed: "bead.closed_by"}


def _said(fact: type[Fact], origin: str, parameters: int) -> str:
    """The part of a statement that writes down *fact* for each row of *origin*; two parameters more name the caller."""
    columns = {"actor": _ACTORS.get(fact, "bead.holder"), **_MEMBERS}
    names = [field.name for field in attrs.fields(fact)]
    members = ", ".join(f"'{name}', {columns.get(name, f'bead.{name}')}" for name in names)
    return f"""said AS (
    INSERT INTO outbox (type, subject, at, session_id, execution_id, data)
    SELECT '{fact.type}', bead.id, bead.updated_at, ${parameters + 1}::text, ${parameters + 2}::text,
        json_build_object({members})
    FROM {origin} AS bead
)"""


FIND = f"SELECT {COLUMNS}, now() FROM bead WHERE id = $1"
ALL = f"SELECT {COLUMNS} FROM bead"

GRAPH_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('agentbox graph ' || current_schema(), 0))"
"""Held by whoever changes what waits for what, until its transaction ends: two changes could make a circle of it."""

CREATE_EPIC = f"""
INSERT INTO bead (id, uid, kind, title, description, priority, tags, metadata, created_by, created_at, updated_at)
VALUES ($1, $2, 'epic', $3, $4, $5, $6, $7, $8, now(), now())
ON CONFLICT (id) DO NOTHING RETURNING {COLUMNS}
"""
_MOTHER = """
WITH mother AS (
    UPDATE bead SET open_children = open_children + 1, last_child = last_child + 1, ready = false
    WHERE id = $1 AND status <> 'closed' RETURNING id, last_child
)
"""
_CHILD = f"""
INSERT INTO bead (id, parent, number, uid, kind, title, description, priority, tags, metadata, created_by, created_at,
    updated_at)
SELECT mother.id || '.' || mother.last_child, mother.id, mother.last_child, $2, 'task', $3, $4, $5, $6, $7, $8, now(),
    now() FROM mother
RETURNING {COLUMNS}
"""
CREATE_CHILD = _MOTHER + _CHILD
SKIP_NUMBER = "UPDATE bead SET last_child = last_child + 1 WHERE id = $1"

CLAIM = f"""
UPDATE bead SET {_HELD} updated_at = {_STAMP}, {_LEASE}
WHERE id = $1 AND open_blockers = 0 AND (status = 'open' OR status = 'claimed' AND lease_until <= now())
RETURNING {COLUMNS}
"""
RENEW = f"""
UPDATE bead SET lease_until = now() + make_interval(secs => $2), updated_at = {_STAMP}, ready = false
WHERE id = $1 AND status = 'claimed' AND {_fence("$3")}
RETURNING {COLUMNS}
"""
RELEASE = f"""
UPDATE bead SET status = 'open', holder = NULL, claimed_at = NULL, lease_until = NULL, updated_at = {_STAMP},
    ready = open_blockers = 0 AND open_children = 0
WHERE id = $1 AND status = 'claimed' AND ($2::text IS NULL OR holder = $2) AND {_fence("$3")}
RETURNING {COLUMNS}
"""

# A dependency that was added while this statement waited for the row is not in its snapshot, but in the row's counter:
# then nothing is closed, and the next attempt sees it. The beads that waited are locked children before parents, then
# by age, which is the order in which they are mostly closed themselves; where it is not, one of two that wait for each
# other is rolled back by the server and tried again.
_CLOSED = f"""
WITH closed AS (
    UPDATE bead SET status = 'closed', outcome = $2, reason = $3, closed_by = coalesce($4, holder), closed_at = now(),
        updated_at = {_STAMP}, lease_until = NULL, ready = false
    WHERE id = $1 AND status <> 'closed' AND open_children = 0
        AND (status = 'open' OR $4::text IS NULL OR holder = $4) AND {_fence("$5")}
        AND dependents = (SELECT count(*) FROM dependency WHERE blocker = $1)
    RETURNING {COLUMNS}
), fewer AS (
    SELECT id, sum(children)::integer AS children, sum(blockers)::integer AS blockers FROM (
        SELECT parent AS id, 1 AS children, 0 AS blockers FROM closed WHERE parent IS NOT NULL
        UNION ALL
        SELECT dependency.bead, 0, 1 FROM dependency JOIN closed ON blocker = closed.id WHERE closed.outcome = 'done'
    ) AS every GROUP BY id
), locked AS (
    SELECT bead.seq, fewer.children, fewer.blockers FROM bead JOIN fewer ON bead.id = fewer.id
    ORDER BY length(bead.id) - length(replace(bead.id, '.', '')) DESC, bead.seq FOR UPDATE OF bead
), freed AS (
    UPDATE bead SET open_children = open_children - locked.children, open_blockers = open_blockers - locked.blockers,
        ready = ready OR status = 'open' AND open_children = locked.children AND open_blockers = locked.blockers
    FROM locked WHERE bead.seq = locked.seq
)
"""
_SHOW_CLOSED = f"SELECT {COLUMNS} FROM closed AS bead"
CLOSE = _CLOSED + _SHOW_CLOSED

WAITS = """
WITH RECURSIVE waiting (id) AS (
    SELECT $1::text COLLATE "C"
    UNION SELECT next.id FROM waiting CROSS JOIN LATERAL (
        SELECT dependency.bead AS id FROM dependency WHERE dependency.blocker = waiting.id
        UNION ALL SELECT bead.parent FROM bead WHERE bead.id = waiting.id AND bead.parent IS NOT NULL
    ) AS next
)
SELECT EXISTS (SELECT FROM waiting WHERE id = $2)
"""
"""Whether the second waits, over any number of steps, for the first."""

LOCK_BOTH = f"SELECT {COLUMNS} FROM bead WHERE id IN ($1, $2) ORDER BY id = $2 DESC FOR UPDATE"
_LINK = """
WITH link AS (
    INSERT INTO dependency (bead, blocker) VALUES ($1, $2)
), counted AS (
    UPDATE bead SET dependents = dependents + 1 WHERE id = $2
)
"""
_LINKED = f"""
UPDATE bead SET depends_on = depends_on || $2::text, open_blockers = open_blockers + $3::integer,
    updated_at = {_STAMP}, ready = ready AND $3 = 0
WHERE id = $1 RETURNING {COLUMNS}
"""
DEPEND = _LINK + _LINKED

SWEEP = f"UPDATE bead SET ready = true WHERE seq IN ({_EXPIRED} ORDER BY bead.seq FOR UPDATE)"
"""Mark beads whose lease ran out as ready. Holder and fence stay: they may still renew until somebody claims."""


def ready(parent_id: str | None) -> str:
    """What is ready under $1, at most $2; or one row without a bead that says whether to sweep first."""
    where = _ANYWHERE if parent_id is None else _OF_PARENT
    return f"""
SELECT {COLUMNS}, expired.found FROM (SELECT EXISTS ({_EXPIRED}) AS found) AS expired
LEFT JOIN LATERAL (
    SELECT * FROM bead WHERE NOT expired.found AND {_READY} AND {where} ORDER BY {_ORDER} LIMIT $2
) AS bead ON true ORDER BY {_ORDER}
"""


def claim_ready(parent_id: str | None, *, told: bool = False) -> str:
    """
    Claim the first of what is ready under $1 and not locked: one row, with the bead, or with why there is none.

    `expired` says that a sweep must come first, `locked` that something is ready which somebody else has in hand.
    """
    said = f", {_said(BeadClaimed, 'taken', 3)}" if told else ""
    where = _ANYWHERE if parent_id is None else _OF_PARENT
    return f"""
WITH expired AS MATERIALIZED (SELECT EXISTS ({_EXPIRED}) AS found), next AS MATERIALIZED (
    SELECT bead.seq FROM bead WHERE NOT (SELECT found FROM expired) AND {_READY} AND {where}
    ORDER BY {_ORDER} LIMIT 1 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE bead SET {_HELD} updated_at = {_STAMP}, {_LEASE} FROM next WHERE bead.seq = next.seq RETURNING {COLUMNS}
){said}
SELECT {COLUMNS}, CASE WHEN bead.id IS NULL THEN (SELECT found FROM expired) END AS expired,
    CASE WHEN bead.id IS NULL THEN EXISTS (SELECT FROM bead WHERE {_READY} AND {where}) END AS locked
FROM (VALUES (1)) AS always LEFT JOIN taken AS bead ON true
"""


def await_ready(parent_id: str | None) -> str:
    """Wait until nobody else has the first of what is ready under $1 in hand."""
    where = _ANYWHERE if parent_id is None else _OF_PARENT
    return f"SELECT FROM bead WHERE {_READY} AND {where} ORDER BY {_ORDER} LIMIT 1 FOR UPDATE"


CHILDREN = f"SELECT {COLUMNS} FROM bead WHERE parent = $1 ORDER BY number, seq LIMIT $2"
CHILDREN_AFTER = f"""
SELECT {COLUMNS} FROM bead WHERE parent = $1
    AND (number, seq) > (SELECT number, seq FROM bead WHERE id = $3 AND parent = $1)
ORDER BY number, seq LIMIT $2
"""

REMEMBER = """
INSERT INTO once (key, request, created_at) VALUES ($1, $2, now())
ON CONFLICT (key) DO UPDATE SET request = excluded.request, result = NULL, created_at = excluded.created_at
WHERE once.created_at <= now() - interval '24 hours' RETURNING true
"""
"""True when the key is new or a day old. Whoever uses the same key at the same time waits here until we are done."""

REMEMBERED = "SELECT request, result FROM once WHERE key = $1"
RESULT = """
WITH old AS (
    DELETE FROM once WHERE key IN (
        SELECT key FROM once WHERE created_at <= now() - interval '24 hours' LIMIT 8 FOR UPDATE SKIP LOCKED
    )
)
UPDATE once SET result = $2 WHERE key = $1
"""


def _told(fact: type[Fact], change: str, parameters: int, before: str = "WITH") -> str:
    """*change*, after what must go *before* it, with its fact."""
    changed = f"changed AS ({change}), {_said(fact, 'changed', parameters)}"
    return f"{before} {changed} SELECT {COLUMNS} FROM changed AS bead"


TOLD = {
    CREATE_EPIC: _told(BeadCreated, CREATE_EPIC, 8),
    CREATE_CHILD: _told(BeadCreated, _CHILD, 8, f"{_MOTHER},"),
    CLAIM: _told(BeadClaimed, CLAIM, 3),
    RENEW: _told(BeadRenewed, RENEW, 3),
    RELEASE: _told(BeadReleased, RELEASE, 3),
    CLOSE: f"{_CLOSED}, {_said(BeadClosed, 'closed', 5)} {_SHOW_CLOSED}",
    DEPEND: _told(BeadDependencyAdded, _LINKED, 3, f"{_LINK},"),
    **{claim_ready(parent_id): claim_ready(parent_id, told=True) for parent_id in (None, "")},
}
"""Each statement that changes a bead, and the one that also writes down the fact in the outbox."""
