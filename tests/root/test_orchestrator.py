"""Agents on a disk that fails, fills up, or stops in the middle: typed errors, and what was acknowledged is known."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator import _proc
from tests.root.lane import Answer, Worker, injected, started

pytestmark = pytest.mark.root

MOST = 30
PATIENCE = 30.0
UNAVAILABLE = {"AdapterUnavailable"}
PATHS = {"link": ["./exit.json"]}
"""The keeper links too, to note who lives: that is not counted."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "strace.log"


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    """A worker with the slot open, all it needs loaded."""
    with started("orchestrator", folder) as worker:
        assert not worker.do("open").errors
        run_well(worker)
        assert not worker.do("read").errors
        yield worker


def run_well(worker: Worker) -> Answer:
    answer = worker.do("work")
    assert (answer.errors, len(answer.acknowledged), answer.endings) == (set(), 8, {"exited 3"}), answer.lines
    return answer


def keeper_of(folder: Path) -> int:
    return int(json.loads((folder / "agents" / "keeper.json").read_text())["pid"])


def removed(folder: Path) -> None:
    """Remove it, though a supervisor that stands by may be making something in it just now."""
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        assert time.monotonic() < deadline


def keeper_without_spare(folder: Path) -> int:
    """
    The keeper, once nothing lies ready and every supervisor of the next starts will be forked by it.

    A tracer sees only those, and its count of calls is the same each time.
    """
    keeper, deadline = keeper_of(folder), time.monotonic() + PATIENCE
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(folder / "agents" / "keeper.sock"))
        line.sendall(b'{"op": "hello"}\n')
        assert line.recv(4096)  # it has done by now whatever followed from the last start
        while children := _proc.children(keeper):
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline
            time.sleep(0.01)
    removed(folder / "agents" / "blanks")
    return keeper


def synced_before_start(log: str) -> set[str]:
    """The names of what was on the disk when the first command was let go."""
    asked: dict[str, str] = {}
    synced: set[str] = set()
    for line in log.splitlines():
        pid, _, call = line.partition(" ")
        if call.lstrip().startswith("execve"):
            return synced
        if found := re.search(r"fsync\(\d+<(.*?)>", call):
            asked[pid] = Path(found[1]).name
        if "fsync" in call and " = 0" in call:
            synced.add(asked[pid])
    raise AssertionError("nothing was started")


def test_a_command_runs_when_its_record_and_its_start_are_on_the_disk(worker: Worker, folder: Path, log: Path) -> None:
    with injected(keeper_without_spare(folder), "fsync,execve:delay_exit=50000", log=log) as done:
        answer = worker.do("agent")
    (agent_id,) = {agent for what, agent in answer.acknowledged if what == "spawned"}
    assert synced_before_start(done.log) == {"record.json", "started.json", agent_id, "agents"}


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["mkdir", "openat", "write", "rename"])
def test_a_call_that_fails_is_adapter_unavailable_and_the_next_one_works(
    worker: Worker, log: Path, call: str, error: str
) -> None:
    failures = 0
    for number in itertools.count(1):
        fault = f"{call}:error={error}:when={number}"
        with injected(worker.pid, fault, log=log) as done:
            answers = [worker.do("work"), worker.do("read")]
        for answer in answers:
            assert answer.errors <= UNAVAILABLE, (fault, answer.lines)
            assert answer.endings <= {"exited 3"}, (fault, answer.lines)
        if not done.count or number > MOST:
            break
        failures += bool(answers[0].errors)
        run_well(worker)
    assert failures


