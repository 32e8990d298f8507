"""The demo as a stranger runs it: piped, on a fresh state folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def play(*options: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "agentbox.cli.demo", *options]
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that name *folder* or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, cwd = (process / "cmdline").read_bytes().decode(errors="replace"), os.readlink(process / "cwd")
        except OSError:
            continue
        if str(folder) in command or cwd.startswith(str(folder)):
            found.append(command.replace("\0", " "))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def played(folder: Path) -> subprocess.CompletedProcess[str]:
    return play(tmp_path=folder)


def test_demo_ends_well(played: subprocess.CompletedProcess[str]) -> None:
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""


def test_killed_workers_task_is_taken_over_with_a_higher_fence(played: subprocess.CompletedProcess[str]) -> None:
    killed = re.search(r"kill -9 +(\w+), in the middle of (\S+)", played.stdout)
    assert killed, played.stdout
    victim, bead_id = killed.groups()
    taken = re.search(rf"(\w+) +takes over +{re.escape(bead_id)} .*\(fence 1 → 2\)", played.stdout)
    assert taken, played.stdout
    assert taken.group(1) != victim


def test_every_task_is_done_exactly_once(played: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r"total +12 +of 12, each exactly once", played.stdout), played.stdout
    closed = re.findall(r"^ +[\d.]+ s +(?:ada|grace|linus|margaret) +closed +(\S+)", played.stdout, re.MULTILINE)
    assert len(closed) == len(set(closed)) == 12


def test_metrics_are_told(played: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r"beads\.claim_ready +\d+ +[\d.]+ +[\d.]+", played.stdout), played.stdout
    assert re.search(r"orchestrator\.spawn +4 ", played.stdout), played.stdout


def test_piped_output_is_plain(played: subprocess.CompletedProcess[str]) -> None:
    assert "\x1b" not in played.stdout


def test_nothing_is_left_behind(played: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


def test_state_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    ended = play("--state", str(taken), tmp_path=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr
