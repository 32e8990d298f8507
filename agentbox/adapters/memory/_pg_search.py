"""A search in Postgres, on one snapshot: rankings by vector and by text, each record with its best piece."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import attrs

from agentbox.adapters.memory._filters import EVERYTHING, Filter
from agentbox.adapters.memory._pg_filters import Arguments, condition
from agentbox.adapters.memory._pg_records import lexeme
from agentbox.adapters.memory._pg_tables import LIVING
from agentbox.adapters.memory._pg_vectors import EXACT, MOST_DIMENSIONS, VectorIndex, has_index
from agentbox.adapters.memory._ranking import relevance
from agentbox.adapters.memory._text import words

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["Hit", "Place", "Plan", "by_text", "by_vector", "planned", "twins"]

Plan = Literal["exact", "subset", "index"]

MAX_TERMS = 256
SPARE = 4
"""So many times what is wanted is asked of an index."""
CANDIDATES = 2000
"""So many pieces are ranked by BM25; where more have a word of the query, the server's own rank chooses them."""

K1, B = 1.2, 0.75
LEAST_IDF = 1e-6
"""BM25 as SQLite's FTS5 has it."""
DIGITS = 12
"""By so many scores are told apart: a word that is in every text gives some millionths."""


@attrs.frozen
class Place:
    """Where to search: a namespace, what its vectors have, and what may be found in it."""

    namespace: int
    column: str
    dimensions: int
    filter: Filter
    prefix: str

    def condition(self, arguments: Arguments) -> str:
        """What a record must fulfil."""
        return f"record.namespace = {self.namespace} AND {LIVING}{condition(self.filter, self.prefix, arguments)}"

    @property
    def index(self) -> VectorIndex:
        """The index of its vectors, when it has grown."""
        return VectorIndex(self.namespace, self.column, self.dimensions)

    @property
    def is_whole(self) -> bool:
        """Whether everything may be found."""
        return self.filter == EVERYTHING and not self.prefix


@attrs.frozen
class Hit:
    """A record in a ranking, with the piece that put it there."""

    record: int
    key: str
    hash: bytes
    piece: int
    score: float


async def planned(db: Connection, place: Place) -> Plan:
    """How to search by vector: with an index only where there is one and more passes than can be compared quickly."""
    exact: Plan = "exact" if place.is_whole else "subset"
    if place.dimensions > MOST_DIMENSIONS or not await has_index(db, place.index):
        return exact
    arguments = Arguments()
    sql = f"SELECT count(*) FROM (SELECT FROM record WHERE {place.condition(arguments)} LIMIT {EXACT // 4 + 1}) few"
    return exact if await db.fetchval(sql, *arguments.values) <= EXACT // 4 else "index"


async def by_vector(db: Connection, schema: str, place: Place, vector: str, want: int, plan: Plan) -> list[Hit]:
    """The *want* records whose best piece is most like *vector*, best first; equal ones by key."""
    if plan != "index":
        return await _exactly(db, schema, place, vector, want)
    found = await _by_index(db, schema, place, vector, want)
    # An index that gave up early is not the last word on what there is.
    return found if len(found) >= want else await _exactly(db, schema, place, vector, want)


# How two tables are joined is said, and not left to the server, which has not counted a table that has just grown: a
# subselect with OFFSET is done for each row of what is on its left.


async def _exactly(db: Connection, schema: str, place: Place, vector: str, want: int) -> list[Hit]:
    arguments = Arguments(vector, want)
    sql = (
        "SELECT record.id, record.key, record.hash, best.number, best.score FROM record CROSS JOIN LATERAL (SELECT"
        f" number, round((1 - ({place.column} OPERATOR({schema}.<=>) $1::text::{schema}.vector))::numeric, 6) AS score"
        f" FROM piece WHERE piece.record = record.id AND {schema}.vector_dims({place.column}) = {place.dimensions}"
        f" ORDER BY score DESC, number LIMIT 1 OFFSET 0) best WHERE {place.condition(arguments)}"
        " ORDER BY best.score DESC, record.key LIMIT $2"
    )
    return [_hit(row) for row in await db.fetch(sql, *arguments.values)]


