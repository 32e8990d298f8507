"""The index of memory: right from the first record to the last, lost or not, with numpy or without."""

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agentbox.adapters.memory._build import Builder
from agentbox.adapters.memory._segment import checksum_of
from agentbox.app import open_app
from agentbox_contracts.memory import Memory
from tests.integration.memory_worker import vector

MANIFEST = """
[adapters]
memory = "embedded"
[state]
path = "."
[memory.embedded]
exact_upto = 200
"""
COUNT = 1500


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Memory]:
    manifest = folder / "agentbox.toml"
    manifest.write_text(MANIFEST)
    async with open_app(manifest) as app:
        yield app.adapters.memory


async def filled(memory: Memory) -> dict[str, int]:
    """Store vectors under `k0` and on, each with its number as metadata."""
    stored = {f"k{number}": number for number in range(COUNT)}
    await asyncio.gather(
        *(memory.store(key, key, embedding=vector(key), text="", metadata={"n": n}) for key, n in stored.items())
    )
    return stored


async def indexed(memory: Memory) -> None:
    """Search until the index answers."""
    async with asyncio.timeout(60):
        while await plan(memory) != "index":
            await asyncio.sleep(0.01)


async def plan(memory: Memory, **filter: object) -> str:
    matches = await memory.search(embedding=vector("query"), explain=True, filter=dict(filter))
    assert matches[0].explanation is not None
    return matches[0].explanation.plan


async def agrees(memory: Memory, stored: dict[str, int], **filter: object) -> None:
    """A search with that filter finds nearly all of what comparing everything would, and only what passes."""
    found = wanted = 0
    for number in range(20):
        query = vector(f"query-{number}")
        matches = await memory.search(embedding=query, filter=dict(filter))
        best = sorted(stored, key=lambda key: -_cosine(query, vector(key)))[: len(matches)]
        assert {match.record.key for match in matches} <= stored.keys()
        found += len({match.record.key for match in matches} & set(best))
        wanted += min(10, len(stored))
    assert found >= 0.98 * wanted


def _cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return float(sum(a * b for a, b in zip(one, other, strict=True)) / math.sqrt(sum(x * x for x in other)))


