"""
How far the log is written: one record in the file `head`, which is also what writers lock.

It is written after the events are on the disk and before anybody is told, so that what lies behind it was never
acknowledged. It is not synced: after a restart of the machine, or in a copy of the folder, it counts for nothing.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from zlib import crc32

import attrs

from agentbox.adapters.events._line import GENESIS, Link

__all__ = ["NAME", "Head", "Written", "read_head", "write_head"]

NAME = "head"
SIZE = 256
ATTEMPTS = 100


@functools.cache
def _boot() -> str:
    """What changes when the machine starts anew; `-` where there is no such thing, and no head is believed then."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "-"


@attrs.frozen
class Head:
    """The segment that is written, by name and inode, the offset of its end, and the last event in it."""

    segment: str = ""
    inode: int = 0
    end: int = 0
    seq: int = 0
    hash: str = GENESIS

    @property
    def link(self) -> Link:
        """What the next event follows."""
        return Link(self.seq, self.hash)


@attrs.frozen
class Written:
    """A head that one has written oneself, and the record that it made: who finds that again need not read it."""

    record: bytes
    head: Head


def write_head(descriptor: int, head: Head) -> Written:
    """Let everybody know *head*."""
    fields = (_boot(), head.segment or "-", head.inode, head.end, head.seq, head.hash)
    text = " ".join(map(str, fields)).encode()
    record = (b"%b %08x" % (text, crc32(text))).ljust(SIZE - 1) + b"\n"
    os.pwrite(descriptor, record, 0)
    return Written(record, head)


def read_head(descriptor: int, last: Written | None = None) -> Head | None:
    """The head as its last writer left it; None when there is none, or none that can be believed."""
    for _ in range(ATTEMPTS):  # a record that is being written may be seen in half
        record = os.pread(descriptor, SIZE, 0)
        if last is not None and record == last.record:
            return last.head
        if not record:
            return None
        text, _, checksum = record.strip().rpartition(b" ")
        if text and checksum == b"%08x" % crc32(text):
            break
    else:
        return None
    boot, segment, inode, end, seq, hash = text.decode("ascii").split(" ")
    if boot != _boot() or boot == "-":
        return None
    return Head("" if segment == "-" else segment, int(inode), int(end), int(seq), hash)
