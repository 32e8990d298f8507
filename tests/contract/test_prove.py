"""The suites prove themselves: every known-bad adapter is caught, and by assertions alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox import grading
from agentbox._grading_cases import pairs

ADAPTERS = [
    ("beads", "local-sqlite"),
    ("events", "local-jsonl"),
    ("memory", "embedded"),
    ("orchestrator", "local-process-manager"),
    ("events", "off"),
]


SHARE = 6
"""Of so many known-bad adapters `make test` takes one, and `make soak` all."""


@pytest.mark.parametrize(("slot", "impl"), ADAPTERS)
async def test_without_its_assertions_no_clause_catches_anything(
    slot: str, impl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_nothing_is_caught(slot, impl, SHARE, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize(("slot", "impl"), ADAPTERS)
async def test_without_their_assertions_all_clauses_catch_nothing(
    slot: str, impl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_nothing_is_caught(slot, impl, 1, monkeypatch)


async def check_nothing_is_caught(slot: str, impl: str, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "_stripped")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    names = tuple(pairs(slot, off=impl == "off")[0])[::share]
    proof = await grading.prove(slot, f'[adapters]\n{slot} = "{impl}"\n', names=names)
    assert len(proof.pairs) == len(names)
    assert not proof.holds
    assert {pair.known_bad: pair.reason for pair in proof.pairs if pair.verdict == "caught"} == {}
