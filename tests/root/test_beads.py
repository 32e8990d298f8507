"""Beads on a disk that fails, fills up, or stops in the middle: typed errors, and what was acknowledged is there."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox.adapters._sqlite import Database
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable
from tests.root.lane import Answer, Worker, injected, started

pytestmark = pytest.mark.root

STAGES = ("created", "claimed", "closed")
MOST = 60


class Store:
    """The file, and what a worker was told is in it."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self.log = log
        self.database = folder / "beads.db"
        self.wal = folder / "beads.db-wal"
        self.acknowledged: dict[str, str] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.folder, self.database, self.wal, self.folder / "beads.db-shm")

    def note(self, answer: Answer) -> Answer:
        for stage, bead_id in answer.acknowledged:
            if stage in STAGES:
                self.acknowledged[bead_id] = stage
        return answer

    def check(self) -> None:
        """Every acknowledged write is there, the file is sound, and the counters agree with the rows."""
        db = sqlite3.connect(self.database)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        stored = dict(db.execute("SELECT id, iif(status = 'open', 'created', status) FROM bead"))
        lost = {
            bead_id: (stage, stored.get(bead_id))
            for bead_id, stage in self.acknowledged.items()
            if STAGES.index(stored.get(bead_id, "created")) < STAGES.index(stage) or bead_id not in stored
        }
        assert lost == {}
        miscounted = db.execute(
            "SELECT id FROM bead AS epic WHERE parent IS NULL AND open_children <>"
            " (SELECT count(*) FROM bead WHERE parent = epic.id AND status <> 'closed')"
        ).fetchall()
        assert miscounted == []
        db.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state", tmp_path / "strace.log")
    yield store
    if store.database.exists():
        store.check()


@pytest.fixture
def worker(store: Store) -> Iterator[Worker]:
    """A worker with the store open; killed in the end, before the store is looked at."""
    with started("beads", store.folder) as worker:
        assert not worker.do("open").errors
        store.note(worker.do("work"))
        yield worker


def write_well(store: Store, worker: Worker) -> None:
    answer = store.note(worker.do("work"))
    assert (answer.errors, len(answer.acknowledged)) == (set(), 16), answer.lines


@pytest.mark.parametrize("lasting", ["", "+"], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_write_that_fails_is_adapter_unavailable_and_the_next_one_works(
    store: Store, worker: Worker, call: str, error: str, lasting: str
) -> None:
    for number in itertools.count(1):
        worker.do("close")  # the log is empty then, and not synced for another reason than a commit
        assert not worker.do("open").errors
        write_well(store, worker)
        fault = f"{call}:error={error}:when={number}{lasting}"
        with injected(worker.pid, fault, log=store.log, paths=[store.wal]) as done:
            answer = store.note(worker.do("work"))
        if not done.count or number > MOST:
            break
        assert answer.errors == {"AdapterUnavailable"}, (fault, answer.lines)
        write_well(store, worker)
    assert number > 4  # as many commits as there are stages, at least


@pytest.mark.parametrize("error", ["EIO", "ESTALE"])  # SQLite calls the first a damaged file, the second a failed read
def test_a_read_that_fails_is_adapter_unavailable_and_nothing_is_half_written(
    store: Store, worker: Worker, error: str
) -> None:
    for _ in range(10):
        store.note(worker.do("work"))  # more than a page of everything
    worker.do("close")
    failures = 0
    for number in range(1, 25):
        worker.do("open")  # with nothing in its cache
        fault = f"pread64:error={error}:when={number}"
        with injected(worker.pid, fault, log=store.log, paths=store.files):
            before = count(store)
            answer = store.note(worker.do("work"))
            seen = store.note(worker.do("read"))
        assert answer.errors | seen.errors <= {"AdapterUnavailable"}, (fault, answer.lines, seen.lines)
        assert count(store) - before == sum(stage == "created" for stage, _ in answer.acknowledged), fault
        failures += bool(answer.errors)
        write_well(store, worker)
        worker.do("close")
        store.check()
    assert failures > 5


def count(store: Store) -> int:
    db = sqlite3.connect(store.database)
    rows: int = db.execute("SELECT count(*) FROM bead").fetchone()[0]
    db.close()
    return rows


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["openat", "mkdir", "pread64", "pwrite64", "fdatasync", "ftruncate", "mmap"])
def test_a_store_that_cannot_be_opened_says_so_and_can_be_opened_later(
    store: Store, worker: Worker, call: str, error: str, is_new: bool
) -> None:
    worker.do("close")
    for number in itertools.count(1):
        if is_new:
            shutil.rmtree(store.folder)
            store.acknowledged.clear()
        fault = f"{call}:error={error}:when={number}"
        with injected(worker.pid, fault, log=store.log, paths=store.files) as done:
            opened = worker.do("open")
        assert opened.errors <= {"AdapterUnavailable"}, (fault, opened.lines)
        if not opened.errors:
            # It may have been opened for reading only, as SQLite does when it cannot be opened for writing.
            assert store.note(worker.do("work")).errors <= {"AdapterUnavailable"}
            assert not worker.do("read").errors, fault
        worker.do("close")
        assert not worker.do("open").errors, fault
        write_well(store, worker)
        worker.do("close")
        store.check()
        if not done.count or number > MOST:
            break


