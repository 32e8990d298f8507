"""
Memory through the app: filtered search against the bare index without a filter, durable stores, and opening.

Every search bench holds the recall first: a quick wrong answer is no answer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
import numpy as np
from usearch.index import Index

from agentbox.adapters.memory import _records
from tests.bench import _vectors
from tests.bench._measure import Bench, Measured, paired, spread

COUNT = 100_000
CALLERS = 8
QUERIES = 400
ROUNDS = 7
RECALL = 0.98
MILLION = int(os.environ.get("AGENTBOX_BENCH_VECTORS", "1000000"))


@attrs.frozen
class _Scene:
    """A store with COUNT vectors, the vectors themselves, queries, and the bare index at the recall that is asked."""

    folder: Path
    vectors: Any
    queries: Any
    raw: Any


@cache
def _scene() -> _Scene:
    folder = Path(_kept().name, "search")
    clusters = _vectors.Clusters()
    queries, vectors = clusters.draw(QUERIES), clusters.draw(COUNT)
    if not (folder / "memory.db").exists():
        _vectors.fill(folder, (vectors[start : start + 10_000] for start in range(0, COUNT, 10_000)))
        _vectors.index(folder)
    return _Scene(folder, vectors, queries, _raw(vectors, queries))


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def _raw(vectors: Any, queries: Any) -> Any:
    """The index library by itself, at the least effort that reaches the recall."""
    index = Index(ndim=_vectors.DIMENSIONS, metric="ip", dtype="f16", enable_key_lookups=False)
    index.add(np.arange(len(vectors)), vectors)
    truth = _vectors.brute(queries, vectors)
    for effort in itertools.count(10, 2):
        index.expansion_search = effort  # type: ignore[misc]
        if _recall(index.search(queries, 10).keys.tolist(), truth.tolist()) >= RECALL:
            return index
    raise AssertionError


def _recall(found: list[list[int]], truth: list[list[int]]) -> float:
    hits = sum(len(set(one) & set(other)) for one, other in zip(found, truth, strict=True))
    return hits / sum(len(other) for other in truth)


async def _search(member: str) -> Measured:
    scene = _scene()
    queries = [tuple(map(float, query)) for query in scene.queries]
    passing = np.array([n for n in range(COUNT) if _vectors.metadata(n)[member] == 0])
    truth = passing[_vectors.brute(scene.queries, scene.vectors[passing])].tolist()

    async def reference() -> float:
        return _threaded(lambda number: scene.raw.search(scene.queries[number], 10))

    async with _vectors.memory_of(scene.folder) as memory:

        async def ask(number: int) -> list[int]:
            found = await memory.search(embedding=queries[number], mode="vector", filter={member: 0})
            return [match.record.value for match in found]

        recall = _recall([await ask(number) for number in range(QUERIES)], truth)
        print(f"  {member}: recall@10 {recall:.4f}; the bare index reaches {RECALL} with {scene.raw.expansion_search}")
        assert recall >= RECALL, f"{member}: recall {recall:.4f}"
        return await paired(reference, lambda: spread(ask, QUERIES, CALLERS), rounds=ROUNDS)


def _threaded(call: Callable[[int], object]) -> float:
    """Seconds for one of QUERIES calls that CALLERS threads share."""

    def caller(first: int) -> None:
        for number in range(first, QUERIES, CALLERS):
            call(number)

    threads = [threading.Thread(target=caller, args=(first,)) for first in range(CALLERS)]
    started = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (perf_counter() - started) / QUERIES


async def _store() -> Measured:
    stores, callers = 640, 64
    numbers, vectors = itertools.count(), _vectors.Clusters().draw(stores)
    embeddings = [tuple(map(float, vector)) for vector in vectors]
    with tempfile.TemporaryDirectory() as folder:
        raw, ours = Path(folder, "raw"), Path(folder, "ours")
        for store in (raw, ours):
            _vectors.fill(store, iter([vectors[:1]]))
        db = _vectors.connection(raw)

        async def reference() -> float:
            started = perf_counter()
            for vector in vectors:
                db.execute("BEGIN IMMEDIATE")
                _records.store(db, _vectors.draft(next(numbers), vector), 0, None)
                db.execute("COMMIT")
            return (perf_counter() - started) / stores

        async with _vectors.memory_of(ours) as memory:

            async def keep(number: int) -> None:
                n = next(numbers)
                await memory.store(f"k{n}", n, metadata=_vectors.metadata(n), text="", embedding=embeddings[number])

            measured = await paired(reference, lambda: spread(keep, stores, callers), rounds=ROUNDS)
        db.close()
        return measured


OPENING = """
import asyncio, sys, time
started = time.perf_counter()
from pathlib import Path
from tests.bench import _vectors
async def main():
    async with _vectors.memory_of(Path(sys.argv[1])) as memory:
        found = await memory.search(embedding=[1.0] * _vectors.DIMENSIONS, mode="vector")
        assert len(found) == 10
        spent = time.perf_counter() - started
        # Not ru_maxrss, in which a process begins with what the one that started it had.
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(spent, status["VmHWM"].split()[0], status["RssAnon"].split()[0])
asyncio.run(main())
"""


async def _open() -> Measured:
    small, large = _opened_store(10_000), _opened_store(MILLION)

    async def first_answer(folder: Path) -> float:
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", OPENING, folder], cwd=root, capture_output=True, check=True)
        seconds, *kib = done.stdout.split()
        rss[folder.name] = tuple(int(size) // 1024 for size in kib)
        return float(seconds)

    rss: dict[str, tuple[int, ...]] = {}
    measured = await paired(lambda: first_answer(small), lambda: first_answer(large), rounds=5)
    for name, (most, own) in rss.items():
        print(f"  {int(name):,} vectors: RSS at most {most:,} MiB with the mapped file, {own:,} MiB of it anonymous")
    return measured


def _opened_store(count: int) -> Path:
    """A store with so many vectors; kept in AGENTBOX_BENCH_STATE, where that is set, because a million take minutes."""
    folder = Path(os.environ.get("AGENTBOX_BENCH_STATE") or _kept().name, str(count))
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        clusters = _vectors.Clusters()
        _vectors.fill(folder, (clusters.draw(10_000) for _ in range(count // 10_000)))
        _vectors.index(folder)
        (folder / "ready").touch()
    return folder


def _filtered(name: str, member: str, part: str, bar: float) -> Bench:
    return Bench(
        name=name,
        what=f"memory.search by vector, {part} pass the filter, 8 callers : bare usearch without one",
        bound="at_least",
        bar=bar,
        measure=lambda: asyncio.run(_search(member)),
    )


BENCHES = (
    _filtered("memory-half", "half", "50 %", 0.4),
    _filtered("memory-tenth", "tenth", "10 %", 0.2),
    _filtered("memory-1in100", "hundredth", "1 %", 0.2),
    Bench(
        name="memory-store",
        what="memory.store, 64 callers : raw sqlite3 with the same SQL",
        bound="at_least",
        bar=1.5,
        measure=lambda: asyncio.run(_store()),
    ),
    Bench(
        name="memory-open",
        what=f"process start to first answer, {MILLION:,} vectors : 10,000",
        bound="at_most",
        bar=1.5,
        measure=lambda: asyncio.run(_open()),
    ),
)
