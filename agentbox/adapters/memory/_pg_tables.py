"""The tables of memory in Postgres, their migrations, and a row as a record."""

from __future__ import annotations

from typing import Any

import msgspec

from agentbox_contracts.memory import Record

__all__ = ["COLUMNS", "LIVING", "MIGRATIONS", "SESSION", "SIDES", "record_of"]

# The type `vector` is wherever the extension was installed, which our search_path does not name.
# Names are compared byte by byte: that is the order of code points, and no library's update can change it.
# `value` and `metadata` are json, which keeps 1e3 as it was written; `facts` is the metadata once more, for filters.
# `words` has the namespace's id before every word, so that one index over all of them is still led by the namespace.
# A vector has as many dimensions as its namespace says; indexes over them are made when a namespace has grown.
VERSION_1 = """
SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(nspname), true)
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector';
CREATE TABLE namespace (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL CONSTRAINT namespace_name UNIQUE,
    fingerprint text,
    dimensions integer
);
CREATE TABLE record (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value json NOT NULL,
    metadata json NOT NULL,
    facts jsonb NOT NULL,
    text text NOT NULL,
    hash bytea NOT NULL,
    duplicate_of text,
    source text,
    session_id text,
    bead_id text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,
    CONSTRAINT record_key UNIQUE (namespace, key)
);
CREATE INDEX record_hash ON record (namespace, hash);
CREATE INDEX record_expiry ON record (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX record_facts ON record USING gin (facts jsonb_path_ops);
CREATE TABLE piece (
    namespace bigint NOT NULL,
    record bigint NOT NULL REFERENCES record ON DELETE CASCADE,
    number integer NOT NULL,
    length integer NOT NULL,
    words tsvector NOT NULL,
    embedding vector,
    PRIMARY KEY (record, number)
);
CREATE INDEX piece_namespace ON piece (namespace) INCLUDE (length);
CREATE INDEX piece_words ON piece USING gin (words);
"""

# A namespace whose embedder changes fills the other column of two, and takes the other side when it is full. `fresh` is
# the generation of what a record has in that column: what is of another was never written, or belongs to an old text.
# Where a namespace is not `clean`, the other column still has what it left behind.
VERSION_2 = """
SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(nspname), true)
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector';
ALTER TABLE namespace
    ADD COLUMN side integer NOT NULL DEFAULT 0,
    ADD COLUMN generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN next_fingerprint text,
    ADD COLUMN next_dimensions integer,
    ADD COLUMN clean boolean NOT NULL DEFAULT true;
ALTER TABLE record ADD COLUMN fresh bigint;
ALTER TABLE piece ADD COLUMN embedding_2 vector;
"""

MIGRATIONS = (VERSION_1, VERSION_2)

SIDES = ("embedding", "embedding_2")

# What an index of vectors gives is looked through until enough has passed the filter, however far down that is. In
# strict order the server leaves out what it comes to late, and far from the query that is a good part; we sort anyway.
SESSION = {
    "jit": "off",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    "hnsw.max_scan_tuples": "100000000",
    "hnsw.scan_mem_multiplier": "32",
}

LIVING = "(record.expires_at IS NULL OR record.expires_at > now())"

COLUMNS = (
    "record.id, record.key, record.value, record.metadata, record.source, record.session_id, record.bead_id,"
    " record.duplicate_of, record.created_at, record.updated_at, record.expires_at"
)

_decode = msgspec.json.decode


def record_of(namespace: str, row: Any) -> Record:
    """A row that begins with COLUMNS as a record."""
    return Record(
        key=row[1],
        namespace=namespace,
        value=_decode(row[2]),
        metadata={} if row[3] == "{}" else _decode(row[3]),
        source=row[4],
        session_id=row[5],
        bead_id=row[6],
        duplicate_of=row[7],
        created_at=row[8],
        updated_at=row[9],
        expires_at=row[10],
    )
