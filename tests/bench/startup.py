"""`agentbox --help` against an interpreter that only imports argparse."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from tests.bench._measure import Bench, Measured, paired

ROUNDS = 15


def _seconds(*command: str | Path) -> float:
    started = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started


async def _measure() -> Measured:
    agentbox = Path(sys.executable).with_name("agentbox")

    async def reference() -> float:
        return _seconds(sys.executable, "-c", "import argparse")

    async def subject() -> float:
        return _seconds(agentbox, "--help")

    return await paired(reference, subject, rounds=ROUNDS)


BENCHES = (
    Bench(
        name="help",
        what='agentbox --help : python -c "import argparse"',
        bound="at_most",
        bar=5,
        measure=lambda: asyncio.run(_measure()),
    ),
)
