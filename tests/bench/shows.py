"""`show` through the app against one loop of execute and fetchone with aiosqlite, for the same row and columns."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import aiosqlite

from agentbox.adapters._sqlite import PRAGMAS
from agentbox.adapters.beads._work import _SHOW
from tests.bench import _store
from tests.bench._measure import Bench, Measured, on_one_core, paired, seconds_of, spread

ROUNDS = 21
READS = 640
BEAD = "bd-500"


async def _measure(callers: int) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _store.fill(folder, 1000)
        async with aiosqlite.connect(folder / "beads.db", isolation_level=None) as db, _store.beads_of(folder) as beads:
            for pragma in PRAGMAS:
                await db.execute(pragma)

            async def read(_: int) -> None:
                cursor = await db.execute(_SHOW, (BEAD,))
                assert await cursor.fetchone() is not None

            async def reference() -> float:
                return await seconds_of(read, READS // 2)

            async def subject() -> float:
                return await spread(lambda _: beads.show(BEAD), READS, callers)

            return await paired(reference, subject, rounds=ROUNDS)


def _lone() -> Measured:
    with on_one_core():
        return asyncio.run(_measure(1))


BENCHES = (
    Bench(
        name="show-1",
        what="beads.show, one caller : one aiosqlite loop, both on one core",
        bound="at_least",
        bar=1.3,
        measure=_lone,
    ),
    Bench(
        name="show-64",
        what="beads.show, 64 callers : one aiosqlite loop",
        bound="at_least",
        bar=5,
        measure=lambda: asyncio.run(_measure(64)),
    ),
)
