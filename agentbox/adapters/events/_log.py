"""The writing end of a log: one folder, any number of processes, one chain."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import attrs

from agentbox.adapters.events import _files, _head, _segments
from agentbox.adapters.events._head import Head, Written
from agentbox.adapters.events._known import Known
from agentbox.adapters.events._line import Draft, linked, lost_of
from agentbox.adapters.events._recover import recovered
from agentbox.adapters.events._retention import Retention
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.events import Receipt

__all__ = ["Log"]

T = TypeVar("T")

FIRST_WAIT, LONGEST_WAIT = 0.0002, 0.01


class Log:
    """
    Appends to the chain in *folder*. Every method blocks and belongs to one thread.

    An append holds the lock on `head`, looks at where the chain stands now, writes behind it, syncs, and moves the
    head. Whatever fails on the way is taken back before the lock is given up.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int,
        busy_timeout_seconds: float,
        known: Known,
        retention: Retention,
        clock: Callable[[], datetime],
        tell: Callable[[str], None],
        notes_loss: bool = True,
    ) -> None:
        self.folder = folder
        self._head_path = str(folder / _head.NAME)
        self._segment_bytes = segment_bytes
        self._busy_timeout_seconds = busy_timeout_seconds
        self._known = known
        self._retention = retention
        self._clock = clock
        self._tell = tell
        self._notes_loss = notes_loss
        self._acknowledged = 0
        self._lock = -1
        self._segment = -1
        self._open_name = ""
        self._is_suspect = False
        self._written: Written | None = None

    def settle(self) -> None:
        """Set aside what a crash has torn, so that readers know how far the log goes."""
        self._locked(self._settled)

    def append(self, batches: list[list[Draft]]) -> list[list[Receipt]]:
        """
        Write all *batches* behind the chain, in one write and one sync; their receipts. All or none.

        Raises AdapterUnavailable.
        """
        return self._locked(self._appended, batches)

    def close(self) -> None:
        """Close the files. A second time does nothing."""
        for descriptor in (self._segment, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._segment = self._lock = -1
        self._open_name = ""

    def _appended(self, batches: list[list[Draft]]) -> list[list[Receipt]]:
        head = self._settled()
        answers, fresh = self._known.sorted_out(batches, head.seq)
        if not fresh:
            return self._known.answered(batches, answers, [], head.seq)
        head, doomed, cuts = self._room(head)
        if self._acknowledged > head.seq:
            cuts.insert(0, lost_of(head.seq, self._acknowledged, str(uuid4()), self._clock()))
        lines, receipts = linked(cuts + fresh, head.link)
        try:
            head = self._write(head, lines, receipts)
        except OSError as error:
            self._withdraw(head)
            raise AdapterUnavailable(f"{self.folder} cannot be written: {error.strerror or error}") from error
        self._acknowledged = 0
        done = self._known.answered(batches, answers, receipts[len(cuts) :], head.seq)
        self._retention.remove(doomed)
        return done

    def _locked(self, work: Callable[..., T], *arguments: object) -> T:
        """*work*, done while this process has the lock."""
        try:
            self._take_lock()
        except OSError as error:
            self.close()
            raise AdapterUnavailable(f"{self.folder} cannot be written: {error.strerror or error}") from error
        try:
            return work(*arguments)
        except OSError as error:
            self.close()
            raise AdapterUnavailable(f"{self.folder} cannot be used: {error.strerror or error}") from error
        finally:
            self._give_lock_up()

    def _take_lock(self) -> None:
        """Hold the lock of the file that is called `head` now: the folder may have been replaced meanwhile."""
        while True:
            if self._lock < 0:
                _files.prepare(self.folder)
                self._lock = os.open(self._head_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._wait_for_lock()
            try:
                if os.stat(self._head_path).st_ino == os.fstat(self._lock).st_ino:  # noqa: PTH116 - at every append
                    return
            except FileNotFoundError:
                pass
            self.close()

    def _give_lock_up(self) -> None:
        try:
            if self._lock >= 0:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        except OSError:
            self.close()  # which gives it up too; what was written stays written

    def _wait_for_lock(self) -> None:
        # Not by a blocking call: a process that was stopped while it held the lock would stop this one too.
        until, wait = time.monotonic() + self._busy_timeout_seconds, FIRST_WAIT
        while True:
            try:
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    seconds = f"{self._busy_timeout_seconds:g} s"
                    raise AdapterUnavailable(f"{self.folder} was locked by another process for {seconds}") from None
                time.sleep(wait)
                wait = min(wait * 1.5, LONGEST_WAIT)

    def _settled(self) -> Head:
        """Where the chain stands, its segment open; what a crash has left behind it is set aside first."""
        head = _head.read_head(self._lock, self._written)
        if head is None or self._is_suspect or not self._holds(head):
            self._let_go()
            acknowledged = head.seq if head is not None and self._notes_loss else 0
            head = recovered(self.folder, head, self._tell)
            if head.segment and not self._holds(head):
                raise AdapterUnavailable(f"{self.folder}/{head.segment} was changed by somebody else")
            if head.segment:
                _files.sync(self._segment)
            self._is_suspect = False
            if acknowledged > head.seq:
                # The head stays, as the one sign of what is gone, until the next event has made a fact of it.
                self._acknowledged, self._written = acknowledged, None
            else:
                self._written = _head.write_head(self._lock, head)
        return head

    def _holds(self, head: Head) -> bool:
        """Whether the head's segment is as the head says, open for writing."""
        if not head.segment:
            return not _segments.names(self.folder)
        if self._open_name != head.segment:
            self._let_go()
            try:
                self._open(head.segment, 0)
            except FileNotFoundError:
                return False
        found = os.fstat(self._segment)
        return found.st_size == head.end and found.st_ino == head.inode and found.st_nlink > 0

    def _room(self, head: Head) -> tuple[Head, list[Path], list[Draft]]:
        """The head to write behind, in a new segment where the old one is full or of another day."""
        today = self._clock().date()
        if head.segment and head.end < self._segment_bytes and _segments.day_of(head.segment) >= today:
            return head, [], []
        existing = _segments.names(self.folder)
        self._let_go()
        self._open(self._next(head, existing, today), os.O_CREAT)
        _files.sync_folder(self.folder)
        doomed, cuts = self._retention.plan(self.folder, existing, head.link, self._clock())
        found = os.fstat(self._segment)
        return attrs.evolve(head, segment=self._open_name, inode=found.st_ino, end=0), doomed, cuts

    def _next(self, head: Head, existing: list[str], today: date) -> str:
        """The next segment's name: one that was begun and left empty, by a crash or a full disk, is taken again."""
        if existing and existing[-1] != head.segment and _segments.day_of(existing[-1]) >= today:
            return existing[-1]
        return _segments.next_name(existing, today)

    def _write(self, head: Head, lines: bytes, receipts: list[Receipt]) -> Head:
        data = memoryview(lines)
        end = head.end
        while data:
            written = os.pwrite(self._segment, data, end)
            data, end = data[written:], end + written
        _files.sync(self._segment)
        last = receipts[-1]
        assert last.seq is not None
        assert last.hash is not None
        head = Head(head.segment, head.inode, end, last.seq, last.hash)
        self._written = _head.write_head(self._lock, head)
        return head

    def _withdraw(self, head: Head) -> None:
        """
        Take back what was written behind *head*: nobody will be told of it.

        After a sync has failed, what the kernel shows is no longer what the disk has; only what is written once more
        counts. So the bytes go, and the file is opened anew.
        """
        self._is_suspect = True
        with contextlib.suppress(OSError):
            os.ftruncate(self._segment, head.end)
        self._let_go()

    def _open(self, name: str, flags: int) -> None:
        self._segment = os.open(self.folder / name, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        self._open_name = name

    def _let_go(self) -> None:
        if self._segment >= 0:
            os.close(self._segment)
        self._segment, self._open_name = -1, ""
