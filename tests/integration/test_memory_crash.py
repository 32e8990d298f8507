"""`kill -9` in the middle of stores, updates, deletes and of building indexes."""

from __future__ import annotations

import asyncio
import math
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentbox.app import open_app
from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Memory
from tests.integration import memory_worker
from tests.integration.memory_worker import odd, vector

MANIFEST = """
[adapters]
memory = "embedded"
[state]
path = "."
[memory.embedded]
exact_upto = 100
"""


@pytest.mark.parametrize("kills", [8, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.timeout(3600)
async def test_what_was_acknowledged_is_there_after_every_kill(tmp_path: Path, kills: int) -> None:
    manifest = tmp_path / "agentbox.toml"
    manifest.write_text(MANIFEST)
    possible: dict[str, set[str]] = {}
    indexed = saving = 0
    nearest: list[bool] = []
    for number in range(kills):
        await _worked_and_killed(manifest, number, possible)
        saving += any((tmp_path / "memory.index").glob("*.tmp"))
        async with open_app(manifest) as app:
            truth = await _truth(app.adapters.memory, possible)
            await _agrees(app.adapters.memory, truth, number)
            nearest += [hit async for hit in _nearest(app.adapters.memory, truth, number)]
        indexed += any((tmp_path / "memory.index").glob("*.usearch"))
    print(f"{kills} kills: {indexed} left an index, {saving} hit while one was saved, {len(possible)} keys")
    assert indexed, "no index was ever built, so none was ever killed"
    recall = sum(nearest) / len(nearest)
    print(f"of the {len(nearest):,} nearest, by the index, {recall:.2%} were found")
    assert recall >= 0.98


async def _worked_and_killed(manifest: Path, number: int, possible: dict[str, set[str]]) -> None:
    """Run a worker for a while and kill it; *possible* is what each key may hold then, `-` being nothing."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, memory_worker.__file__, manifest, str(number), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    lines = random.Random(number).randrange(20, 1500)
    read = 0
    while line := (await worker.stdout.readline()).decode():
        if not line.endswith("\n"):
            break
        sign, key, value = line.split()
        possible[key] = {value} if sign == "!" else possible.get(key, {"-"}) | {value}
        read += 1
        if read == lines:
            worker.kill()
    await worker.wait()
    assert worker.returncode == -9


async def _truth(memory: Memory, possible: dict[str, set[str]]) -> dict[str, str]:
    """What each key holds now, which must be what it may; from here on it may hold nothing else."""
    truth: dict[str, str] = {}
    for key, values in possible.items():
        try:
            found = (await memory.retrieve(key)).value
        except NotFound:
            found = "-"
        assert found in values
        possible[key] = {found}
        if found != "-":
            truth[key] = found
    assert (await memory.list_keys(limit=1000)).items == sorted(truth)
    return truth


async def _agrees(memory: Memory, truth: dict[str, str], number: int) -> None:
    """Searches find what comparing everything finds, with the same scores: all of it, behind a filter, and by words."""
    query = vector(f"all-{number}")
    everything = await memory.search(embedding=query, limit=1000)
    assert {match.record.key: match.record.value for match in everything} == truth
    for match in everything:
        assert abs(match.score - _dot(query, vector(match.record.value)) / math.hypot(*query)) < 1e-5
    passing = await memory.search(embedding=query, limit=1000, filter={"odd": True})
    assert {match.record.key for match in passing} == {key for key, value in truth.items() if odd(value)}
    for key in random.Random(number).sample(sorted(truth), min(5, len(truth))):
        assert key in [match.record.key for match in await memory.search(truth[key], mode="text", limit=1000)]
    every = await memory.search(" ".join(str(step) for step in range(250)), mode="text", limit=1000)
    assert {match.record.key for match in every} <= truth.keys()


async def _nearest(memory: Memory, truth: dict[str, str], number: int) -> AsyncIterator[bool]:
    """Of each record that is among the ten nearest by comparing everything, whether a search finds it there too."""
    for query in (vector(f"query-{number}-{n}") for n in range(5)):
        best = sorted(truth, key=lambda key: -_dot(query, vector(truth[key])))[:10]
        found = {match.record.key for match in await memory.search(embedding=query, limit=10)}
        assert found <= truth.keys()
        assert len(found) == len(best)
        for key in best:
            yield key in found


def _dot(query: tuple[float, ...], other: tuple[float, ...]) -> float:
    return float(sum(a * b for a, b in zip(query, other, strict=True)) / math.sqrt(sum(x * x for x in other)))
