"""One application script about events, with three manifests: what it prints is the same, byte for byte."""

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

SCRIPT = Path(__file__).with_name("same_events.py")
OTHERS = 'beads = "local-sqlite"\npods = "off"\nmemory = "off"\norchestrator = "local-process-manager"\n'
EMBEDDED = '[adapters]\nevents = "local-jsonl"\n'


def whole(manifest: str) -> str:
    """*manifest*, which chooses events alone, with the other slots said too."""
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
    """The manifest of a client of a host with a log in files."""
    (folder / "host").mkdir()
    with host(folder / "host", whole(EMBEDDED)) as served:
        yield served.client("events")


@contextmanager
def host_of_a_host(folder: Path) -> Iterator[str]:
    """The manifest of a client of a host that spools for another."""
    (folder / "front").mkdir()
    with one_host(folder) as behind, host(folder / "front", whole(behind)) as front:
        yield front.client("events")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory.mktemp("embedded") / "app", EMBEDDED)


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


@pytest.mark.parametrize("through", [one_host, host_of_a_host], ids=["one host", "a host of a host"])
def test_through_hosts_it_is_the_same(through: Callable[[Path], Any], embedded: str, tmp_path: Path) -> None:
    with through(tmp_path) as manifest:
        assert printed(tmp_path / "app", manifest) == embedded