async def _by_index(db: Connection, schema: str, place: Place, vector: str, want: int) -> list[Hit]:
    """As many pieces as it takes, and some more: they come almost in order, and what is equal is ordered by key."""
    await db.execute("SET LOCAL enable_sort = off")
    distance = f"({place.column}::{schema}.vector({place.dimensions})) OPERATOR({schema}.<=>) $1::text::{schema}.vector"
    ask = SPARE * (want + 8)
    while True:
        arguments = Arguments(vector, ask)
        sql = (
            f"SELECT record.id, record.key, record.hash, piece.number, 1 - ({distance}) FROM piece CROSS JOIN LATERAL"
            f" (SELECT id, key, hash FROM record WHERE record.id = piece.record AND {place.condition(arguments)}"
            f" OFFSET 0) record WHERE piece.namespace = {place.namespace}"
            f" AND {schema}.vector_dims({place.column}) = {place.dimensions} ORDER BY {distance} LIMIT $2"
        )
        rows = await db.fetch(sql, *arguments.values)
        best: dict[int, Hit] = {}
        for row in rows:
            hit = _hit(row)
            if hit.record not in best or hit.score > best[hit.record].score:
                best[hit.record] = hit
        if len(best) >= want or len(rows) < ask:
            return sorted(best.values(), key=lambda hit: (-hit.score, hit.key))[:want]
        ask *= 4


async def by_text(db: Connection, place: Place, query: str, want: int) -> list[Hit]:
    """The *want* records with the most relevant piece of text, best first; equal ones by key."""
    terms = [lexeme(place.namespace, word) for word in dict.fromkeys(words(query))][:MAX_TERMS]
    if not terms:
        return []
    count, average = await db.fetchrow(  # type: ignore[misc]
        "SELECT count(*), avg(length)::float8 FROM piece WHERE namespace = $1 AND length > 0", place.namespace
    )
    having = await db.fetch(
        "SELECT term, (SELECT count(*) FROM piece WHERE words @@ quote_literal(term)::tsquery) FROM unnest($1::text[])"
        " AS term",
        terms,
    )
    idfs = {term: max(LEAST_IDF, math.log((count - df + 0.5) / (df + 0.5))) for term, df in having if df}
    if not idfs:
        return []
    arguments = Arguments(" | ".join(f"'{term}'" for term in idfs), list(idfs), list(idfs.values()), average, want)
    rows = await db.fetch(_TEXT.format(condition=place.condition(arguments)), *arguments.values)
    return [Hit(row[0], row[1], row[2], row[3], relevance(row[4])) for row in rows]


# Of texts with a common word there may be very many: the server's rank, which is cheap, chooses whom to look at.
_TEXT = f"""
WITH hit AS MATERIALIZED (
    SELECT record.id, record.key, record.hash, piece.number, piece.length, piece.words
    FROM piece CROSS JOIN LATERAL
        (SELECT id, key, hash FROM record WHERE record.id = piece.record AND {{condition}} OFFSET 0) record
    WHERE piece.words @@ $1::text::tsquery
    ORDER BY ts_rank(piece.words, $1::text::tsquery) DESC, record.key LIMIT {CANDIDATES}
), scored AS (
    SELECT id, key, hash, number, sum(idf * count * {K1 + 1} / (count + {K1} * ({1 - B} + {B} * length / $4::float8)))
        AS score
    FROM (SELECT hit.*, lexeme, cardinality(positions)::float8 AS count FROM hit CROSS JOIN LATERAL unnest(words)) each
    JOIN unnest($2::text[], $3::float8[]) AS term (lexeme, idf) USING (lexeme)
    GROUP BY id, key, hash, number
), best AS (
    SELECT DISTINCT ON (id) id, key, hash, number, score FROM scored ORDER BY id, score DESC, number
)
SELECT id, key, hash, number, score FROM best
    ORDER BY round((score / (1 + score))::numeric, {DIGITS}) DESC, key LIMIT $5
"""


async def twins(db: Connection, place: Place, hashes: list[bytes]) -> dict[bytes, list[str]]:
    """All keys of these contents that may be found, by code point."""
    arguments = Arguments(hashes)
    sql = f"SELECT hash, array_agg(key ORDER BY key) FROM record WHERE hash = ANY($1) AND {place.condition(arguments)}"
    return {row[0]: row[1] for row in await db.fetch(f"{sql} GROUP BY hash", *arguments.values)}


def _hit(row: Any) -> Hit:
    return Hit(row[0], row[1], row[2], row[3], min(1.0, round(float(row[4]), 6)))
