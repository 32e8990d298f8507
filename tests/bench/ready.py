"""
`get_ready(limit=50)` in a large store against a small one.

The first call of each store notices the leases that had run out and marks their beads ready, once; that call is timed
by nobody. The beads stay among the answers.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.bench import _store
from tests.bench._measure import Bench, Measured, paired, seconds_of

SMALL, LARGE = 10_000, 1_000_000
ROUNDS = 31
CALLS = 20


async def _measure() -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        _store.fill_mixed(small, SMALL)
        _store.fill_mixed(large, LARGE)
        async with _store.beads_of(small) as few, _store.beads_of(large) as many:
            for beads in (few, many):
                found = await beads.get_ready(limit=50)
                assert len(found) == 50
                assert {bead.priority for bead in found} == {0}
                assert len(await beads.get_ready(limit=1000)) == 1000

            async def reference() -> float:
                return await seconds_of(lambda _: few.get_ready(limit=50), CALLS)

            async def subject() -> float:
                return await seconds_of(lambda _: many.get_ready(limit=50), CALLS)

            return await paired(reference, subject, rounds=ROUNDS)


BENCHES = (
    Bench(
        name="ready",
        what="beads.get_ready(limit=50), 1,000,000 beads : 10,000",
        bound="at_most",
        bar=1.5,
        measure=lambda: asyncio.run(_measure()),
    ),
)
