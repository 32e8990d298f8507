"""Events on a disk that fails, fills up, or stops in the middle: typed errors, one chain, nothing acknowledged lost."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox.adapters.events._verify import verified
from tests.root.lane import Answer, Worker, injected, started

pytestmark = pytest.mark.root

MOST = 40


class Log:
    """The folder, and what a worker was told is in it."""

    def __init__(self, state: Path, trace: Path) -> None:
        self.state = state
        self.trace = trace
        self.folder = state / "events"
        self.acknowledged: list[str] = []

    @property
    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    def note(self, answer: Answer) -> Answer:
        self.acknowledged += (event_id for what, event_id in answer.acknowledged if what == "said")
        return answer

    def check(self) -> None:
        """The chain holds, and every acknowledged event is in it once."""
        verdict = verified(self.folder)
        assert verdict.ok, verdict
        text = b"".join(path.read_bytes() for path in self.segments).decode()
        kept = re.findall(r'"id":"([^"]+)"', text)
        assert len(kept) == len(set(kept)) == verdict.verified
        assert set(self.acknowledged) <= set(kept)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "state", tmp_path / "strace.log")
    yield log
    if log.folder.exists():
        log.check()


@pytest.fixture
def worker(log: Log) -> Iterator[Worker]:
    """A worker with the log open; killed in the end, before the log is looked at."""
    with started("events", log.state) as worker:
        assert not worker.do("open").errors
        log.note(worker.do("work"))
        yield worker


def write_well(log: Log, worker: Worker) -> None:
    answer = log.note(worker.do("work"))
    assert (answer.errors, len(answer.acknowledged)) == (set(), 4), answer.lines


@pytest.mark.parametrize("lasting", ["", "+"], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "pwrite64,ftruncate", "fdatasync,ftruncate"])
def test_a_write_that_fails_is_adapter_unavailable_and_the_next_one_works(
    log: Log, worker: Worker, call: str, error: str, lasting: str
) -> None:
    failures = 0
    for number in range(1, 5):
        fault = f"{call}:error={error}:when={number}{lasting}"
        before = log.segments[0].stat().st_size
        with injected(worker.pid, fault, log=log.trace, paths=log.segments) as done:
            answer = log.note(worker.do("work"))
        if not done.count:
            break
        failures += 1
        assert answer.errors <= {"AdapterUnavailable"}, (fault, answer.lines)
        if lasting and number == 1:
            assert answer.errors
            assert "," in call or log.segments[0].stat().st_size == before, "what nobody was told of is still there"
        write_well(log, worker)
        log.check()
    assert failures


def test_a_head_that_cannot_be_moved_acknowledges_nothing(log: Log, worker: Worker) -> None:
    with injected(worker.pid, "pwrite64:error=EIO:when=1+", log=log.trace, paths=[log.folder / "head"]) as done:
        answer = log.note(worker.do("work"))
    assert done.count
    assert answer.errors == {"AdapterUnavailable"}
    assert answer.acknowledged == []
    write_well(log, worker)


@pytest.mark.parametrize("call", ["openat", "mkdir", "pwrite64", "fdatasync", "fsync", "rename", "flock"])
def test_a_log_that_cannot_be_made_says_so_and_can_be_made_later(log: Log, worker: Worker, call: str) -> None:
    for number in itertools.count(1):
        worker.do("close")
        shutil.rmtree(log.folder)
        log.acknowledged.clear()
        fault = f"{call}:error=ENOSPC:when={number}"
        with injected(worker.pid, fault, log=log.trace, paths=[log.state, log.folder, log.folder / "head"]) as done:
            assert not worker.do("open").errors
            answer = log.note(worker.do("work"))
        assert answer.errors <= {"AdapterUnavailable"}, (fault, answer.lines)
        write_well(log, worker)
        log.check()
        if not done.count or number > MOST:
            break


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_kill_at_a_named_call_loses_nothing(log: Log, call: str) -> None:
    for number in (1, 2, 3, 5, 8):
        with started("events", log.state) as worker:
            assert not worker.do("open").errors
            log.note(worker.do("work"))
            fault = f"{call}:signal=KILL:when={number}"
            with injected(worker.pid, fault, log=log.trace, paths=[*log.segments, log.folder / "head"]) as done:
                answers = [log.note(worker.do("work"))]
                while not answers[-1].is_dead and len(answers) < 40:
                    answers.append(log.note(worker.do("work")))
            assert answers[-1].is_dead, (fault, done.log)
        with started("events", log.state) as worker:
            assert not worker.do("open").errors
            write_well(log, worker)
        log.check()


def test_a_full_disk_is_adapter_unavailable_until_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    log = Log(small_disk / "state", tmp_path / "strace.log")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_800_000))
    with started("events", log.state) as worker:
        assert not worker.do("open").errors
        answers = [log.note(worker.do("work"))]
        while not answers[-1].errors:
            answers.append(log.note(worker.do("work")))
        assert len(answers) > 2
        assert answers[-1].errors == {"AdapterUnavailable"}
        assert any("No space left" in line for line in answers[-1].lines), answers[-1].lines
        assert not worker.do("read").errors
        for _ in range(3):
            log.note(worker.do("work"))
        assert len(log.segments) == 1
        ballast.unlink()
        write_well(log, worker)
    log.check()


SAY = """
import asyncio, os, sys
from pathlib import Path
from agentbox.adapters.events import _files
from agentbox.testing import open_slot
from agentbox_contracts.events import Event

if sys.argv[2] == "unsynced":
    _files.sync = lambda descriptor: None

async def main():
    async with open_slot('[adapters]\\nevents = "local-jsonl"\\n', "events", folder=Path(sys.argv[1])) as events:
        for number in range(20):
            receipt = await events.dispatch(Event(type="test.said", source="test"))
            os.write(1, f"acknowledged {receipt.seq}\\n".encode())

asyncio.run(main())
"""


def synced_before_told(state: Path, trace: Path, kind: str) -> bool:
    """Whether each event was written, then synced, then acknowledged, as the kernel saw it."""
    calls = "trace=pwrite64,fdatasync,fsync,write"
    command = ["strace", "-f", "-s", "64", "-o", str(trace), "-e", calls, sys.executable, "-c", SAY, str(state), kind]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    is_synced, told = True, 0
    for line in trace.read_text().splitlines():
        if "pwrite64(" in line and '"{\\"seq\\":' in line:
            is_synced = False
        elif re.search(r"f(data)?sync(\(| resumed).*= 0", line):
            is_synced = True
        elif '"acknowledged ' in line:
            told += 1
            if not is_synced:
                return False
    assert told == 20
    return True


def test_the_sync_comes_before_the_acknowledgement(tmp_path: Path) -> None:
    assert synced_before_told(tmp_path / "state", tmp_path / "trace", "synced")


def test_an_adapter_that_skips_the_sync_is_caught(tmp_path: Path) -> None:
    assert not synced_before_told(tmp_path / "state", tmp_path / "trace", "unsynced")