async def test_the_index_takes_over_and_stays_right_through_updates_and_deletes(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        stored = await filled(memory)
        await indexed(memory)
        await agrees(memory, stored)
        for key in random.Random(1).sample(sorted(stored), 100):
            await memory.delete(key)
            del stored[key]
        await memory.store("new", "new", embedding=vector("new"), text="", metadata={"n": -1})
        (best, *_) = await memory.search(embedding=vector("new"), limit=1)
        assert best.record.key == "new"
        await agrees(memory, stored | {"new": -1})


@pytest.mark.parametrize(("least", "how"), [(300, "index"), (1400, "subset"), (1495, "subset")])
async def test_filters_apply_before_the_cut_whatever_they_leave(tmp_path: Path, least: int, how: str) -> None:
    async with opened(tmp_path) as memory:
        stored = await filled(memory)
        await indexed(memory)
        passing = {key: n for key, n in stored.items() if n >= least}
        await agrees(memory, passing, n={"ge": least})
        assert await plan(memory, n={"ge": least}) == how


async def test_an_index_that_was_deleted_is_built_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        stored = await filled(memory)
        await indexed(memory)
    for file in (tmp_path / "memory.index").iterdir():
        file.unlink()
    async with opened(tmp_path) as memory:
        assert await plan(memory) == "exact"
        await agrees(memory, stored)
        await indexed(memory)
        await agrees(memory, stored)


@pytest.mark.parametrize("left", [0, 3])
async def test_an_index_of_which_next_to_nothing_is_left_is_built_anew(tmp_path: Path, left: int) -> None:
    async with opened(tmp_path) as memory:
        stored = await filled(memory)
        await indexed(memory)
        await asyncio.gather(*map(memory.delete, list(stored)[left:]))

    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as db:
        builder = Builder(db, tmp_path / "memory.index", threads=1, stopped=lambda: False, tail=201)
        while builder.run("default"):
            pass
        assert sum(row[0] for row in db.execute("SELECT entries FROM segment")) == left
    async with opened(tmp_path) as memory:
        found = await memory.search(embedding=vector("k1"))
        assert {match.record.key for match in found} == set(list(stored)[:left])


async def test_a_file_of_another_length_is_no_index(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        stored = await filled(memory)
        await indexed(memory)
    for file in (tmp_path / "memory.index").glob("*.usearch"):
        file.write_bytes(file.read_bytes()[:-100])
    async with opened(tmp_path) as memory:
        assert await plan(memory) == "exact"
        await agrees(memory, stored)


def flipped(content: bytes, first: int) -> bytes:
    """*content* with a bit in each of many places from *first* on turned over."""
    chance, spoilt = random.Random(7), bytearray(content)
    for place in chance.sample(range(first, len(content)), 60):
        spoilt[place] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "links": lambda content: flipped(content, len(content) * 2 // 3),
    "head": lambda content: b"another" + content[7:],
    "another format": lambda content: random.Random(8).randbytes(len(content)),
    "nothing": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_file_that_is_not_as_it_was_written_is_no_index(tmp_path: Path, what: str) -> None:
    # In a process of their own: the library follows spoilt links out of its memory, and that ends the process.
    run(FILL, tmp_path)
    for file in (tmp_path / "memory.index").glob("*.usearch"):
        file.write_bytes(SPOILT[what](file.read_bytes()))
    run(FIND_AND_INDEX, tmp_path)


def test_a_file_of_another_version_of_the_library_is_no_index(tmp_path: Path) -> None:
    run(FILL, tmp_path)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        for file in (tmp_path / "memory.index").glob("*.usearch"):
            content = file.read_bytes()
            start = content.index(b"usearch")
            file.write_bytes(content[: start + 7] + bytes([99]) + content[start + 8 :])
            db.execute("UPDATE segment SET checksum = ? WHERE file = ?", (checksum_of(file), file.name))
    run(FIND_AND_INDEX, tmp_path)


FILL = """
        await filled(memory)
        await indexed(memory)
"""
FIND_AND_INDEX = """
        stored = {f"k{number}": number for number in range(COUNT)}
        assert await plan(memory) == "exact"
        await agrees(memory, stored)
        await indexed(memory)
        await agrees(memory, stored)
"""


def run(steps: str, folder: Path) -> None:
    """Do *steps* with the memory in *folder*, in a process that may die of it."""
    program = f"""
import asyncio, sys
from pathlib import Path
from tests.integration.test_memory_index import COUNT, agrees, filled, indexed, opened, plan

async def main():
    async with opened(Path(sys.argv[1])) as memory:
{steps}

asyncio.run(main())
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program, folder], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["memory.sqlite", "memory.index"])
async def test_a_file_of_any_name_has_an_index_of_its_own(tmp_path: Path, path: str) -> None:
    manifest = tmp_path / "agentbox.toml"
    manifest.write_text(f'{MANIFEST}path = "{path}"\n')
    async with open_app(manifest) as app:
        await filled(app.adapters.memory)
        await indexed(app.adapters.memory)
    assert list((tmp_path / f"{path}.index").glob("*.usearch"))


async def test_what_one_process_does_another_sees(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as other:
        stored = await filled(one)
        await indexed(one)
        await agrees(other, stored)
        await other.store("k1", "changed", embedding=vector("changed"), text="")
        await other.delete("k2")
        stored.pop("k2")
        (best, *_) = await one.search(embedding=vector("changed"), limit=1)
        assert (best.record.key, best.record.value) == ("k1", "changed")
        assert "k2" not in {m.record.key for m in await one.search(embedding=vector("k2"), limit=50)}


WITHOUT = """
import sys
for name in ("numpy", "usearch", "usearch.index"):
    sys.modules[name] = None
import asyncio
from pathlib import Path
from tests.integration.test_memory_index import agrees, filled, opened, plan

async def main():
    async with opened(Path(sys.argv[1])) as memory:
        stored = await filled(memory)
        await agrees(memory, stored)
        assert await plan(memory) == "exact"
        await agrees(memory, {key: n for key, n in stored.items() if n > 1450}, n={"gt": 1450})
        await memory.store("text", "a cat on a mat", namespace="words")
        assert [m.record.key for m in await memory.search("cats", namespace="words")] == ["text"]

asyncio.run(main())
"""


def test_without_numpy_everything_works_exactly(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", WITHOUT, tmp_path], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
