"""The suites prove themselves: every known-bad adapter is caught, and by assertions alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox import grading

MANIFESTS = {
    "beads": '[adapters]\nbeads = "local-sqlite"\n',
    "orchestrator": '[adapters]\norchestrator = "local-process-manager"\n',
    "events": '[adapters]\nevents = "off"\n',
}


@pytest.mark.parametrize("slot", MANIFESTS)
async def test_without_its_assertions_no_clause_catches_anything(slot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "_stripped")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    proof = await grading.prove(slot, MANIFESTS[slot])
    assert not proof.holds
    assert {pair.known_bad: pair.reason for pair in proof.pairs if pair.verdict == "caught"} == {}
