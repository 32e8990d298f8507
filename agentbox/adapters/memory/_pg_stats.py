"""What a schema of memory holds, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentbox.adapters._postgres import transaction
from agentbox.adapters.memory._pg_tables import LIVING, SIDES
from agentbox.adapters.memory._stats import NamespaceStats

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["stats"]

PATIENCE_SECONDS = 600.0
"""It reads everything, which the usual limit may be too short for."""

_PIECES = ", ".join(
    f"count({side}) AS {side}_count, coalesce(sum(pg_column_size({side})), 0) AS {side}_bytes" for side in SIDES
)

_STATS = f"""
WITH held AS (
    SELECT namespace, count(*) AS count, count(*) FILTER (WHERE NOT {LIVING}) AS expired,
        sum(octet_length(value::text) + octet_length(metadata::text) + octet_length(text))::bigint AS bytes
    FROM record GROUP BY namespace
), vectors AS (
    SELECT namespace, {_PIECES} FROM piece GROUP BY namespace
), pending AS (
    SELECT namespace.id AS namespace, count(CASE side WHEN 0 THEN {SIDES[1]} ELSE {SIDES[0]} END) AS pending
    FROM namespace JOIN record ON record.namespace = namespace.id AND fresh = generation
        JOIN piece ON piece.record = record.id
    WHERE next_fingerprint IS NOT NULL GROUP BY namespace.id
)
SELECT name, fingerprint, dimensions, side, next_fingerprint, held.count - expired AS living, expired, bytes,
    vectors.*, coalesce(pending, 0) AS pending
FROM namespace JOIN held ON held.namespace = namespace.id LEFT JOIN vectors ON vectors.namespace = namespace.id
    LEFT JOIN pending ON pending.namespace = namespace.id
ORDER BY name
"""


async def stats(db: Connection) -> list[NamespaceStats]:
    """Every namespace that holds something, by name."""
    async with transaction(db, "SET LOCAL statement_timeout = 0"):
        rows = await db.fetch(_STATS, timeout=PATIENCE_SECONDS)
    return [_namespace(row) for row in rows]


def _namespace(row: Any) -> NamespaceStats:
    own = SIDES[row["side"]]
    return NamespaceStats(
        namespace=row["name"],
        records=row["living"],
        expired=row["expired"],
        vectors=row[f"{own}_count"] or 0,
        dimensions=row["dimensions"],
        embedder=row["fingerprint"],
        pending=row["pending"],
        pending_embedder=row["next_fingerprint"],
        bytes=row["bytes"] + (row[f"{own}_bytes"] or 0),
    )
