"""pgvector: that it is there, and an index for each namespace that has grown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import asyncpg
import attrs

from agentbox.adapters.memory._pg_tables import SIDES
from agentbox_contracts.errors import AdapterUnavailable

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = [
    "EXACT",
    "MOST_DIMENSIONS",
    "VectorIndex",
    "build_index",
    "has_index",
    "installed",
    "unindexed",
    "written",
]

OLDEST = (0, 8)
"""The first version whose indexes go on until a filter has let enough through."""

EXACT = 10_000
"""A namespace with more vectors gets an index; up to so many, comparing all of them is as fast, and exact."""

MOST_DIMENSIONS = 2000
"""More cannot be indexed."""

HELP = (
    "install pgvector on the server (Debian and Ubuntu: apt install postgresql-NN-pgvector; Red Hat: dnf install"
    " pgvector_NN; others: https://github.com/pgvector/pgvector) and let a superuser say CREATE EXTENSION vector in"
    " this database"
)

BUILD_SECONDS = 3600.0

EXTENSION = "vector"

_FIND = (
    "SELECT quote_ident(nspname), extversion FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace"
    " WHERE extname = $1"
)


async def installed(db: Connection, where: str) -> str:
    """
    The schema that pgvector is in; it is installed there when the server has it and we may.

    Raises:
        AdapterUnavailable: It is missing or too old, and how to get it.
    """
    found = await db.fetchrow(_FIND, EXTENSION)
    if found is None:
        await _install(db, where)
        found = await db.fetchrow(_FIND, EXTENSION)
    assert found is not None
    schema, version = found
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        raise AdapterUnavailable(
            f"{where} has pgvector {version}, and 0.8 is the oldest that will do: install a newer one on the server,"
            " and let a superuser say ALTER EXTENSION vector UPDATE in this database"
        )
    return str(schema)


async def _install(db: Connection, where: str) -> None:
    if not await db.fetchval("SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)", EXTENSION):
        raise AdapterUnavailable(f"{where} does not have the extension vector: {HELP}")
    try:
        await db.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except asyncpg.UniqueViolationError:
        return  # another process was faster
    except asyncpg.PostgresError as error:
        raise AdapterUnavailable(
            f"{where} does not have the extension vector, and it could not be created ({error}):"
            " let a superuser say CREATE EXTENSION vector in this database"
        ) from error


@attrs.frozen
class VectorIndex:
    """An index of a namespace's vectors in one of the two columns that hold some."""

    namespace: int
    column: str
    dimensions: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"piece_hnsw_{self.namespace}_{self.dimensions}{self.column.removeprefix('embedding')}"

    @property
    def is_possible(self) -> bool:
        """Whether vectors of this length can be indexed."""
        return self.dimensions <= MOST_DIMENSIONS


async def has_index(db: Connection, index: VectorIndex) -> bool:
    """Whether it is there, and ready."""
    sql = (
        "SELECT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indrelid = 'piece'::regclass AND relname = $1 AND indisvalid)"
    )
    return bool(await db.fetchval(sql, index.name))


async def unindexed(db: Connection) -> list[VectorIndex]:
    """Those that are missing: of namespaces that have grown."""
    sql = (
        "SELECT namespace.id, side, dimensions FROM namespace"
        " JOIN (SELECT namespace, count(*) FROM piece GROUP BY namespace) counted ON counted.namespace = namespace.id"
        " WHERE counted.count > $1 AND dimensions <= $2"
    )
    rows = await db.fetch(sql, EXACT, MOST_DIMENSIONS)
    grown = [VectorIndex(namespace, SIDES[side], dimensions) for namespace, side, dimensions in rows]
    return [each for each in grown if not await has_index(db, each)]


async def build_index(db: Connection, schema: str, index: VectorIndex) -> None:
    """
    Build the index while others go on writing.

    One process builds at a time, and one that finds another at it leaves it alone. What a killed one began is begun
    anew.
    """
    if not await db.fetchval("SELECT pg_try_advisory_lock(hashtextextended(current_schema() || ' index', 0))"):
        return
    try:
        await db.execute("SET statement_timeout = 0")
        await db.execute(f"DROP INDEX IF EXISTS {index.name}")
        await db.execute(
            f"CREATE INDEX CONCURRENTLY {index.name} ON piece USING hnsw"
            f" (({index.column}::{schema}.vector({index.dimensions})) {schema}.vector_cosine_ops)"
            f" WITH (ef_construction = 128) WHERE namespace = {index.namespace}"
            f" AND {schema}.vector_dims({index.column}) = {index.dimensions}",
            timeout=BUILD_SECONDS,
        )
    finally:
        # The connection is not given back: it has a lock and no time limit.
        db.terminate()


def written(vector: Sequence[float] | None) -> str | None:
    """A vector as Postgres reads it."""
    return None if vector is None else f"[{','.join(map(repr, vector))}]"
