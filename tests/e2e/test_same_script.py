"""One application script, unchanged, with four manifests: what it prints is the same, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e._same import Script
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

EMBEDDED = '[adapters]\nbeads = "local-sqlite"\n'
SCRIPT = Script(path=Path(__file__).with_name("same_script.py"), slot="beads", embedded=EMBEDDED)


def story(text: str) -> dict[str, dict[str, Any]]:
    """The steps by name; of several the last."""
    return {step["step"]: step for step in json.loads(text)}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> str:
    return SCRIPT.printed(tmp_path_factory.mktemp("embedded") / "app", EMBEDDED)


def test_the_story_is_a_rich_one(embedded: str) -> None:
    told = story(embedded)
    classes = {step["error"]["class"] for step in told.values() if "error" in step}
    assert len(told) > 250
    assert classes == {"AdapterUnavailable", "AlreadyClaimed", "Conflict", "InvalidInput", "NotFound", "StaleClaim"}
    assert told["the slot"]["capabilities"] == ["keys", "leases", "sync"]
    assert told["eight at once"]["came"] == {"AlreadyClaimed": 7, "Bead": 1}
    assert told["grace loses"]["error"]["actor"] == "ada"
    assert told["grace takes it"]["result"]["fence"] == 2
    assert told["for a minute"]["result"]["lease"] == 60
    assert told["the same"]["same"] is True
    assert told["page 2"]["next"] is None
    assert len({bead["id"] for bead in told["eight with one key"]["made"]}) == 1
    assert len(told["the file"]["lines"]) == told["exported"]["result"]["exported"] == 50
    assert told["strangers come in"]["result"]["created"] == 3


@pytest.mark.parametrize("through", [SCRIPT.one_host, SCRIPT.host_of_a_host], ids=["one host", "a host of a host"])
def test_through_hosts_it_is_the_same(through: Callable[[Path], Any], embedded: str, tmp_path: Path) -> None:
    with through(tmp_path) as manifest:
        assert SCRIPT.printed(tmp_path / "app", manifest) == embedded


def test_on_postgres_it_is_the_same(embedded: str, tmp_path: Path, postgres: Server) -> None:
    assert SCRIPT.printed(tmp_path / "app", postgres.manifest()) == embedded
