"""`agentbox events` in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.events import Event

MANIFEST = '[adapters]\nevents = "local-jsonl"\n[state]\npath = "."\n'


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder whose log has thirty events of three types."""
    (tmp_path / "agentbox.toml").write_text(MANIFEST)
    await say(tmp_path, *(f"test.{number % 3}" for number in range(30)))
    return tmp_path


async def say(folder: Path, *types: str) -> None:
    async with open_slot(MANIFEST, "events", folder=folder) as events:
        await events.dispatch_many(
            [Event(type=name, source="test", subject=f"s{index}", data=index) for index, name in enumerate(types)]
        )


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "agentbox", "events", *words]


def agentbox(folder: Path, *words: str, code: int = 0) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
    done = subprocess.run(command(*words), cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def seqs(text: str) -> list[Any]:
    return [json.loads(line)["seq"] for line in text.splitlines()]


async def test_a_pipe_gets_the_data_whole(folder: Path) -> None:
    async with open_slot(MANIFEST, "events", folder=folder) as events:
        await events.dispatch(Event(type="test.long", source="test", data="x" * 5000))
    assert agentbox(folder, "tail", "-n", "1").split()[-1] == f'"{"x" * 5000}"'


async def test_tail_and_query_choose_by_place_and_type(folder: Path) -> None:
    assert seqs(agentbox(folder, "tail", "-n", "3", "--json")) == [28, 29, 30]
    assert seqs(agentbox(folder, "tail", "-n", "2", "--type", "test.0", "--json")) == [25, 28]
    assert seqs(agentbox(folder, "query", "--after", "20", "--limit", "2", "--type", "test.*", "--json")) == [21, 22]
    assert seqs(agentbox(folder, "query", "--subject", "s4", "--json")) == [5]
    assert agentbox(folder, "query", "--until", "2020-01-01") == ""
    assert agentbox(folder, "tail", "-n", "1").split()[0] == "30"
    assert "no date or time" in agentbox(folder, "query", "--since", "yesterday", code=2)


async def test_stats_count_types(folder: Path) -> None:
    assert json.loads(agentbox(folder, "stats", "--json"))["types"] == {"test.0": 10, "test.1": 10, "test.2": 10}
    assert "30 events, seq 1 to 30" in agentbox(folder, "stats")


async def test_tail_follows_another_process(folder: Path) -> None:
    with subprocess.Popen(command("tail", "-n", "1", "-f", "--json"), cwd=folder, stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert seqs(tail.stdout.readline().decode()) == [30]
        await say(folder, "test.more")
        assert seqs(tail.stdout.readline().decode()) == [31]
        tail.send_signal(signal.SIGINT)
    assert tail.returncode == 130


async def test_verify_says_where_the_chain_is_broken(folder: Path) -> None:
    assert agentbox(folder, "verify").startswith("ok: 30 events, seq 1 to 30")
    receipt = json.loads(agentbox(folder, "query", "--after", "29", "--json"))
    expected = ("--expect-seq", "30", "--expect-hash", receipt["hash"])
    agentbox(folder, "verify", *expected)
    agentbox(folder, "verify", "events", *expected)
    for where in ([], ["events"]):
        assert "another hash" in agentbox(folder, "verify", *where, *expected[:3], "0" * 64, code=1)
        assert "a receipt is for 31" in agentbox(folder, "verify", *where, "--expect-seq", "31", code=1)
        assert "--expect-seq" in agentbox(folder, "verify", *where, "--expect-hash", "0" * 64, code=2)
    assert "seq 30 has another hash than the receipt; seq 1 to 29 is good" in agentbox(
        folder, "verify", *expected[:3], "0" * 64, code=1
    )
    (segment,) = (folder / "events").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"s7"', b'"s8"'))

    place = f"broken: {segment.name}:8: its hash is not that of its bytes; seq 1 to 7 is good"
    assert place in agentbox(folder, "verify", code=1)
    assert place in agentbox(folder, "verify", "events", code=1)
    assert json.loads(agentbox(folder, "verify", "events", "--json", code=1))["verified"] == 7
    assert "no folder" in agentbox(folder, "verify", "nowhere", code=2)


async def test_verify_says_of_a_receipt_that_retention_has_cut_the_event(folder: Path) -> None:
    (folder / "agentbox.toml").write_text(
        f"{MANIFEST}[events.local-jsonl]\nsegment_bytes = 4096\nretain_bytes = 4096\n"
    )
    async with open_slot((folder / "agentbox.toml").read_text(), "events", folder=folder) as events:
        for _ in range(3):
            await events.dispatch_many([Event(type="test.long", source="test", data="x" * 400)] * 20)
        first = (await events.verify()).first_seq

    for where in ([], ["events"]):
        told = agentbox(folder, "verify", *where, "--expect-seq", "3", code=1)
        assert f"begins with seq {first}, and a receipt is for 3; seq {first} to " in told
