"""Rankings made into matches: both fused, the same content once, and explained where that is asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from agentbox.adapters._postgres import transaction
from agentbox.adapters.memory._embedder import vector_fingerprint
from agentbox.adapters.memory._filters import Filter
from agentbox.adapters.memory._fusion import reciprocal
from agentbox.adapters.memory._pg_records import Space, mixing, space
from agentbox.adapters.memory._pg_search import Hit, Place, Plan, by_text, by_vector, planned, twins
from agentbox.adapters.memory._pg_tables import COLUMNS, LIVING, record_of
from agentbox.adapters.memory._text import pieces
from agentbox_contracts.memory import Explanation, Match

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["Request", "matches"]

WINDOW = 100
"""At least so many of each ranking are fused."""

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@attrs.frozen(kw_only=True)
class Request:
    """A search with its arguments checked, and its query embedded where that is needed."""

    namespace: str
    query: str | None
    vector: str | None
    dimensions: int
    fingerprint: str
    embedder: str
    semantic: bool
    limit: int
    filter: Filter
    prefix: str
    mode: Literal["hybrid", "vector", "text"]
    min_score: float | None
    explain: bool


@attrs.frozen
class _Rankings:
    """What was found by vector and by text, and how."""

    by_vector: list[Hit]
    by_text: list[Hit]
    plan: Plan | Literal["none"]


async def matches(db: Connection, schema: str, request: Request) -> list[Match]:
    """The matches. Raises EmbeddingError when the query's vector is of another embedder than the namespace's."""
    async with transaction(db, SNAPSHOT):
        bound = await space(db, request.namespace)
        if bound is None or not await _holds_something(db, bound.id):
            return []
        needs_vector = request.mode != "text" and request.vector is not None
        if needs_vector and bound.fingerprint not in (None, request.fingerprint):
            raise mixing(request.namespace, bound, request.fingerprint, request.dimensions)
        place = Place(bound.id, bound.column, bound.dimensions or 0, request.filter, request.prefix)
        rankings = await _rankings(db, schema, place, bound, request)
        chosen = _chosen(request, _found(request, rankings))
        return await _told(db, place, request, chosen, rankings)


async def _holds_something(db: Connection, namespace: int) -> bool:
    sql = f"SELECT EXISTS (SELECT FROM record WHERE namespace = $1 AND {LIVING})"
    return bool(await db.fetchval(sql, namespace))


async def _rankings(db: Connection, schema: str, place: Place, bound: Space, request: Request) -> _Rankings:
    want = request.limit if request.mode != "hybrid" else max(WINDOW, 4 * request.limit)
    text: list[Hit] = []
    vector: list[Hit] = []
    plan: Plan | Literal["none"] = "none"
    if request.mode != "vector" and (query := request.query) is not None:
        text = await _distinct(want, lambda ask: by_text(db, place, query, ask))
    if request.mode != "text" and (given := request.vector) is not None and bound.fingerprint is not None:
        plan = chosen = await planned(db, place)
        vector = await _distinct(want, lambda ask: by_vector(db, schema, place, given, ask, chosen))
    return _Rankings(vector, text, plan)


async def _distinct(want: int, search: Callable[[int], Awaitable[list[Hit]]]) -> list[Hit]:
    """A ranking with *want* different contents, or all there are."""
    ask = want + 4
    while True:
        found = await search(ask)
        if len(found) < ask or len({hit.hash for hit in found}) >= want:
            return found
        ask *= 4


def _found(request: Request, rankings: _Rankings) -> list[Hit]:
    if request.mode != "hybrid":
        return rankings.by_vector or rankings.by_text
    vector, text = _ranks(rankings.by_vector), _ranks(rankings.by_text)
    every = {hit.record: hit for hit in (*rankings.by_vector, *rankings.by_text)}
    fused = (
        attrs.evolve(hit, score=round(reciprocal(vector.get(record), text.get(record)), 6))
        for record, hit in every.items()
    )
    return sorted(fused, key=lambda hit: (-hit.score, hit.key))


def _ranks(ranking: Sequence[Hit]) -> dict[int, int]:
    return {hit.record: rank for rank, hit in enumerate(ranking, start=1)}


def _chosen(request: Request, found: list[Hit]) -> list[Hit]:
    """The best of each content, as many as are wanted."""
    chosen: dict[bytes, Hit] = {}
    for hit in found:
        if request.min_score is None or hit.score >= request.min_score:
            chosen.setdefault(hit.hash, hit)
    return list(chosen.values())[: request.limit]


async def _told(db: Connection, place: Place, request: Request, chosen: list[Hit], rankings: _Rankings) -> list[Match]:
    if not chosen:
        return []
    text = ", record.text" if request.explain else ", ''"
    sql = f"SELECT {COLUMNS}{text} FROM record WHERE id = ANY($1)"
    rows = {row[0]: row for row in await db.fetch(sql, [hit.record for hit in chosen])}
    same = await twins(db, place, [hit.hash for hit in chosen])
    return [
        Match(
            record=record_of(request.namespace, rows[hit.record]),
            score=hit.score,
            duplicates=tuple(key for key in same[hit.hash] if key != hit.key),
            explanation=_explained(request, hit, rankings, rows[hit.record][-1]) if request.explain else None,
        )
        for hit in chosen
    ]


def _explained(request: Request, hit: Hit, rankings: _Rankings, text: str) -> Explanation:
    vector = _of(rankings.by_vector, hit.record)
    words = _of(rankings.by_text, hit.record)
    return Explanation(
        embedder=_embedder(request) if rankings.plan != "none" else None,
        semantic=rankings.plan != "none" and request.semantic,
        plan=rankings.plan,
        vector_rank=vector[0],
        vector_score=vector[1].score if vector[1] else None,
        text_rank=words[0],
        text_score=words[1].score if words[1] else None,
        passage=_passage(text, words[1] or vector[1]),
    )


def _embedder(request: Request) -> str:
    is_brought = request.fingerprint == vector_fingerprint(request.dimensions)
    return request.fingerprint if is_brought else request.embedder


def _of(ranking: list[Hit], record: int) -> tuple[int, Hit] | tuple[None, None]:
    for rank, hit in enumerate(ranking, start=1):
        if hit.record == record:
            return rank, hit
    return None, None


def _passage(text: str, hit: Any) -> str | None:
    parts = pieces(text)
    return parts[hit.piece].text if hit is not None and hit.piece < len(parts) else None
