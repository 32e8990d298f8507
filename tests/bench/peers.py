"""
`make bench-peers`: filtered search and durable stores beside chromadb, lancedb and sqlite-vec, all on disk.

Every store gets the same vectors and the same filter, which a tenth of the records pass; each is asked by 8 callers for
the 10 nearest, and writes one record at a time for 64 callers, each on disk before the caller goes on. Whoever can be
told how hard to search gets the least effort that reaches a recall of 0.98. What does not sync its files by itself
(lancedb, by strace) has them synced here, those of all callers that wait together.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import attrs
import numpy as np

from tests.bench import _vectors
from tests.bench._measure import spread

COUNT = int(os.environ.get("AGENTBOX_BENCH_PEERS", "100000"))
QUERIES, STORES, CALLERS = 200, 640, 64
RECALL = 0.98


class Peer(Protocol):
    """A store under test; each call is one that an application would make."""

    @property
    def efforts(self) -> Sequence[int]:
        """How hard it can be told to search, least first."""

    async def tell(self, effort: int) -> None:
        """Search so hard from now on."""

    async def search(self, query: Any) -> list[int]:
        """The numbers of the 10 nearest of those whose `tenth` is 0."""

    async def store(self, number: int, vector: Any) -> None:
        """Keep one more, on disk when this returns."""


@attrs.frozen
class Rates:
    """What a peer reached, in a second, with what effort, and how much of the truth it found."""

    name: str
    effort: int
    search: float
    recall: float
    store: float


class _Fixed:
    """Searches as it likes."""

    efforts = (0,)

    async def tell(self, effort: int) -> None:
        """There is nothing to tell."""


class Agentbox(_Fixed):
    """`app.adapters.memory`, which finds its effort itself."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    async def search(self, query: Any) -> list[int]:
        found = await self._memory.search(embedding=query.tolist(), mode="vector", filter={"tenth": 0})
        return [match.record.value for match in found]

    async def store(self, number: int, vector: Any) -> None:
        meta = _vectors.metadata(number)
        await self._memory.store(f"k{number}", number, embedding=vector.tolist(), metadata=meta, text="")


class Chroma:
    """chromadb's own client on a folder; its calls block, so each runs in a thread. It syncs each store by itself."""

    efforts = (10, 20, 40, 80, 120, 160, 240, 320, 480, 640)

    def __init__(self, folder: Path, vectors: Any) -> None:
        import chromadb  # type: ignore[import-not-found]

        client = chromadb.PersistentClient(os.fspath(folder))
        self._records = client.create_collection("bench", configuration={"hnsw": {"space": "cosine"}})
        for start in range(0, len(vectors), 5000):
            numbers = range(start, min(start + 5000, len(vectors)))
            self._records.add(
                ids=[str(n) for n in numbers],
                embeddings=vectors[start : start + 5000],
                metadatas=[_vectors.metadata(n) for n in numbers],
            )

    async def tell(self, effort: int) -> None:
        await asyncio.to_thread(self._records.modify, configuration={"hnsw": {"ef_search": effort}})

    async def search(self, query: Any) -> list[int]:
        found = await asyncio.to_thread(
            self._records.query, query_embeddings=[query], n_results=10, where={"tenth": 0}, include=["metadatas"]
        )
        return [int(number) for number in found["ids"][0]]

    async def store(self, number: int, vector: Any) -> None:
        meta = _vectors.metadata(number)
        await asyncio.to_thread(self._records.add, ids=[str(number)], embeddings=[vector], metadatas=[meta])


class Lance:
    """
    lancedb's async client: its index of lists with so many of them looked at, or 0 for comparing all that pass.

    Both are tried because the one that is quicker depends on how many records pass.
    """

    efforts = (0, 1, 2, 4, 8, 16, 32, 64, 128)

    def __init__(self, table: Any, folder: Path) -> None:
        self._table = table
        self._folder = folder
        self._synced: set[Path] = set(folder.rglob("*"))
        self._turn = threading.Lock()
        self._effort = 0

    @classmethod
    async def of(cls, folder: Path, vectors: Any) -> Lance:
        import lancedb  # type: ignore[import-not-found]
        import pyarrow as pa  # type: ignore[import-not-found]

        db = await lancedb.connect_async(os.fspath(folder))
        metadata = [_vectors.metadata(n) for n in range(len(vectors))]
        columns = {name: pa.array([one[name] for one in metadata]) for name in metadata[0]}
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), _vectors.DIMENSIONS)
        table = await db.create_table(
            "bench", pa.table({"n": pa.array(range(len(vectors))), "vector": flat, **columns})
        )
        await table.create_index("tenth", config=lancedb.index.Bitmap())
        await table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine"))
        return cls(table, folder)

    async def tell(self, effort: int) -> None:
        self._effort = effort

    async def search(self, query: Any) -> list[int]:
        asked = self._table.query().nearest_to(query).distance_type("cosine").where("tenth = 0").limit(10)
        asked = asked.nprobes(self._effort) if self._effort else asked.bypass_vector_index()
        return [row["n"] for row in await asked.select(["n", "_distance"]).to_list()]

    async def store(self, number: int, vector: Any) -> None:
        await self._table.add([{"n": number, "vector": vector, **_vectors.metadata(number)}])
        await asyncio.to_thread(self._sync)

    def _sync(self) -> None:
        """Have on disk what was written since the last time; who waits for a turn finds it done."""
        with self._turn:
            fresh = set(self._folder.rglob("*")) - self._synced
            for path in [*fresh, *{path.parent for path in fresh}]:
                with suppress(FileNotFoundError):
                    descriptor = os.open(path, os.O_RDONLY)
                    os.fsync(descriptor)
                    os.close(descriptor)
            self._synced |= fresh