# The first files are `started.json`, the last `exit.json`. The second `write` tells of a child's end, in a pipe.
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize(
    ("call", "numbers", "is_fatal"),
    [
        ("openat", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), True),
        ("write", (1,), True),
        ("fsync", (1, 2, 3, 4), True),
        ("rename", (1,), True),
        ("openat", (11, 12), False),
        ("write", (3,), False),
        ("fsync", (5, 6), False),
        ("link", (1,), False),
    ],
)
def test_a_supervisor_that_cannot_write_starts_nothing_or_writes_the_end_later(
    worker: Worker, folder: Path, log: Path, call: str, numbers: tuple[int, ...], is_fatal: bool, error: str
) -> None:
    for number in numbers:
        # strace counts on from where the parent was: by the time it forks again, the keeper has read something itself.
        fault = f"{call}:error={error}:when={number}{'+' * is_fatal}"
        with injected(keeper_without_spare(folder), fault, log=log, paths=PATHS.get(call, ())) as done:
            answer = worker.do("work")
        assert done.count, fault
        expected: tuple[set[str], set[str]] = (UNAVAILABLE, set()) if is_fatal else (set(), {"exited 3"})
        assert (answer.errors, answer.endings) == expected, (fault, answer.lines)
        run_well(worker)
        assert not worker.do("read").errors


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["mkdir", "fsync", "link", "rename", "write"])
def test_a_folder_that_cannot_be_taken_into_use_can_be_later(folder: Path, log: Path, call: str, error: str) -> None:
    with started("orchestrator", folder) as worker:
        worker.do("open")  # loads what it needs
        worker.do("close")
        for number in itertools.count(1):
            removed(folder)
            fault = f"{call}:error={error}:when={number}"
            with injected(worker.pid, fault, log=log) as done:
                opened = worker.do("open")
            assert opened.errors <= UNAVAILABLE, (fault, opened.lines)
            worker.do("close")
            assert not worker.do("open").errors, fault
            run_well(worker)
            worker.do("close")
            if not done.count:
                break
        assert number > 1


@pytest.mark.parametrize(
    ("call", "numbers"), [("mkdir", (1,)), ("openat", (1, 2, 3, 5, 8)), ("write", (1,)), ("rename", (1,))]
)
def test_a_kill_at_a_named_call_loses_no_agent(folder: Path, log: Path, call: str, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        with started("orchestrator", folder) as worker:
            assert not worker.do("open").errors
            known = run_well(worker)
            with injected(worker.pid, f"{call}:signal=KILL:when={number}", log=log):
                answer = worker.do("work")
            assert answer.is_dead, (call, number)
        with started("orchestrator", folder) as worker:
            assert not worker.do("open").errors
            spawned = [agent for what, agent in (*known.acknowledged, *answer.acknowledged) if what == "spawned"]
            followed = worker.do(f"follow {' '.join(spawned)}")
            assert (followed.errors, followed.endings) == (set(), {"exited 3"}), followed.lines
            assert len(followed.acknowledged) == len(spawned) >= 4
            run_well(worker)


@pytest.mark.parametrize(
    ("call", "numbers", "ending"),
    [
        ("fsync", (1, 2, 3, 4), None),
        ("rename", (1,), None),
        ("fsync", (5,), "lost None"),
        ("link", (1,), "lost None"),
        ("fsync", (6,), "exited 3"),
    ],
)
def test_a_supervisor_killed_at_a_named_call_is_told_truly(
    worker: Worker, folder: Path, log: Path, call: str, numbers: tuple[int, ...], ending: str | None
) -> None:
    for number in numbers:
        fault, paths = f"{call}:signal=KILL:when={number}", PATHS.get(call, ())
        with injected(keeper_without_spare(folder), fault, log=log, paths=paths):
            answer = worker.do("work")
        expected = (UNAVAILABLE, set()) if ending is None else (set(), {ending})
        assert (answer.errors, answer.endings) == expected, (call, number, answer.lines)
        run_well(worker)


def test_a_full_disk_is_adapter_unavailable_until_there_is_room(small_disk: Path) -> None:
    with started("orchestrator", small_disk / "state") as worker:
        assert not worker.do("open").errors
        run_well(worker)
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(bytes(1 << 21))
        assert worker.do("work").errors == UNAVAILABLE
        assert not worker.do("read").errors
        ballast.unlink()
        run_well(worker)
