"""What is peculiar to memory in SQLite; what every adapter promises is in the suite."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters._sqlite import Database
from agentbox.adapters.memory import _records, _search
from agentbox.adapters.memory.embedded import EmbeddedMemory, EmbeddedSettings
from agentbox.app import open_app
from agentbox_contracts.errors import AdapterUnavailable, EmbeddingError
from agentbox_contracts.memory import Record

MANIFEST = '[adapters]\nmemory = "embedded"\n[state]\npath = "."\n'


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "agentbox.toml"
    path.write_text(MANIFEST)
    return path


async def test_there_is_no_file_before_the_first_write(manifest: Path) -> None:
    async with open_app(manifest) as app:
        assert await app.adapters.memory.search("anything") == []
        assert (await app.adapters.memory.list_namespaces()).items == []
        assert not (manifest.parent / "memory.db").exists()
        await app.adapters.memory.store("a", "cats purr")
        assert [match.record.key for match in await app.adapters.memory.search("cat")] == ["a"]


async def test_lexical_says_that_it_is_not_semantic(manifest: Path) -> None:
    async with open_app(manifest) as app:
        assert "not semantic" in (await app.adapters.memory.health()).reason
        await app.adapters.memory.store("a", "cats purr")
        (match,) = await app.adapters.memory.search("cats", explain=True)
        assert match.explanation is not None
        assert not match.explanation.semantic


async def test_an_empty_namespace_may_be_bound_anew(manifest: Path) -> None:
    async with open_app(manifest) as app:
        memory = app.adapters.memory
        await memory.store("a", 1, embedding=(1.0, 0.0))
        with pytest.raises(EmbeddingError, match=r"vector:2.*lexical"):
            await memory.store("b", "some text")
        await memory.delete("a")
        await memory.store("b", "some text")
        assert [match.record.key for match in await memory.search("text", mode="vector")] == ["b"]


async def test_a_store_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")  # as who has made the file, and has not got as far as its log
        opening = asyncio.create_task(asyncio.to_thread(_opened, path))
        done, _ = await asyncio.wait([opening], timeout=0.2)
        other.execute("COMMIT")
        assert not done
        assert await opening == "wal"


def _opened(path: Path) -> str:
    with closing(Database(path, busy_timeout_seconds=20).connection()) as db:
        return str(db.execute("PRAGMA journal_mode").fetchone()[0])


async def test_a_key_that_is_stored_often_leaves_no_trail(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_records, "KEPT", 20)
    monkeypatch.setattr(_records, "NOW_AND_THEN", 5)
    async with open_app(manifest) as one, open_app(manifest) as other:
        for round in range(30):
            for key in ("a", "b", "c"):
                await one.adapters.memory.store(
                    key, round, embedding=(1.0, round), metadata={"n": round % 7, "key": key}
                )
            if round in (0, 1, 15, 16, 29):  # reads now less, now more than there is left to read
                found = await other.adapters.memory.search(embedding=(1.0, round), filter={"n": round % 7})
                assert sorted((match.record.key, match.record.value) for match in found) == [("a", round)]
                assert found[0].duplicates == ("b", "c")
    with closing(sqlite3.connect(manifest.parent / "memory.db")) as db:
        assert db.execute("SELECT count(*) FROM gone").fetchone()[0] <= 25


async def test_not_every_namespace_that_was_ever_searched_is_held_in_memory(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_search, "ROOM", 20_000)
    async with open_app(manifest) as app:
        memory: Any = app.adapters.memory
        for round in range(3):
            for number in range(20):
                own = f"{number}"
                await memory.store(
                    f"{round}", own, namespace=own, embedding=(1.0, number, round), metadata={"n": round}
                )
                both = asyncio.gather(
                    memory.search(embedding=(1.0, number, round), namespace=own),
                    memory.search(own, mode="text", namespace=f"{number // 2}", filter={"n": 0}),
                )
                found, by_text = await both
                assert [match.record.key for match in found] == [f"{each}" for each in range(round, -1, -1)]
                assert all(match.record.namespace == f"{number // 2}" for match in by_text)
        assert len(memory.adapter._searcher._sizes) < 12
        assert len(memory.adapter._searcher._spaces) < 12


async def test_a_clock_that_goes_back_updates_nothing_before_it_was_created(tmp_path: Path) -> None:
    days: list[int] = [9, 3, 3]
    stored: list[Record] = []
    memory = EmbeddedMemory(
        slot="memory",
        impl="embedded",
        config=EmbeddedSettings(path=tmp_path / "memory.db", sweep_seconds=80_000),
        logger=logging.getLogger("test"),
        clock=lambda: datetime(2030, 1, days[len(stored)], tzinfo=UTC),
    )
    await memory.connect()
    try:
        for number in range(2):
            stored.append(await memory.store("a", number, embedding=(1.0, 0.0)))
    finally:
        await memory.disconnect()
    assert [(record.created_at.day, record.updated_at.day) for record in stored] == [(9, 9), (9, 9)]


async def test_health_says_that_the_file_was_removed(manifest: Path) -> None:
    async with open_app(manifest) as app:
        memory = app.adapters.memory
        await memory.store("a", "cats purr")
        assert (await memory.health()).state == "healthy"
        (manifest.parent / "memory.db").unlink()
        health = await memory.health()
        assert (health.state, "was removed or replaced" in health.reason) == ("degraded", True)
        (manifest.parent / "memory.db").touch()
        assert (await memory.health()).state == "degraded"


async def test_a_store_that_could_not_be_made_is_made_later(manifest: Path) -> None:
    async with open_app(manifest) as app:
        memory, obstacle = app.adapters.memory, manifest.parent / "memory.db"
        obstacle.mkdir()
        for _ in range(2):
            with pytest.raises(AdapterUnavailable):
                await memory.store("a", "cats purr")
        obstacle.rmdir()
        await memory.store("a", "cats purr")
        assert [match.record.key for match in await memory.search("cat")] == ["a"]
        assert (await memory.health()).state == "healthy"