def test_a_store_without_its_log_is_not_open(store: Store, worker: Worker) -> None:
    worker.do("close")
    shutil.rmtree(store.folder)
    store.acknowledged.clear()
    with injected(worker.pid, "pwrite64:error=ENOSPC:when=1", log=store.log, paths=[store.database]) as done:
        assert worker.do("open").errors == {"AdapterUnavailable"}
    assert done.count
    assert not worker.do("open").errors
    write_well(store, worker)


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "ftruncate"])
def test_a_checkpoint_that_fails_loses_nothing(store: Store, worker: Worker, call: str) -> None:
    with injected(worker.pid, f"{call}:error=EIO:when=1+", log=store.log, paths=[store.database]) as done:
        for _ in range(40):
            write_well(store, worker)  # more than a thousand pages, at which SQLite copies the log into the file
        worker.do("close")
    assert done.count or call == "ftruncate"
    assert not worker.do("open").errors
    write_well(store, worker)


@pytest.mark.parametrize(
    ("call", "name", "numbers"),
    [
        ("pwrite64", "beads.db-wal", (1, 2, 3, 4, 7, 12, 20, 33)),
        ("fdatasync", "beads.db-wal", (1, 2, 3, 4, 6)),
        ("pwrite64", "beads.db", (1, 2, 3, 5)),
        ("fdatasync", "beads.db", (1, 2)),
    ],
    ids=["log written", "log synced", "file written", "file synced"],
)
def test_a_kill_at_a_named_call_loses_nothing(store: Store, call: str, name: str, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        with started("beads", store.folder) as worker:
            assert not worker.do("open").errors
            fault = f"{call}:signal=KILL:when={number}"
            with injected(worker.pid, fault, log=store.log, paths=[store.folder / name]) as done:
                answers = [store.note(worker.do("work"))]
                while not answers[-1].is_dead and len(answers) < 40:
                    answers.append(store.note(worker.do("work" if len(answers) < 39 else "close")))
            assert answers[-1].is_dead, (fault, done.log)
        store.check()


@pytest.mark.parametrize("call", ["openat", "pwrite64", "fdatasync", "ftruncate", "mkdir"])
def test_a_kill_while_the_store_is_made_leaves_one_that_opens(store: Store, call: str) -> None:
    for number in (1, 2, 3, 10, 20):
        shutil.rmtree(store.folder, ignore_errors=True)
        with started("beads", store.folder) as worker:
            fault = f"{call}:signal=KILL:when={number}"
            with injected(worker.pid, fault, log=store.log, paths=store.files):
                is_dead = worker.do("open").is_dead
        with started("beads", store.folder) as worker:
            assert not worker.do("open").errors, fault
            store.acknowledged.clear()
            write_well(store, worker)
        store.check()
        if not is_dead:
            break


class OneConnection(Database):
    """A file that can be opened for writing and then, as when descriptors run out, not again."""

    is_open = False

    def connection(self) -> sqlite3.Connection:
        if self.is_open:
            raise sqlite3.OperationalError("unable to open database file")
        self.is_open = True
        return super().connection()


async def test_a_file_that_can_be_written_but_not_read_is_not_open(tmp_path: Path) -> None:
    database = OneConnection(tmp_path / "beads.db", busy_timeout_seconds=1)
    with pytest.raises(AdapterFailed, match="unable to open"):
        await database.open(lambda db: None)
    await database.close()


async def test_a_file_that_can_have_no_log_is_refused() -> None:
    database = Database(Path(":memory:"), busy_timeout_seconds=1)
    with pytest.raises(AdapterUnavailable, match="stays with 'memory'"):
        await database.open(lambda db: None)
    await database.close()


def test_a_full_disk_is_adapter_unavailable_until_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    store = Store(small_disk / "state", tmp_path / "strace.log")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_200_000))
    with started("beads", store.folder) as worker:
        assert not worker.do("open").errors
        answers = [store.note(worker.do("work"))]
        while not answers[-1].errors:
            answers.append(store.note(worker.do("work")))
        assert len(answers) > 2
        assert answers[-1].errors == {"AdapterUnavailable"}
        assert any("the disk is full" in line for line in answers[-1].lines), answers[-1].lines
        assert not worker.do("read").errors
        ballast.unlink()
        write_well(store, worker)
    store.check()


def test_a_store_on_a_full_disk_cannot_be_made_until_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    store = Store(small_disk / "state", tmp_path / "strace.log")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes((1 << 21) - 16384))
    with started("beads", store.folder) as worker:
        assert worker.do("open").errors == {"AdapterUnavailable"}
        ballast.unlink()
        assert not worker.do("open").errors
        write_well(store, worker)
    store.check()
