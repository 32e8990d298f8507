"""What is peculiar to memory on Postgres: the extension, indexes of vectors, and what they leave exact."""

from __future__ import annotations

import asyncio
import math
import random
from operator import mul
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from agentbox.adapters.memory import _pg_reembed, _pg_search, _pg_vectors
from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput
from agentbox_contracts.memory import Memory
from tests.servers import embedder_plugin
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

ROWS, DIMENSIONS = 1200, 16


def vectors(count: int, seed: int) -> list[tuple[float, ...]]:
    """Vectors in a dozen clusters."""
    chance = random.Random(seed)
    centres = [[chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(12)]
    return [tuple(x + chance.gauss(0, 0.4) for x in chance.choice(centres)) for _ in range(count)]


async def filled(adapter: Memory) -> dict[str, tuple[float, ...]]:
    rows = {f"{number:05}": vector for number, vector in enumerate(vectors(ROWS, 1))}
    for number, (key, vector) in enumerate(rows.items()):
        metadata = {"half": number % 2, "tenth": number % 10, "rare": number % 400}
        await adapter.store(key, number, namespace="many", embedding=vector, metadata=metadata)
    return rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds at which a small namespace is a large one."""
    for module in (_pg_reembed, _pg_search, _pg_vectors):
        monkeypatch.setattr(module, "EXACT", 400)


@pytest.fixture
def reversed_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedder `reversed`, installed."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    embedder_plugin.install(folder)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.usefixtures("small")
async def test_an_index_loses_nothing_behind_a_filter(tmp_path: Path, postgres: Server) -> None:
    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        await filled(adapter)
        filters: tuple[Any, ...] = (None, {"half": 1}, {"tenth": 3}, {"rare": 7}, {"rare": {"gt": 390}})
        exact = {n: [await keys(adapter, v, each) for v in vectors(10, 2)] for n, each in enumerate(filters)}
        assert [await plan_of(adapter, each) for each in filters] == ["exact", *["subset"] * 4]

        await adapter.adapter.tend()
        plans = [await plan_of(adapter, each) for each in filters]
        found = {n: [await keys(adapter, v, each) for v in vectors(10, 2)] for n, each in enumerate(filters)}

    assert plans == ["index", "index", "index", "subset", "subset"]
    for number in exact:
        hits = sum(len({*a} & {*b}) for a, b in zip(exact[number], found[number], strict=True))
        assert [len(each) for each in found[number]] == [len(each) for each in exact[number]]
        assert hits / sum(map(len, exact[number])) >= 0.98


@pytest.mark.usefixtures("small")
async def test_what_lies_far_from_the_query_is_found_as_well(tmp_path: Path, postgres: Server) -> None:
    chance = random.Random(4)
    centres = [[chance.gauss(0, 1) for _ in range(48)] for _ in range(10)]

    def near(centre: int) -> tuple[float, ...]:
        return tuple(x + chance.gauss(0, 0.35) for x in centres[centre])

    rows = [(number % 10, near(number % 10)) for number in range(2000)]
    queries = [near(0) for _ in range(15)]
    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        for start in range(0, len(rows), 4):
            stores = (
                adapter.store(f"{number:05}", number, namespace="many", embedding=vector, metadata={"centre": centre})
                for number, (centre, vector) in enumerate(rows[start : start + 4], start)
            )
            await asyncio.gather(*stores)
        await adapter.adapter.tend()
        for passes, centres_of in (({"centre": 5}, {5}), ({"centre": {"ne": 0}}, set(range(1, 10)))):
            own = [number for number, (centre, _) in enumerate(rows) if centre in centres_of]
            hits = 0
            for query in queries:
                best = sorted(own, key=lambda number: -cosine(query, rows[number][1]))[:10]
                found = await keys(adapter, query, passes)
                assert len(found) == 10
                hits += len({*found} & {f"{number:05}" for number in best})
            assert hits / (10 * len(queries)) >= 0.98, passes


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(map(mul, one, other)) / math.hypot(*other)


async def keys(adapter: Memory, vector: tuple[float, ...], filter: Any) -> list[str]:
    found = await adapter.search(embedding=vector, namespace="many", filter=filter)
    return [match.record.key for match in found]


async def plan_of(adapter: Memory, filter: Any) -> str:
    vector = vectors(1, 3)[0]
    (match,) = await adapter.search(embedding=vector, namespace="many", filter=filter, limit=1, explain=True)
    assert match.explanation is not None
    return match.explanation.plan


@pytest.mark.usefixtures("small")
async def test_a_namespace_with_an_index_takes_other_vectors_once_it_is_empty(tmp_path: Path, postgres: Server) -> None:
    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        rows = await filled(adapter)
        await adapter.adapter.tend()
        for key in rows:
            await adapter.delete(key, namespace="many")
        await adapter.store("other", 1, namespace="many", embedding=(1.0, 2.0))

        found = await adapter.search(embedding=(1.0, 2.0), namespace="many")
    assert [match.record.key for match in found] == ["other"]


async def test_more_dimensions_than_the_server_has_room_for_are_refused(tmp_path: Path, postgres: Server) -> None:
    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        await adapter.store("most", 1, embedding=(0.1,) * 16_000)
        with pytest.raises(InvalidInput, match="at most 16,000 dimensions, this one has 16,001"):
            await adapter.store("more", 1, namespace="other", embedding=(0.1,) * 16_001)
        with pytest.raises(InvalidInput, match="at most 16,000 dimensions"):
            await adapter.search(embedding=(0.1,) * 16_001)
        assert (await adapter.list_namespaces()).items == ["default"]


async def test_a_filter_with_more_values_than_a_statement_may_have_is_refused(tmp_path: Path, postgres: Server) -> None:
    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        await adapter.store("key", "zebra")
        with pytest.raises(InvalidInput, match="filter: it names more than 32,000 names and values"):
            await adapter.search("zebra", filter={"or": [{f"m{n}": n} for n in range(20_000)]})


async def test_what_expired_is_swept(tmp_path: Path, postgres: Server) -> None:
    schema = "memory_swept"
    async with open_slot(postgres.manifest("memory", schema=schema), "memory", folder=tmp_path) as adapter:
        await adapter.store("brief", "zebra", ttl_seconds=0.001)
        await adapter.store("long", "zebra", ttl_seconds=600)
        await adapter.adapter.tend()
    db = await asyncpg.connect(postgres.dsn)
    try:
        kept = await db.fetchval(f"SELECT array_agg(key) FROM {schema}.record")
        pieces = await db.fetchval(f"SELECT count(*) FROM {schema}.piece")
    finally:
        await db.close()
    assert (kept, pieces) == (["long"], 1)


async def test_without_the_extension_it_says_how_to_get_it(tmp_path: Path, postgres: Server) -> None:
    db = await asyncpg.connect(postgres.dsn)
    try:
        await db.execute("CREATE DATABASE bare TEMPLATE template0")
        await db.execute("CREATE ROLE guest LOGIN PASSWORD 'secret'")
        manifest = postgres.manifest("memory", dsn=f"postgresql://guest:secret@{postgres.host}:{postgres.port}/bare")
        with pytest.raises(AdapterUnavailable, match=r"superuser say CREATE EXTENSION vector in this database"):
            async with open_slot(manifest, "memory", folder=tmp_path):
                pass
    finally:
        await db.execute("DROP DATABASE IF EXISTS bare")
        await db.execute("DROP ROLE IF EXISTS guest")
        await db.close()


async def test_a_server_that_does_not_have_the_extension_is_told_how_to_get_it(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pg_vectors, "EXTENSION", "vector_of_a_server_without_it")
    told = r"does not have the extension vector: install pgvector on the server \(Debian and Ubuntu: apt install"
    with pytest.raises(AdapterUnavailable, match=told):
        async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path):
            pass


async def test_the_extension_may_be_in_a_schema_of_its_own(tmp_path: Path, postgres: Server) -> None:
    db = await asyncpg.connect(postgres.dsn)
    try:
        await db.execute("CREATE DATABASE elsewhere TEMPLATE template0")
        inside = await asyncpg.connect(postgres.dsn_of(database="elsewhere"))
        await inside.execute('CREATE SCHEMA "My Extensions"; CREATE EXTENSION vector SCHEMA "My Extensions"')
        await inside.close()
        manifest = postgres.manifest("memory", dsn=postgres.dsn_of(database="elsewhere"))
        async with open_slot(manifest, "memory", folder=tmp_path) as adapter:
            await adapter.store("key", "zebra")
            found = await adapter.search("zebra", explain=True)
        assert [match.record.key for match in found] == ["key"]
    finally:
        await db.execute("DROP DATABASE IF EXISTS elsewhere WITH (FORCE)")
        await db.close()


@pytest.mark.usefixtures("small", "reversed_embedder")
async def test_another_embedder_brings_its_index_and_leaves_nothing_behind(tmp_path: Path, postgres: Server) -> None:
    schema = "memory_reembedded"
    async with open_slot(postgres.manifest("memory", schema=schema), "memory", folder=tmp_path) as adapter:
        for number in range(500):
            await adapter.store(f"{number}", f"text {chr(97 + number % 26) * (number % 40 + 1)}", namespace="many")
        await adapter.adapter.tend()
        *_, last = [step async for step in adapter.adapter.reembed("many", "reversed")]
        assert (last.total, last.finished) == (500, True)
    manifest = postgres.manifest("memory", schema=schema, embedder="reversed")
    async with open_slot(manifest, "memory", folder=tmp_path) as adapter:
        (match,) = await adapter.search("text zzz", namespace="many", mode="vector", limit=1, explain=True)
    db = await asyncpg.connect(postgres.dsn)
    try:
        old = await db.fetchval(f"SELECT count(*) FROM {schema}.piece WHERE embedding IS NOT NULL")
        sql = "SELECT array_agg(indexname) FROM pg_indexes WHERE schemaname = $1 AND indexname LIKE '%hnsw%'"
        indexes = await db.fetchval(sql, schema)
    finally:
        await db.close()
    assert match.explanation is not None
    assert match.explanation.plan == "index"
    assert (old, len(indexes)) == (0, 1)


async def test_what_a_killed_one_left_behind_is_tidied_up_later(
    tmp_path: Path, postgres: Server, reversed_embedder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any) -> None:
        raise AdapterUnavailable("killed")

    async with open_slot(postgres.manifest("memory"), "memory", folder=tmp_path) as adapter:
        await adapter.store("key", "zebra")
        with monkeypatch.context() as patch:
            patch.setattr(_pg_reembed, "tidy", killed)
            assert [step async for step in adapter.adapter.reembed("default", "reversed")][-1].finished
        left = adapter.adapter._db.read(_pg_reembed.left_behind)
        assert await left == ["default"]
        await adapter.adapter.tend()
        left = adapter.adapter._db.read(_pg_reembed.left_behind)
        assert await left == []


async def test_a_schema_of_the_first_version_is_upgraded(tmp_path: Path, postgres: Server) -> None:
    schema = "memory_upgraded"
    manifest = postgres.manifest("memory", schema=schema)
    async with open_slot(manifest, "memory", folder=tmp_path) as adapter:
        await adapter.store("key", "zebra")
    db = await asyncpg.connect(postgres.dsn)
    try:
        await db.execute(
            f"SET search_path = {schema}, public; DELETE FROM version WHERE version = 2;"
            " ALTER TABLE namespace DROP side, DROP generation, DROP next_fingerprint, DROP next_dimensions,"
            " DROP clean; ALTER TABLE record DROP fresh; ALTER TABLE piece DROP embedding_2"
        )
    finally:
        await db.close()
    async with open_slot(manifest, "memory", folder=tmp_path) as adapter:
        await adapter.store("other", "otter")
        found = await adapter.search("zebra", mode="vector")
    assert [match.record.key for match in found] == ["key", "other"]
