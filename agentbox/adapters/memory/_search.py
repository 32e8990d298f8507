"""A search, on one snapshot of the store: by vector, by text, or both fused."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbox.adapters.memory import _fulltext
from agentbox.adapters.memory._embedder import vector_fingerprint
from agentbox.adapters.memory._fusion import reciprocal
from agentbox.adapters.memory._ranking import (
    Found,
    Reader,
    best_records,
    merged,
    ordered,
    passage,
    relevance,
    scored,
    similarities,
)
from agentbox.adapters.memory._records import VectorSet, active_set, is_empty, mixing, namespace_id
from agentbox.adapters.memory._space import Plan, Space
from agentbox.adapters.memory._subsets import Sieve, Subsets
from agentbox.adapters.memory._tables import made, records_of
from agentbox.adapters.memory._vectors import Hit, Subset
from agentbox_contracts.errors import EmbeddingError
from agentbox_contracts.memory import Explanation, Match

__all__ = ["Request", "Searcher"]

WINDOW = 100
"""At least so many of each ranking are fused."""

ROOM = 512_000_000
"""So many bytes of namespaces' vectors and subsets are remembered, and those of the last one in any case."""

EXTRA = 1
"""So many more candidates than wanted are read at first: some turn out to be equal, or to have expired."""


@attrs.frozen(kw_only=True)
class Request:
    """A search with its arguments checked, and its query embedded where that is needed."""

    namespace: str
    query: str | None
    vector: Any
    fingerprint: str
    embedder: str | None
    semantic: bool
    limit: int
    sieve: Sieve
    sieve_name: bytes
    mode: Literal["hybrid", "vector", "text"]
    min_score: float | None
    explain: bool


@attrs.frozen
class _Scene:
    """What a request searches: a namespace, its vectors, and what the filter leaves of it."""

    db: sqlite3.Connection
    namespace: int
    space: Space | None
    subset: Subset | None
    reader: Reader
    now: int


@attrs.frozen
class _Place:
    """A namespace as the searches of one round find it."""

    namespace: int
    bound: VectorSet | None
    space: Space | None
    subsets: Subsets
    reader: Reader


@attrs.frozen
class _First:
    """The first candidates by vector, how they were found, and how similar the best of them really are."""

    hits: list[Hit]
    plan: Plan
    near: Mapping[int, float]


class Searcher:
    """Answers searches on the thread that reads; it remembers vectors and what filters let pass."""

    def __init__(self, folder: Path, exact_upto: int) -> None:
        self._folder = folder
        self._exact_upto = exact_upto
        self._spaces: dict[int, Space] = {}
        self._subsets: dict[int, Subsets] = {}
        self._by_name: dict[str, Space] = {}
        self._seen: dict[int, int] = {}
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._size = 0
        self._version = -1
        self._names: dict[str, tuple[int, VectorSet | None] | None] = {}

    def search(self, db: sqlite3.Connection, requests: Sequence[Request], now: int) -> list[list[Match] | Exception]:
        """
        The answers to some searches, on the snapshot of *db*.

        EmbeddingError is the answer when the query's vector is of another embedder than the namespace's.
        """
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._names.clear()
        places: dict[tuple[str, bool], _Place | None] = {}
        scenes = [self._prepared(db, request, now, places) for request in requests]
        first = _together(list(zip(scenes, requests, strict=True)))
        answers: list[list[Match] | Exception] = [
            scene if isinstance(scene, Exception) else _answer(scene, request, hits) if scene is not None else []
            for scene, request, hits in zip(scenes, requests, first, strict=True)
        ]
        self._make_room({place.namespace for place in places.values() if place is not None})
        return answers

    def due(self, name: str) -> bool:
        """Whether a namespace has so many vectors in no index that one should be built."""
        return (space := self._by_name.get(name)) is not None and space.tail > self._exact_upto

    def _make_room(self, used: set[int]) -> None:
        """Forget the namespaces that were searched longest ago, when all take more than ROOM."""
        for namespace in used:
            space = self._spaces.get(namespace)
            size = self._subsets[namespace].size + (space.size if space is not None else 0)
            self._size += size - self._sizes.pop(namespace, 0)
            self._sizes[namespace] = size
        while self._size > ROOM and len(self._sizes) > 1:
            namespace, size = self._sizes.popitem(last=False)
            self._size -= size
            self._seen.pop(namespace, None)
            del self._subsets[namespace]
            space = self._spaces.pop(namespace, None)
            self._by_name = {name: one for name, one in self._by_name.items() if one is not space}

    def _prepared(
        self, db: sqlite3.Connection, request: Request, now: int, places: dict[tuple[str, bool], _Place | None]
    ) -> _Scene | EmbeddingError | None:
        """Where the request looks; None when there is nothing to be found."""
        needs_vector = request.mode != "text" and request.vector is not None
        name = (request.namespace, needs_vector)
        if name not in places:
            places[name] = self._place(db, request.namespace, now, needs_vector=needs_vector)
        place = places[name]
        if place is None:
            return None
        if needs_vector and place.bound is not None and place.bound.fingerprint != request.fingerprint:
            if is_empty(db, place.namespace, now):  # whoever stores next may bind it anew
                return None
            return mixing(request.namespace, place.bound, request.fingerprint, len(request.vector))
        narrow = request.sieve.is_narrow
        subset = place.subsets.get(db, request.sieve_name, request.sieve) if narrow else None
        if subset is not None and not len(subset):
            return None
        return _Scene(db, place.namespace, place.space, subset, place.reader, now)

    def _place(self, db: sqlite3.Connection, name: str, now: int, *, needs_vector: bool) -> _Place | None:
        if name not in self._names:
            found = namespace_id(db, name)
            self._names[name] = None if found is None else (found, active_set(db, found))
        known = self._names[name]
        if known is None:
            return None
        namespace, bound = known
        space, subsets = self._synced(db, namespace, bound if needs_vector else None)
        if space is not None:
            self._by_name[name] = space
        return _Place(namespace, bound, space, subsets, Reader(db, bound.id if bound else 0, now))

    def _synced(self, db: sqlite3.Connection, namespace: int, bound: VectorSet | None) -> tuple[Space | None, Subsets]:
        subsets = self._subsets.setdefault(namespace, Subsets(namespace))
        space = self._spaces.get(namespace)
        if bound is not None and (space is None or space.vectors != bound):
            space = self._spaces[namespace] = Space(namespace, bound, self._folder)
            self._seen.pop(namespace, None)
        if self._seen.get(namespace) != self._version:
            subsets.sync(db)
            if space is not None:
                space.sync(db)
            self._seen[namespace] = self._version
        return (None if bound is None else space), subsets


