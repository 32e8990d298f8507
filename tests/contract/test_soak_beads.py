"""A thousand second writers and a thousand crashes, each from a seed of its own that is printed when it fails."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox_contracts.errors import StaleClaim
from agentbox_contracts.suites._beads_crash import killed_at_a_random_moment, looks_of
from agentbox_contracts.suites._beads_processes import overtaken
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

SEEDS = 1000
STORE = 100
"""Seeds that share a store: in a large one, looking for an epic takes longer than the crash."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def seeds(first: int, count: int) -> Iterator[random.Random]:
    """Chances from *first* on, or only the one of AGENTBOX_SEED."""
    only = os.environ.get("AGENTBOX_SEED")
    for seed in [int(only)] if only else range(first, first + count):
        print(f"\rAGENTBOX_SEED={seed}", end="")
        yield random.Random(seed)


class TestSoak:
    slot = "beads"
    known_bad = None

    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\nbeads = "local-sqlite"\n'

    async def test_second_writers(self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str) -> None:
        came: Counter[str] = Counter()
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            for chance in seeds(0, SEEDS):
                struggle = await overtaken(here, there, chance)
                assert struggle.is_sound, struggle
                told = "refused" if isinstance(struggle.answer, StaleClaim) else "written"
                came[f"{struggle.write} {told}"] += 1
        print(f"\n{dict(sorted(came.items()))}")

    @pytest.mark.parametrize("first", range(0, SEEDS, STORE))
    async def test_crashes(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str, tmp_path: Path, first: int
    ) -> None:
        came: Counter[str] = Counter()
        async with open_adapter(manifest) as here:
            looks = await looks_of(here, tmp_path)
            for chance in seeds(first, STORE):
                for method, acknowledged, shape in await killed_at_a_random_moment(
                    here, open_process, manifest, tmp_path, chance, looks
                ):
                    assert shape in (looks[method][1:] if acknowledged else looks[method]), (method, acknowledged)
                    before, _ = looks[method]
                    came["acknowledged" if acknowledged else "undone" if shape == before else "done unheard"] += 1
        print(f"\n{dict(sorted(came.items()))}")
