"""One application script about events, with three manifests: what it prints is the same, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e._same import Script

EMBEDDED = '[adapters]\nevents = "local-jsonl"\n'
SCRIPT = Script(
    path=Path(__file__).with_name("same_events.py"), slot="events", embedded=EMBEDDED, others={"beads": "local-sqlite"}
)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> str:
    return SCRIPT.printed(tmp_path_factory.mktemp("embedded") / "app", EMBEDDED)


def test_the_story_is_a_rich_one(embedded: str) -> None:
    told = {step["step"]: step for step in json.loads(embedded)}
    assert told["the slot"]["capabilities"] == ["ack", "dedupe", "subscribe", "verify"]
    assert told["in order"] == {"step": "in order", "data": list(range(20)), "rising": True}
    assert told["one of each"]["kept"] == [["s", "first"], ["other", "first"]]
    assert told["a page"]["data"] == [1, 2, 3]
    assert told["behind what was acknowledged, then live"]["data"] == [*range(5, 20), "live"]
    assert told["the chain"]["ok"] is True
    assert sum("error" in step for step in json.loads(embedded)) == 16
    assert told["nothing of it is kept"]["found"] == []


@pytest.mark.parametrize("through", [SCRIPT.one_host, SCRIPT.host_of_a_host], ids=["one host", "a host of a host"])
def test_through_hosts_it_is_the_same(through: Callable[[Path], Any], embedded: str, tmp_path: Path) -> None:
    with through(tmp_path) as manifest:
        assert SCRIPT.printed(tmp_path / "app", manifest) == embedded
