"""Claims through the app against raw sqlite3 that commits each claim, with the same SQL, pragmas and tables."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from pathlib import Path
from time import perf_counter

from agentbox.adapters.beads._work import CLAIM
from tests.bench import _store
from tests.bench._measure import Bench, Measured, paired, spread

ROUNDS = 21
CLAIMS = 640


async def _measure(callers: int, claims: int, *, events: str = "off") -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        raw, ours = Path(folder, "raw"), Path(folder, "ours")
        for store in (raw, ours):
            _store.fill(store, claims * (ROUNDS + 1))
        db = _store.connection(raw)
        raw_numbers, our_numbers = itertools.count(1), itertools.count(1)

        async def reference() -> float:
            ids = [f"bd-{next(raw_numbers)}" for _ in range(claims)]
            started = perf_counter()
            for bead_id in ids:
                db.execute("BEGIN IMMEDIATE")
                row = db.execute(CLAIM, ("worker", time.time_ns() // 1000, None, bead_id)).fetchone()
                db.execute("COMMIT")
                assert row is not None
            return (perf_counter() - started) / claims

        async with _store.beads_of(ours, events=events) as beads:

            async def subject() -> float:
                ids = [f"bd-{next(our_numbers)}" for _ in range(claims)]
                return await spread(lambda number: beads.claim(ids[number], actor="worker"), claims, callers)

            measured = await paired(reference, subject, rounds=ROUNDS)
        db.close()
        return measured


BENCHES = (
    Bench(
        name="claim-64",
        what="beads.claim, 64 callers : raw sqlite3",
        bound="at_least",
        bar=2.5,
        measure=lambda: asyncio.run(_measure(64, CLAIMS)),
    ),
    Bench(
        name="claim-1",
        what="beads.claim, one caller : raw sqlite3",
        bound="at_least",
        bar=0.35,
        measure=lambda: asyncio.run(_measure(1, CLAIMS // 2)),
    ),
    Bench(
        name="claim-64-told",
        what="beads.claim, 64 callers, each told as an event : raw sqlite3, untold",
        bound="at_least",
        bar=1.2,
        measure=lambda: asyncio.run(_measure(64, CLAIMS, events="local-jsonl")),
    ),
    Bench(
        name="claim-1-told",
        what="beads.claim, one caller, each told as an event : raw sqlite3, untold",
        bound="at_least",
        bar=0.25,
        measure=lambda: asyncio.run(_measure(1, CLAIMS // 2, events="local-jsonl")),
    ),
)
