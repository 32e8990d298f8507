"""Events that wait on this disk for a host: a log of their own, and how far it has been sent."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import attrs
import msgspec

from agentbox.adapters._lane import Job
from agentbox.adapters.events import _files, _head, _segments
from agentbox.adapters.events._cursors import Cursors
from agentbox.adapters.events._known import Known
from agentbox.adapters.events._line import END_LENGTH, Draft
from agentbox.adapters.events._log import Log
from agentbox.adapters.events._reader import Reader
from agentbox.adapters.events._retention import Retention
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.events import Receipt
from agentbox_contracts.wire import encode

__all__ = ["Batch", "Spool"]

SENT = "sent"
TURN = "sender"
REFUSED = "refused.jsonl"
SEGMENT_BYTES = 4 << 20
BATCH_BYTES = 1 << 20
OVERHEAD = 180
"""What a line has besides the event: a seq, two hashes and their names."""


@attrs.frozen
class Batch:
    """Events that follow each other, as JSON objects, and the seq of the last in the spool."""

    bodies: list[bytes]
    last: int


class Spool:
    """
    The spool in *folder*, which any number of processes may append to. Every method blocks.

    It is a log like any other, with the same promises; what is sent is removed a segment at a time. Only the process
    whose turn it is sends, so that the order is kept.
    """

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int,
        busy_timeout_seconds: float,
        clock: Callable[[], datetime],
        tell: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self._most_bytes = most_bytes
        self._busy_timeout_seconds = busy_timeout_seconds
        self._clock = clock
        self._tell = tell
        self._reader = Reader(folder)
        self._cursors = Cursors(folder / "cursors")
        self._turn = -1

    @property
    def head(self) -> str:
        """The file that changes with every append."""
        return str(self.folder / _head.NAME)

    def log(self) -> Log:
        """The writing end, for one thread."""
        return Log(
            self.folder,
            segment_bytes=SEGMENT_BYTES,
            busy_timeout_seconds=self._busy_timeout_seconds,
            known=Known(0, self._reader),
            retention=Retention(None, None, self._tell),
            clock=self._clock,
            tell=self._tell,
            notes_loss=False,
        )

    def prepare(self) -> None:
        """Make the folder, and set aside what a crash has torn."""
        log = self.log()
        try:
            log.settle()
        finally:
            log.close()

    def append(self, log: Log, jobs: list[Job]) -> None:
        """Write what the jobs bring, in one write and one sync; those that find no room are told so."""
        try:
            fitting = self._fitting(jobs)
            if fitting:
                sent = self._cursors.read(SENT)
                answers = log.append([job.work for job in fitting])
                self._refuse_to_skip(sent, answers[0][0].seq or 0)
        except Exception as error:
            for job in jobs:
                job.error = job.error or error
            return
        for job in fitting:
            job.result = [Receipt(id=draft.id, durability="spooled") for draft in job.work]

    def _refuse_to_skip(self, sent: int, first: int) -> None:
        """What was written just now as *first* cannot have been *sent* before: then the spool has lost its end."""
        if sent < first:
            return
        self._cursors.advance(SENT, first - 1, may_go_back=True)
        self._tell(f"{self.folder} was sent up to seq {sent} and goes on behind seq {first - 1}: its files are gone")

    def waiting(self) -> int:
        """How many events have not been sent."""
        return max(0, self._reader.head().seq - self._cursors.read(SENT))

    def next(self, most: int) -> Batch | None:
        """The next events to be sent, at most *most* and not too many bytes; None when all are sent."""
        sent = self._cursors.read(SENT)
        found: list[tuple[int, bytes]] = []
        size = 0
        for seq, line in self._reader.lines(sent, sent + most):
            found.append((seq, _body_of(line)))
            size += len(line)
            if size >= BATCH_BYTES:
                break
        return Batch([body for _, body in found], found[-1][0]) if found else None

    def delivered(self, last: int) -> None:
        """Everything up to *last* is with the host. Segments with nothing else in them go."""
        self._cursors.advance(SENT, last)
        segments = _segments.names(self.folder)
        for segment, following in pairwise(segments):
            begin = _segments.first_link(self.folder, following)
            if begin is None or begin.seq > last:
                break
            (self.folder / segment).unlink(missing_ok=True)

    def set_aside(self, body: bytes, reason: str) -> None:
        """Keep an event that the host refused beside the spool, durably, with what the host said."""
        line = b'{"refused":%b,"event":%b}\n' % (encode(reason), _as_json(body))
        descriptor = os.open(self.folder / REFUSED, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
            _files.sync(descriptor)
        finally:
            os.close(descriptor)

    def refused(self) -> int:
        """How many events were set aside, and are still there."""
        try:
            return (self.folder / REFUSED).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def take_turn(self) -> bool:
        """Whether it is this process's turn to send now; it is then until it gives it up or dies."""
        if self._turn < 0:
            descriptor = os.open(self.folder / TURN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._turn = descriptor
        return True

    def give_turn(self) -> None:
        """Let another process send."""
        if self._turn >= 0:
            os.close(self._turn)
            self._turn = -1

    def _fitting(self, jobs: list[Job]) -> list[Job]:
        """The jobs for which there is room. How much waits is looked at closely only when it may be too much."""
        room = self._most_bytes - self._bytes(only_waiting=False)
        if sum(_size(job.work) for job in jobs) > room:
            room = self._most_bytes - self._bytes(only_waiting=True)
        fitting = []
        for job in jobs:
            size = _size(job.work)
            if size > room:
                job.error = self._full(size, room)
            else:
                fitting.append(job)
                room -= size
        return fitting

    def _full(self, size: int, room: int) -> AdapterUnavailable:
        used = self._most_bytes - room
        return AdapterUnavailable(
            f"the spool {self.folder} is full: {used:,} of {self._most_bytes:,} bytes wait to be sent, "
            f"{self.waiting():,} events; there is no room for {size:,} more"
        )

    def _bytes(self, *, only_waiting: bool) -> int:
        """How long the spool is, or the part of it that has not been sent."""
        while True:
            try:
                return self._measured(only_waiting)
            except FileNotFoundError:
                continue  # what was just sent has left the disk meanwhile

    def _measured(self, only_waiting: bool) -> int:
        sizes = {name: (self.folder / name).stat().st_size for name in _segments.names(self.folder)}
        if not only_waiting:
            return sum(sizes.values())
        if not self.waiting():
            return 0
        place = _segments.locate(self.folder, self._cursors.read(SENT) + 1, "", {})
        if place is None:
            return 0
        later = _segments.segments_behind(list(sizes), place.segment)
        return sizes[place.segment] - place.offset + sum(sizes[name] for name in later)


def _size(drafts: list[Draft]) -> int:
    return sum(len(draft.body) + OVERHEAD for draft in drafts)


def _body_of(line: bytes) -> bytes:
    """The event in a line of the spool, without the place it has there; of a damaged line, what nobody will take."""
    return b"{%b}" % line[line.find(b",") + 1 : len(line) - END_LENGTH]


def _as_json(body: bytes) -> bytes:
    """*body*, or when it was damaged and is none, a text of what is left of it."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return encode(body.decode(errors="replace"))
    return body
