"""One application script, unchanged, with four manifests: what it prints is the same, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.host import host
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

SCRIPT = Path(__file__).with_name("same_script.py")
OTHERS = 'pods = "off"\nmemory = "off"\nevents = "off"\norchestrator = "local-process-manager"\n'
EMBEDDED = '[adapters]\nbeads = "local-sqlite"\n'


def whole(manifest: str) -> str:
    """*manifest*, which chooses beads alone, with the other slots said too."""
    return manifest.replace("[adapters]\n", f"[adapters]\n{OTHERS}")


def printed(folder: Path, manifest: str) -> str:
    """What the script prints in *folder*."""
    folder.mkdir()
    (folder / "agentbox.toml").write_text(whole(manifest))
    env = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT)], cwd=folder, env=env, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@contextmanager
def one_host(folder: Path) -> Iterator[str]:
    """The manifest of a client of a host on SQLite."""
    (folder / "host").mkdir()
    with host(folder / "host", whole(EMBEDDED)) as served:
        yield served.client("beads")


@contextmanager
def host_of_a_host(folder: Path) -> Iterator[str]:
    """The manifest of a client of a host that has its beads from another."""
    (folder / "front").mkdir()
    with one_host(folder) as behind, host(folder / "front", whole(behind)) as front:
        yield front.client("beads")


def story(text: str) -> dict[str, dict[str, Any]]:
    """The steps by name; of several the last."""
    return {step["step"]: step for step in json.loads(text)}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory.mktemp("embedded") / "app", EMBEDDED)


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


@pytest.mark.parametrize("through", [one_host, host_of_a_host], ids=["one host", "a host of a host"])
def test_through_hosts_it_is_the_same(through: Callable[[Path], Any], embedded: str, tmp_path: Path) -> None:
    with through(tmp_path) as manifest:
        assert printed(tmp_path / "app", manifest) == embedded


def test_on_postgres_it_is_the_same(embedded: str, tmp_path: Path, postgres: Server) -> None:
    assert printed(tmp_path / "app", postgres.manifest()) == embedded
