"""Finding the end of a log after a crash, and setting aside what is torn there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agentbox.adapters.events import _segments
from agentbox.adapters.events._head import Head

__all__ = ["missing", "observed", "recovered"]


def recovered(folder: Path, head: Head | None, tell: Callable[[str], None]) -> Head:
    """
    Where the chain ends. What lies behind it is moved to a `.torn` file, and *tell* hears of it.

    With a *head* that fits the files, all behind it was never acknowledged. Without, after a restart of the machine,
    every whole line counts, and only what is torn behind the last one goes. Call it under the lock.
    """
    existing = _segments.names(folder)
    if head is not None and head.segment in existing and _fits(folder, head):
        end = head
    else:
        end = observed(folder)
        if head is not None and end.seq < head.seq:
            tell(cut_off(folder, end, head))
    for segment in existing:
        if segment == end.segment:
            _set_aside(folder, segment, end.end, tell)
    for segment in _segments.segments_behind(existing, end.segment) if end.segment else existing:
        _set_aside(folder, segment, 0, tell)
    return end


def missing(folder: Path, head: Head | None) -> str:
    """What to say of a log that ends before its *head*; nothing when it does not."""
    if head is None or (head.segment in _segments.names(folder) and _fits(folder, head)):
        return ""
    end = observed(folder)
    return cut_off(folder, end, head) if end.seq < head.seq else ""


def cut_off(folder: Path, end: Head, head: Head) -> str:
    """The sentence for a log that ends with *end* and was acknowledged up to *head*."""
    return f"{folder} ends with seq {end.seq}, though seq {head.seq} was acknowledged: it was cut off"


def observed(folder: Path) -> Head:
    """Where the last whole line is, as the files have it."""
    for segment in reversed(_segments.names(folder)):
        with _segments.opened(folder, segment) as descriptor:
            found = os.fstat(descriptor)
            last = _segments.last_line(descriptor, found.st_size)
        if last is not None:
            link, end = last
            return Head(segment, found.st_ino, end, link.seq, link.hash)
    return Head()


def _fits(folder: Path, head: Head) -> bool:
    with _segments.opened(folder, head.segment) as descriptor:
        found = os.fstat(descriptor)
        if found.st_ino != head.inode or found.st_size < head.end:
            return False
        last = _segments.last_line(descriptor, head.end)
    return last == (head.link, head.end)


def _set_aside(folder: Path, segment: str, end: int, tell: Callable[[str], None]) -> None:
    """Move what *segment* has behind *end* to its `.torn` file, durably, before it is cut off."""
    source = os.open(folder / segment, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(source).st_size
        if size <= end:
            return
        name = _segments.torn_name(segment)
        target = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _copy(source, end, target)
            os.fsync(target)
        finally:
            os.close(target)
        os.ftruncate(source, end)
        os.fsync(source)
    finally:
        os.close(source)
    tell(f"{size - end:,} bytes behind the last event of {segment} were torn by a crash and are kept in {name}")


def _copy(source: int, offset: int, target: int) -> None:
    while piece := os.pread(source, _segments.CHUNK, offset):
        offset += len(piece)
        while piece:
            piece = piece[os.write(target, piece) :]
    os.write(target, b"\n")
