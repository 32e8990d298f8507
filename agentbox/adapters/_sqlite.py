"""
One SQLite file, driven by two threads of its own: one writes, one reads.

Writes that wait for each other share a transaction and its fsync; reads that wait for each other share a hop. No SQLite
call ever runs on the event loop's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agentbox.adapters._lane import Job, Lane
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable

__all__ = ["Database", "upgrade"]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

BATCH = 512
PRAGMAS = ("PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON", "PRAGMA cache_size=-16000")

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another process",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "may not be opened",
    sqlite3.SQLITE_CORRUPT: "is damaged, or the disk fails to read it",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database",
}


class Database:
    """An open file. Work is a function of a connection; it runs on the file's own threads."""

    def __init__(self, path: Path, *, busy_timeout_seconds: float, batch: int = BATCH) -> None:
        self.path = path
        self._busy_timeout_seconds = busy_timeout_seconds
        self._batch = batch
        self._lanes: list[Lane[sqlite3.Connection]] = []

    async def open(self, prepare: Work) -> None:
        """
        Open the file, running *prepare* in a first transaction. After a failure it can be tried again.

        Raises AdapterUnavailable.
        """
        try:
            self._lanes.append(self._open_lane("write", self._transact))
            await self._lanes[0].run(prepare)
            self._lanes.append(self._open_lane("read", self._snapshot))
            await self._lanes[1].run(lambda db: None)
        except BaseException:
            await self.close()  # a lane without a connection would refuse everything to come
            raise

    def write(self, work: Callable[[sqlite3.Connection], T]) -> Awaitable[T]:
        """
        Run *work* in a transaction, perhaps together with others', and return when it is on disk.

        Cancelled while it waits, it is withdrawn; once begun, it completes.
        """
        return self._lane(0).run(work)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> Awaitable[T]:
        """Run *work*, which only reads, on a snapshot taken after this call."""
        return self._lane(1).run(work)

    async def close(self) -> None:
        """Finish what was begun and close the file. A second time does nothing."""
        lanes, self._lanes = self._lanes, []
        for lane in reversed(lanes):
            await lane.stop()

    def _open_lane(self, name: str, run: Callable[[sqlite3.Connection, list[Job]], None]) -> Lane[sqlite3.Connection]:
        return Lane(
            f"agentbox-sqlite-{name}",
            acquire=self.connection,
            run=run,
            release=sqlite3.Connection.close,
            translated=self.translated,
            batch=self._batch,
        )

    def _lane(self, index: int) -> Lane[sqlite3.Connection]:
        if index >= len(self._lanes):
            raise AdapterUnavailable(f"{self.path.name} is not open")
        return self._lanes[index]

    def connection(self) -> sqlite3.Connection:
        """A connection for the calling thread, in autocommit mode."""
        db = sqlite3.connect(self.path, timeout=self._busy_timeout_seconds, isolation_level=None, cached_statements=256)
        try:
            # Fetched, because a disk that fails meanwhile shows only then; where there can be no log, no error does.
            mode = _with_log(db)
            if mode != "wal":
                raise AdapterUnavailable(f"{self.path} cannot be switched to a write-ahead log and stays with {mode!r}")
            for pragma in PRAGMAS:
                db.execute(pragma)
        except BaseException:
            db.close()
            raise
        return db

    def _transact(self, db: sqlite3.Connection, jobs: list[Job]) -> None:
        """Run all jobs in one transaction; one that fails after writing sends each into a transaction of its own."""
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                before = db.total_changes
                _run(db, job)
                if not db.in_transaction:
                    # An error of the disk has undone everything; what ran on from here would be in no transaction.
                    return self._undo(db, jobs, job.error or sqlite3.OperationalError("the transaction was undone"))
                if job.error is not None and db.total_changes != before:
                    raise _Spoiled
            db.execute("COMMIT")
        except _Spoiled:
            db.execute("ROLLBACK")
            if len(jobs) > 1:
                for job in jobs:
                    job.error = None
                    self._transact(db, [job])
        except sqlite3.Error as error:
            self._undo(db, jobs, error)

    def _undo(self, db: sqlite3.Connection, jobs: list[Job], error: Exception) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        for job in jobs:
            job.error = error

    def _snapshot(self, db: sqlite3.Connection, jobs: list[Job]) -> None:
        try:
            for job in jobs:
                if not db.in_transaction:  # at first, and after an error of the disk, which ends it
                    db.execute("BEGIN")
                _run(db, job)
            if db.in_transaction:
                db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            for job in jobs:
                job.error = job.error or error

    def translated(self, error: Exception) -> Exception:
        """*error* as one of the contract's, if SQLite raised it."""
        if not isinstance(error, sqlite3.Error):
            return error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _UNAVAILABLE:
            failure: Exception = AdapterUnavailable(f"{self.path} {_UNAVAILABLE[code]} ({error})")
        else:
            failure = AdapterFailed(f"{self.path}: {error}")
        failure.__cause__ = error
        return failure


def _with_log(db: sqlite3.Connection) -> str:
    """Switch the file to a write-ahead log; the mode that it has then."""
    while True:
        try:
            return str(db.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        # While another process makes the file the switch fails at once, where a transaction waits its turn.
        db.execute("BEGIN IMMEDIATE")
        db.execute("COMMIT")


class _Spoiled(Exception):
    """A job failed after it had written: the transaction it shares cannot be kept."""


def _run(db: sqlite3.Connection, job: Job) -> None:
    try:
        job.result = job.work(db)
    except Exception as error:
        job.error = error


def upgrade(db: sqlite3.Connection, slot: str, migrations: Sequence[str]) -> None:
    """Run the *migrations* that the store lacks, in the open transaction. AdapterUnavailable: the store is newer."""
    db.execute("CREATE TABLE IF NOT EXISTS version (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
    have = db.execute("SELECT coalesce(max(version), 0) FROM version").fetchone()[0]
    if have > len(migrations):
        raise AdapterUnavailable(
            f"the {slot} store has version {have}, and this agentbox knows up to {len(migrations)}; "
            "use a newer agentbox"
        )
    for number, script in enumerate(migrations[have:], start=have + 1):
        for statement in script.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO version VALUES (?, ?)", (number, datetime.now(UTC).isoformat()))
