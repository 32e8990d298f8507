"""The tables of beads in Postgres, their migrations, and a row as a bead."""

from __future__ import annotations

from typing import Any

import msgspec

from agentbox_contracts.beads import Bead

__all__ = ["COLUMNS", "MIGRATIONS", "NAMES", "SESSION", "bead_of"]

# Ids are compared byte by byte: a collation of the machine's libraries would damage the indexes when they are updated.
# `metadata` is json and not jsonb, which would turn 1e3 into 1000. `ready` is what get_ready and claim_ready walk: true
# for open beads that wait for nothing, and for those whose lease was found expired. It is kept by every write, so that
# finding work costs the same in a store of any size. `dependents` counts who waits for the bead: see CLOSE.
VERSION_1 = """
CREATE TABLE bead (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL CONSTRAINT bead_id UNIQUE,
    uid text COLLATE "C" NOT NULL CONSTRAINT bead_uid UNIQUE,
    kind text NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    status text NOT NULL DEFAULT 'open',
    priority smallint NOT NULL,
    parent text COLLATE "C",
    tags text[] NOT NULL,
    metadata json NOT NULL,
    depends_on text[] NOT NULL DEFAULT '{}',
    open_blockers integer NOT NULL DEFAULT 0,
    open_children integer NOT NULL DEFAULT 0,
    holder text,
    fence bigint NOT NULL DEFAULT 0,
    claimed_at timestamptz,
    lease_until timestamptz,
    outcome text,
    reason text NOT NULL DEFAULT '',
    created_by text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    closed_by text,
    closed_at timestamptz,
    number bigint NOT NULL DEFAULT 0,
    last_child bigint NOT NULL DEFAULT 0,
    dependents integer NOT NULL DEFAULT 0,
    ready boolean NOT NULL DEFAULT true
);
CREATE INDEX bead_ready ON bead (priority, created_at, seq) WHERE ready;
CREATE INDEX bead_ready_child ON bead (parent, priority, created_at, seq) WHERE ready;
CREATE INDEX bead_child ON bead (parent, number, seq) WHERE parent IS NOT NULL;
CREATE INDEX bead_lease ON bead (lease_until)
    WHERE status = 'claimed' AND NOT ready AND open_blockers = 0 AND open_children = 0 AND lease_until IS NOT NULL;
CREATE TABLE dependency (
    bead text COLLATE "C" NOT NULL,
    blocker text COLLATE "C" NOT NULL,
    PRIMARY KEY (blocker, bead)
);
CREATE INDEX dependency_bead ON dependency (bead);
CREATE TABLE tombstone (uid text COLLATE "C" PRIMARY KEY, record json NOT NULL);
CREATE TABLE once (
    key text COLLATE "C" PRIMARY KEY,
    request text NOT NULL,
    result bytea,
    created_at timestamptz NOT NULL
);
CREATE INDEX once_age ON once (created_at);
"""

VERSION_2 = """
CREATE TABLE outbox (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid text NOT NULL DEFAULT gen_random_uuid()::text,
    type text NOT NULL,
    subject text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    session_id text,
    execution_id text,
    data json NOT NULL
);
CREATE TABLE carrier (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text NOT NULL,
    until timestamptz NOT NULL
);
"""

MIGRATIONS = (VERSION_1, VERSION_2)

# Every statement has an index that it should walk. Left to itself the server chooses another way while it has not yet
# counted a table that grows, and keeps to its choice for as long as the statement is prepared.
# And moments that the server writes into a fact are in UTC, whatever the server's zone is.
SESSION = {"enable_seqscan": "off", "enable_bitmapscan": "off", "timezone": "UTC"}

COLUMNS = (
    "bead.id, bead.uid, bead.kind, bead.title, bead.description, bead.status, bead.priority, bead.parent, bead.tags,"
    " bead.metadata, bead.depends_on, bead.open_blockers, bead.open_children, bead.holder, bead.fence, bead.claimed_at,"
    " bead.lease_until, bead.outcome, bead.reason, bead.created_by, bead.created_at, bead.updated_at, bead.closed_by,"
    " bead.closed_at"
)
NAMES = COLUMNS.replace("bead.", "").split(", ")

_decode = msgspec.json.decode


def bead_of(row: Any) -> Bead:
    """A row that begins with COLUMNS as a bead."""
    metadata = row[9]
    return Bead(
        id=row[0],
        uid=row[1],
        kind=row[2],
        title=row[3],
        description=row[4],
        status=row[5],
        priority=row[6],
        parent_id=row[7],
        tags=tuple(row[8]),
        metadata={} if metadata == "{}" else _decode(metadata),
        depends_on=tuple(row[10]),
        open_blockers=row[11],
        open_children=row[12],
        holder=row[13],
        fence=row[14],
        claimed_at=row[15],
        lease_expires_at=row[16],
        outcome=row[17],
        reason=row[18],
        created_by=row[19],
        created_at=row[20],
        updated_at=row[21],
        closed_by=row[22],
        closed_at=row[23],
    )
