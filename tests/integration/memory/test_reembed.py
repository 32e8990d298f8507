"""Another embedder for a namespace, in SQLite and in Postgres: killed, searched and written meanwhile, never wrong."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentbox import manifest as manifests
from agentbox.adapters.memory._embedder import create_embedder, embedder_names
from agentbox.adapters.memory._embedder_settings import EmbedderSettings
from agentbox.cli import main
from agentbox.cli._opening import opened_slot
from agentbox_contracts.errors import BootError, EmbeddingError, NotFound, UnknownAdapter
from tests.servers import embedder_plugin
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

Written = Callable[..., Path]

DEADLINE = 30.0
REEMBED = ["memory", "reembed", "notes", "--to", "reversed", "--manifest"]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the embedder `reversed` installed in it."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    embedder_plugin.install(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture(params=["embedded", "external-pg"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    """Makes a manifest that chooses an embedder, with options for it; all of one test share a store."""
    impl = request.param
    text = f'[adapters]\nmemory = "{impl}"\n[memory.{impl}]\n'
    if impl == "external-pg":
        postgres: Server = request.getfixturevalue("postgres")
        text = postgres.manifest("memory")

    def write(embedder: str, **options: Any) -> Path:
        path = tmp_path / f"{embedder}.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        table = f"[memory.{impl}.embedder_options]"
        path.write_text("\n".join([f'{text}embedder = "{embedder}"', table, *lines]))
        return path

    return write


@asynccontextmanager
async def opened(manifest: Path) -> AsyncIterator[Any]:
    async with opened_slot(manifests.load(manifest), "memory") as adapter:
        yield adapter


def texts(count: int) -> dict[str, str]:
    """Keys with texts of which no two are alike in letters."""
    chance = random.Random(7)
    return {f"k{number}": "".join(chance.choices("abcdefghijklmnop", k=40)) for number in range(count)}


async def fill(memory: Any, records: dict[str, str]) -> None:
    gate = asyncio.Semaphore(32)

    async def store(key: str, text: str) -> None:
        async with gate:
            await memory.store(key, text, namespace="notes")

    await asyncio.gather(*(store(key, text) for key, text in records.items()))


async def nearest(memory: Any, text: str) -> str:
    matches = await memory.search(text, namespace="notes", mode="vector", limit=1)
    return str(matches[0].record.key)


async def test_an_entry_point_brings_an_embedder_and_its_vectors_are_checked(plugin: Path) -> None:
    assert "reversed" in embedder_names()
    made = create_embedder("reversed", EmbedderSettings(embedder="reversed"))
    (vector,) = await made.embed(["abc"], kind="query")
    assert list(vector)[-3:] == [1, 1, 1]


def test_an_embedder_that_nothing_provides_is_told_with_those_there_are(plugin: Path) -> None:
    with pytest.raises(UnknownAdapter, match="known: lexical, minilm, openai, reversed; did you mean 'minilm'"):
        create_embedder("minilmm", EmbedderSettings())


def test_a_plugin_whose_import_fails_is_told(plugin: Path) -> None:
    (plugin / "reversed_embedder-1.dist-info" / "entry_points.txt").write_text(
        "[agentbox.embedders]\nsick = nowhere_at_all:x\n"
    )
    with pytest.raises(BootError, match="nowhere_at_all"):
        create_embedder("sick", EmbedderSettings())


async def test_the_namespace_is_bound_anew_and_finds_the_same(plugin: Path, written: Written) -> None:
    records = texts(100)
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
        await memory.store("blank", 7, namespace="notes")
        steps = [step async for step in memory.adapter.reembed("notes", "reversed")]
        assert steps[0].done == 0
        assert steps[-1].finished
        assert (steps[-1].before, steps[-1].after, steps[-1].total) == ("lexical:2:384", "reversed:26", 100)
        with pytest.raises(EmbeddingError, match=r"bound to reversed:26.*lexical:2:384"):
            await nearest(memory, "abc")
        assert await memory.search(records["k3"], namespace="notes", mode="text")
        again = [step async for step in memory.adapter.reembed("notes", "reversed")]
        assert [step.finished for step in again] == [True]
    async with opened(written("reversed")) as memory:
        assert [await nearest(memory, text) for text in records.values()] == list(records)
        (numbers,) = await memory.adapter.stats()
        assert (numbers.embedder, numbers.vectors, numbers.pending_embedder) == ("reversed:26", 100, None)


def test_the_command_says_what_to_do_next(plugin: Path, written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = str(written("lexical"))
    assert main(["memory", "store", "key", "zebra", "-n", "notes", "--manifest", manifest]) == 0
    assert main([*REEMBED, manifest]) == 0
    told = capsys.readouterr().out.splitlines()[1:]
    assert told[0] == "notes is now bound to reversed:26; texts embedded: 1"
    assert told[1].startswith("to search it by vector, set [memory.")
    assert told[1].endswith('] embedder = "reversed" in the manifest')
    assert main(["memory", "search", "zebra", "-n", "notes", "--manifest", manifest]) == 1
    assert "choose its embedder in the manifest, or 'agentbox memory reembed" in capsys.readouterr().err
    assert main([*REEMBED, str(written("reversed"))]) == 0
    assert capsys.readouterr().out == "notes is bound to reversed:26 already\n"


async def test_what_cannot_be_embedded_anew_is_refused(plugin: Path, written: Written) -> None:
    async with opened(written("lexical")) as memory:
        with pytest.raises(NotFound, match="nowhere"):
            [_ async for _ in memory.adapter.reembed("nowhere", "reversed")]
        await memory.store("a", "text", namespace="brought", embedding=(1.0, 2.0))
        with pytest.raises(NotFound, match="nowhere"):
            [_ async for _ in memory.adapter.reembed("nowhere", "reversed")]
        with pytest.raises(EmbeddingError, match="callers brought"):
            [_ async for _ in memory.adapter.reembed("brought", "reversed")]


async def test_killed_in_the_middle_it_goes_on_and_searches_were_right_meanwhile(
    plugin: Path, tmp_path: Path, written: Written
) -> None:
    records = texts(300)
    log = tmp_path / "log"
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
        stopping = written("reversed", log=str(log), stop_after=200)
        command = [sys.executable, "-m", "agentbox", *REEMBED, str(stopping)]
        killed = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(plugin)})
        await _grown(log, 200 - 63)
        assert await nearest(memory, records["k299"]) == "k299"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        embedded = _lines(log)
        (numbers,) = await memory.adapter.stats()
        assert numbers.pending_embedder == "reversed:26"
        assert numbers.pending >= len(embedded) - 64 > 0
        left = 300 - numbers.pending
        assert [await nearest(memory, records[key]) for key in ("k0", "k150", "k299")] == ["k0", "k150", "k299"]
        records["k0"] = records["new"] = "zzzz yyyy"
        await fill(memory, {key: records[key] for key in ("k0", "new")})
        await memory.delete("k1", namespace="notes")
        del records["k1"]
    going_on = written("reversed", log=str(log))
    assert await asyncio.to_thread(main, [*REEMBED, str(going_on)]) == 0
    assert len(_lines(log)) - len(embedded) <= left + 2
    async with opened(written("reversed")) as memory:
        del records["new"]
        assert [await nearest(memory, text) for text in records.values()] == list(records)
        (numbers,) = await memory.adapter.stats()
        assert numbers.vectors == numbers.records == 300


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_killed_again_and_again_it_still_ends(plugin: Path, tmp_path: Path, written: Written) -> None:
    records = texts(1600)
    log = tmp_path / "log"
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
        kills = pending = 0
        while 1600 - pending >= 128:
            manifest = written("reversed", log=str(log), stop_after=70)
            command = [sys.executable, "-m", "agentbox", *REEMBED, str(manifest)]
            with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(plugin)}) as running:
                try:
                    pending = await _more(memory, pending + 37)
                finally:
                    running.kill()
            kills += 1
            assert await nearest(memory, records["k1599"]) == "k1599"
        assert kills > 20
    going_on = written("reversed", log=str(log))
    assert await asyncio.to_thread(main, [*REEMBED, str(going_on)]) == 0
    assert len(_lines(log)) <= 1600 + 64 * kills
    async with opened(written("reversed")) as memory:
        assert [await nearest(memory, text) for text in records.values()] == list(records)


async def test_writers_that_never_rest_do_not_keep_it_from_ending(plugin: Path, written: Written) -> None:
    records = texts(400)
    living = dict(list(records.items())[:200])
    over = asyncio.Event()
    async with opened(written("lexical")) as memory, opened(written("reversed")) as other:
        await fill(memory, living)

        async def write() -> None:
            for key, text in list(records.items())[200:]:
                try:
                    await memory.store(key, text, namespace="notes")
                except EmbeddingError:
                    return
                living[key] = text

        async def search() -> None:
            while not over.is_set():
                try:
                    assert await nearest(memory, records["k42"]) == "k42"
                except EmbeddingError:
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            tasks.create_task(search())
            async for _ in other.adapter.reembed("notes", "reversed"):
                pass
            over.set()
        assert [await nearest(other, text) for text in living.values()] == list(living)


async def test_two_that_do_it_at_once_both_end_and_nothing_is_missing(plugin: Path, written: Written) -> None:
    records = texts(200)
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
    async with opened(written("reversed")) as one, opened(written("reversed")) as other:

        async def done(memory: Any) -> Any:
            return [step async for step in memory.adapter.reembed("notes", "reversed")][-1]

        last = await asyncio.gather(done(one), done(other))
        assert [(step.after, step.finished) for step in last] == [("reversed:26", True)] * 2
        assert [await nearest(other, text) for text in records.values()] == list(records)
        (numbers,) = await one.adapter.stats()
        assert (numbers.vectors, numbers.pending_embedder) == (200, None)


async def test_what_was_begun_for_another_embedder_is_not_taken_for_this_one(plugin: Path, written: Written) -> None:
    records = texts(200)
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
    async with opened(written("reversed", mark="b")) as other:
        steps = other.adapter.reembed("notes", "reversed")
        none, some, more = [(await anext(steps)).done for _ in range(3)]
        assert none == 0 < some < more
        await steps.aclose()
    async with opened(written("reversed")) as memory:
        (numbers,) = await memory.adapter.stats()
        assert (numbers.pending, numbers.pending_embedder) == (more, "reversed:26b")
        steps = [step async for step in memory.adapter.reembed("notes", "reversed")]
        assert (steps[0].done, steps[-1].done) == (0, 200)
        assert [await nearest(memory, text) for text in records.values()] == list(records)
        (numbers,) = await memory.adapter.stats()
        assert (numbers.embedder, numbers.vectors, numbers.pending_embedder) == ("reversed:26", 200, None)


async def test_what_was_begun_is_dropped_for_the_embedder_that_there_is(plugin: Path, written: Written) -> None:
    records = texts(100)
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
        steps = memory.adapter.reembed("notes", "reversed")
        [await anext(steps) for _ in range(3)]
        await steps.aclose()
        assert (await memory.adapter.stats())[0].pending > 0
        assert [step.finished async for step in memory.adapter.reembed("notes", "lexical")] == [True]
        (numbers,) = await memory.adapter.stats()
        assert (numbers.pending, numbers.pending_embedder, numbers.vectors) == (0, None, 100)
        assert [await nearest(memory, text) for text in records.values()] == list(records)


async def test_back_and_forth_ends_where_it_began(plugin: Path, written: Written) -> None:
    records = texts(100)
    async with opened(written("lexical")) as memory:
        await fill(memory, records)
        for to in ("reversed", "lexical", "reversed", "lexical"):
            *_, last = [step async for step in memory.adapter.reembed("notes", to)]
            assert (last.done, last.finished) == (100, True)
        assert [await nearest(memory, text) for text in records.values()] == list(records)


async def _more(memory: Any, pending: int) -> int:
    """How many vectors wait to take over, once these are more than *pending*."""
    until = time.monotonic() + DEADLINE
    while (found := (await memory.adapter.stats())[0].pending) <= pending:
        assert time.monotonic() < until, "it did not get on"
        await asyncio.sleep(0.05)
    return int(found)


async def _grown(log: Path, lines: int) -> None:
    until = time.monotonic() + DEADLINE
    while len(_lines(log)) < lines:
        assert time.monotonic() < until, "it did not get that far"
        await asyncio.sleep(0.01)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