def _together(asked: list[tuple[_Scene | Exception | None, Request]]) -> list[_First | None]:
    """The first candidates by vector of each search; those that look in the same place are looked up together."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for number, (scene, request) in enumerate(asked):
        if isinstance(scene, _Scene) and scene.space is not None and request.mode != "text":
            groups.setdefault((id(scene.space), id(scene.subset), _ask(request)), []).append(number)
    found: list[_First | None] = [None] * len(asked)
    for (_, _, ask), members in groups.items():
        scene = asked[members[0]][0]
        assert isinstance(scene, _Scene)
        assert scene.space is not None
        vectors = [asked[number][1].vector for number in members]
        hits = scene.space.top(scene.db, vectors, ask, scene.subset)
        plan = scene.space.plan(scene.subset, ask, len(members))
        scene.reader.prepare(record for one in hits for _, record in one[:ask])
        rows = [scene.reader.read({record for _, record in one[:ask]}) for one in hits]
        for number, one, near in zip(members, hits, similarities(vectors, rows), strict=True):
            found[number] = _First(one, plan, near)
    return found


def _answer(scene: _Scene, request: Request, first: _First | None) -> list[Match]:
    by_vector = _nearest(scene, request, first) if first is not None else []
    by_text = _texts(scene, request) if request.mode != "vector" else []
    found = _fused(by_vector, by_text) if request.mode == "hybrid" else by_vector or by_text
    plan: Plan | Literal["none"] = first.plan if first is not None else "none"
    explain = _explainer(scene, request, by_vector, by_text, plan) if request.explain else None
    return _matches(scene, request, found, explain)


def _window(request: Request) -> int:
    return request.limit if request.mode != "hybrid" else max(WINDOW, 4 * request.limit)


def _ask(request: Request) -> int:
    return _window(request) + EXTRA


def _nearest(scene: _Scene, request: Request, first: _First) -> list[Found]:
    """The records nearest to the vector, as many different ones as are wanted and all that tie with the last."""
    assert scene.space is not None
    want, ask, hits = _window(request), _ask(request), first.hits
    while (found := _enough(scene, request.vector, want, hits, first.near, complete=len(hits) < ask)) is None:
        ask *= 4
        hits = scene.space.top(scene.db, [request.vector], ask, scene.subset)[0]
    return found


def _enough(
    scene: _Scene, vector: Any, want: int, hits: list[Hit], near: Mapping[int, float], *, complete: bool
) -> list[Found] | None:
    """The *want* nearest of *hits*, of which no more are read than it takes; None when there must be more of them."""
    assert scene.space is not None
    records = best_records(hits)
    margin = scene.space.margin
    found: list[Found] = []
    start, stop = 0, want + EXTRA
    while start < len(records):
        some = scene.reader.read(record for _, record in records[start:stop])
        found = merged(found, scored(vector, some, near))
        last = _nth_distinct(found, want)
        least = records[stop][0] if stop < len(records) else hits[-1][0]
        if last is not None and least < last.score - margin:
            return found
        start, stop = stop, 2 * stop
    return found if complete else None


def _texts(scene: _Scene, request: Request) -> list[Found]:
    """The records with the most relevant text, as many as are wanted and all that tie with the last."""
    want = _window(request)
    found: dict[int, Found] = {}
    distinct: set[bytes] = set()
    least = 0.0
    ranked = _fulltext.ranked(scene.db, scene.namespace, request.query or "")
    while some := list(islice(ranked, want)):
        if len(distinct) >= want and relevance(some[0][2]) < least:
            break
        passing = [one for one in some if scene.subset is None or scene.subset.holds(one[0])]
        living = {row[0]: row for row in scene.reader.read(record for record, _, _ in passing)}
        for record, piece, rank in passing:
            if record in living and record not in found:
                least = relevance(rank)
                found[record] = Found(living[record], least, piece)
                distinct.add(found[record].hash)
    return ordered(found.values())


def _nth_distinct(found: Sequence[Found], number: int) -> Found | None:
    seen: set[bytes] = set()
    for one in found:
        seen.add(one.hash)
        if len(seen) == number:
            return one
    return None


def _fused(by_vector: list[Found], by_text: list[Found]) -> list[Found]:
    vector_ranks, text_ranks = _ranks(by_vector), _ranks(by_text)
    every = {found.id: found for found in (*by_vector, *by_text)}
    return ordered(
        Found(found.row, round(reciprocal(vector_ranks.get(record), text_ranks.get(record)), 6))
        for record, found in every.items()
    )


def _ranks(found: Sequence[Found]) -> dict[int, int]:
    return {one.id: rank for rank, one in enumerate(found, start=1)}


def _matches(
    scene: _Scene, request: Request, found: list[Found], explain: Callable[[Found], Explanation] | None
) -> list[Match]:
    chosen: dict[bytes, Found] = {}
    for one in found:
        if request.min_score is not None and one.score < request.min_score:
            break
        if len(chosen) == request.limit and one.hash not in chosen:
            break
        chosen.setdefault(one.hash, one)
    best = list(chosen.values())
    return made(
        Match,
        len(best),
        record=records_of(request.namespace, [one.row for one in best]),
        score=[one.score for one in best],
        duplicates=[_duplicates(scene, one) if one.is_twin else () for one in best],
        explanation=map(explain, best) if explain else repeat(None),
    )


def _duplicates(scene: _Scene, found: Found) -> tuple[str, ...]:
    """The other living keys with this content that the search may find too."""
    rows = scene.db.execute(
        "SELECT id, key FROM record WHERE namespace = ? AND hash = ? AND id <> ?"
        " AND (expires_at IS NULL OR expires_at > ?) ORDER BY key",
        (scene.namespace, found.hash, found.id, scene.now),
    ).fetchall()
    return tuple(key for record, key in rows if scene.subset is None or scene.subset.holds(record))


def _explainer(
    scene: _Scene, request: Request, by_vector: list[Found], by_text: list[Found], plan: Plan | Literal["none"]
) -> Callable[[Found], Explanation]:
    vector_ranks, text_ranks = _ranks(by_vector), _ranks(by_text)
    vector_scores = {one.id: one.score for one in by_vector}
    text_found = {one.id: one for one in by_text}
    searched = scene.space is not None and request.vector is not None
    brought = searched and request.fingerprint == vector_fingerprint(len(request.vector))

    def explain(one: Found) -> Explanation:
        by_text = text_found.get(one.id)
        return Explanation(
            embedder=request.fingerprint if brought else request.embedder if searched else None,
            semantic=bool(searched and request.semantic),
            plan=plan,
            vector_rank=vector_ranks.get(one.id),
            vector_score=vector_scores.get(one.id),
            text_rank=text_ranks.get(one.id),
            text_score=by_text.score if by_text else None,
            passage=passage(scene.db, one, request.vector, by_text.piece if by_text else None),
        )

    return explain