class SqliteVec(_Fixed):
    """sqlite-vec by apsw: it compares all that pass. The member is a column; synchronous=FULL; one call at a time."""

    def __init__(self, folder: Path, vectors: Any) -> None:
        import apsw  # type: ignore[import-not-found]
        import sqlite_vec  # type: ignore[import-not-found]

        folder.mkdir()
        self._db = apsw.Connection(os.fspath(folder / "vec.db"))
        self._db.enable_load_extension(True)
        self._db.load_extension(sqlite_vec.loadable_path())
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        self._db.execute(
            f"CREATE VIRTUAL TABLE v USING vec0"
            f" (n INTEGER PRIMARY KEY, e FLOAT[{_vectors.DIMENSIONS}] distance_metric=cosine, tenth INTEGER)"
        )
        with self._db:
            for number, vector in enumerate(vectors):
                self._put(number, vector)
        self._lock = asyncio.Lock()

    def _put(self, number: int, vector: Any) -> None:
        row = (number, vector.astype("f4").tobytes(), _vectors.metadata(number)["tenth"])
        self._db.execute("INSERT INTO v (n, e, tenth) VALUES (?, ?, ?)", row)

    async def search(self, query: Any) -> list[int]:
        sql = "SELECT n FROM v WHERE e MATCH ? AND k = 10 AND tenth = 0"
        async with self._lock:
            rows = await asyncio.to_thread(lambda: self._db.execute(sql, (query.tobytes(),)).fetchall())
        return [row[0] for row in rows]

    async def store(self, number: int, vector: Any) -> None:
        async with self._lock:
            await asyncio.to_thread(self._put, number, vector)


async def measured(name: str, peer: Peer, queries: Any, truth: list[list[int]], fresh: Any) -> Rates:
    """Search with the effort that is quickest at the recall, then store."""
    best = Rates(name, 0, 0.0, 0.0, 0.0)
    for effort in peer.efforts:
        await peer.tell(effort)
        found = [await peer.search(query) for query in queries]
        recall = sum(len(set(one) & set(other)) for one, other in zip(found, truth, strict=True)) / (10 * len(truth))
        if recall < RECALL and effort != peer.efforts[-1]:
            continue
        rounds = [await spread(lambda n: peer.search(queries[n]), QUERIES, 8) for _ in range(3)]
        if 1 / min(rounds) > best.search:
            best = Rates(name, effort, 1 / min(rounds), recall, 0.0)
        if effort:
            break
    seconds = await spread(lambda n: peer.store(COUNT + n, fresh[n]), STORES, CALLERS)
    return attrs.evolve(best, store=1 / seconds)


async def main() -> int:
    """A line for each, and 1 when one is ahead of ours."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CALLERS))
    clusters = _vectors.Clusters()
    queries, vectors, fresh = clusters.draw(QUERIES), clusters.draw(COUNT), clusters.draw(STORES)
    passing = np.array([n for n in range(COUNT) if _vectors.metadata(n)["tenth"] == 0])
    truth = passing[_vectors.brute(queries, vectors[passing])].tolist()
    print(f"{COUNT:,} vectors, a tenth pass the filter")
    print(f"{'':12} {'search/s':>9} {'recall':>7} {'effort':>7} {'store/s':>9}", flush=True)
    rates: list[Rates] = []

    async def show(name: str, make: Callable[[], Awaitable[Peer]]) -> None:
        started = perf_counter()
        one = await measured(name, await make(), queries, truth, fresh)
        rates.append(one)
        reached = f"{one.search:9,.0f} {one.recall:7.3f} {one.effort or '-':>7} {one.store:9,.0f}"
        print(f"{name:12} {reached}   ({perf_counter() - started:.0f} s)", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        ours = Path(folder, "agentbox")
        _vectors.fill(ours, iter([vectors]))
        _vectors.index(ours)
        async with _vectors.memory_of(ours) as memory:
            await show("agentbox", lambda: _ready(Agentbox(memory)))
        await show("chromadb", lambda: asyncio.to_thread(Chroma, Path(folder, "chroma"), vectors))
        await show("lancedb", lambda: Lance.of(Path(folder, "lance"), vectors))
        await show("sqlite-vec", lambda: _ready(SqliteVec(Path(folder, "vec"), vectors)))
    mine, *others = rates
    beaten = [
        one.name for one in others if one.store >= mine.store or (one.recall >= RECALL and one.search >= mine.search)
    ]
    print("behind " + ", ".join(beaten) if beaten else "ahead of all", flush=True)
    return 1 if beaten or mine.recall < RECALL else 0


async def _ready(peer: Peer) -> Peer:
    return peer


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
