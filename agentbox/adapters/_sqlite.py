"""
One SQLite file, driven by two threads of its own: one writes, one reads.

Writes that wait for each other share a transaction and its fsync; reads that wait for each other share a hop. No SQLite
call ever runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable

__all__ = ["Database"]

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
        self._lanes: list[_Lane] = []

    async def open(self, prepare: Work) -> None:
        """Open the file, running *prepare* in a first transaction. Raises AdapterUnavailable."""
        self._lanes.append(_Lane("write", self, self._transact))
        await self._lanes[0].run(prepare)
        self._lanes.append(_Lane("read", self, self._snapshot))
        await self._lanes[1].run(lambda db: None)  # a lane without a connection would refuse every read to come

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

    def _lane(self, index: int) -> _Lane:
        if index >= len(self._lanes):
            raise AdapterUnavailable(f"{self.path.name} is not open")
        return self._lanes[index]

    def connection(self) -> sqlite3.Connection:
        """A connection for the calling thread, in autocommit mode."""
        db = sqlite3.connect(self.path, timeout=self._busy_timeout_seconds, isolation_level=None, cached_statements=256)
        try:
            # Fetched, because a disk that fails meanwhile shows only then; where there can be no log, no error does.
            (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != "wal":
                raise AdapterUnavailable(f"{self.path} cannot be switched to a write-ahead log and stays with {mode!r}")
            for pragma in PRAGMAS:
                db.execute(pragma)
        except BaseException:
            db.close()
            raise
        return db

    def _transact(self, db: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run all jobs in one transaction; one that fails after writing sends each into a transaction of its own."""
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                before = db.total_changes
                job.run(db)
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

    def _undo(self, db: sqlite3.Connection, jobs: list[_Job], error: Exception) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        for job in jobs:
            job.error = error

    def _snapshot(self, db: sqlite3.Connection, jobs: list[_Job]) -> None:
        try:
            for job in jobs:
                if not db.in_transaction:  # at first, and after an error of the disk, which ends it
                    db.execute("BEGIN")
                job.run(db)
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


class _Spoiled(Exception):
    """A job failed after it had written: the transaction it shares cannot be kept."""


class _Job:
    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: Exception | None = None

    def run(self, db: sqlite3.Connection) -> None:
        try:
            self.result = self.work(db)
        except Exception as error:
            self.error = error


class _Lane:
    """
    A thread with a connection of its own that takes whatever waits, runs it, and wakes the loop once.

    Loop and thread ring each other by pipes: a queue's locks and the socket behind `call_soon_threadsafe` cost a lone
    caller half of the way there and back.
    """

    def __init__(self, name: str, database: Database, run: Callable[[sqlite3.Connection, list[_Job]], None]) -> None:
        self._database = database
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Job | None] = deque()
        self._done: deque[list[_Job]] = deque()
        self._rung = False
        self._thread_bell, self._ring_thread = os.pipe()
        self._loop_bell, self._ring_loop = os.pipe()
        self._loop.add_reader(self._loop_bell, self._woken)
        self._thread = threading.Thread(target=self._serve, name=f"agentbox-sqlite-{name}", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._put(_Job(work, future))
        return future

    async def stop(self) -> None:
        self._put(None)
        await asyncio.to_thread(self._thread.join)
        self._loop.remove_reader(self._loop_bell)
        for descriptor in (self._thread_bell, self._ring_thread, self._loop_bell, self._ring_loop):
            os.close(descriptor)
        self._settle()

    def _put(self, job: _Job | None) -> None:
        self._waiting.append(job)
        if not self._rung:
            self._rung = True
            os.write(self._ring_thread, b"!")

    def _serve(self) -> None:
        try:
            db = self._database.connection()
        except Exception as error:
            self._refuse(error)
            return
        try:
            while jobs := self._take():
                if live := [job for job in jobs if not job.future.cancelled()]:
                    self._run(db, live)
                    self._deliver(live)
        finally:
            db.close()

    def _take(self) -> list[_Job]:
        """What waits now, at least one job; nothing when the lane should stop. Jobs before the stop are served."""
        waiting = self._waiting
        jobs: list[_Job] = []
        while not jobs:
            if not waiting:
                os.read(self._thread_bell, 64)
            self._rung = False  # before looking: whoever comes after the look rings again
            while waiting and len(jobs) < self._database._batch:
                job = waiting.popleft()
                if job is None:
                    if jobs:
                        waiting.appendleft(None)
                    return jobs
                jobs.append(job)
        return jobs

    def _refuse(self, error: Exception) -> None:
        """Answer every job with *error* until the lane is stopped: the file could not be opened."""
        while jobs := self._take():
            for job in jobs:
                job.error = error
            self._deliver(jobs)

    def _deliver(self, jobs: list[_Job]) -> None:
        self._done.append(jobs)
        os.write(self._ring_loop, b"!")

    def _woken(self) -> None:
        os.read(self._loop_bell, 4096)
        self._settle()

    def _settle(self) -> None:
        while self._done:
            for job in self._done.popleft():
                if job.future.done():
                    continue
                if job.error is None:
                    job.future.set_result(job.result)
                else:
                    job.future.set_exception(self._database.translated(job.error))
