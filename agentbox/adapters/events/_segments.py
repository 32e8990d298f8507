"""The files of a log, `2026-11-18.0001.jsonl` and on: their order, and where in them an event is."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import attrs

from agentbox.adapters.events._line import Link, link_before, link_of, seq_of

__all__ = [
    "CHUNK",
    "Place",
    "day_of",
    "first_link",
    "last_line",
    "locate",
    "names",
    "next_name",
    "opened",
    "segments_before",
    "segments_behind",
    "torn_name",
]

NAME = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))\.(\d{4,9})\.jsonl")
"""One of the 31st of February is somebody else's, comes in its place, and counts as of the last day there is."""
STEP = 4096
CHUNK = 1 << 20


@attrs.frozen
class Place:
    """The offset in a segment at which a line begins."""

    segment: str
    offset: int


def names(folder: Path) -> list[str]:
    """The segments in *folder*, the oldest first; none when there is no such folder."""
    try:
        found = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted((name for name in found if NAME.fullmatch(name)), key=_key)


def day_of(name: str) -> date:
    """The day on which the segment was begun."""
    try:
        return date.fromisoformat(name[:10])
    except ValueError:
        return date.max


def next_name(existing: list[str], today: date) -> str:
    """The name of the segment behind all *existing* ones; the day never goes backwards, whatever the clock does."""
    if not existing or day_of(existing[-1]) < today:
        return f"{today.isoformat()}.0001.jsonl"
    match = NAME.fullmatch(existing[-1])
    assert match is not None
    return f"{match[1]}.{int(match[2]) + 1:04}.jsonl"


def torn_name(segment: str) -> str:
    """Where the torn end of *segment* is set aside."""
    return f"{segment.removesuffix('.jsonl')}.torn"


def last_line(descriptor: int, size: int) -> tuple[Link, int] | None:
    """The last whole line before *size* and the offset of its end, read from the end; None when there is none."""
    end = size
    while end > 0:
        start, text = _line_before(descriptor, end)
        if text.endswith(b"\n") and (link := link_of(text[:-1])) is not None:
            return link, start + len(text)
        end = start
    return None


def _line_before(descriptor: int, end: int) -> tuple[int, bytes]:
    """The bytes of the line that ends at *end*, and where it begins."""
    start, text = end, b""
    while start > 0:
        length = min(start, max(STEP, len(text)))
        start -= length
        text = os.pread(descriptor, length, start) + text
        if (found := text.rfind(b"\n", 0, len(text) - 1)) >= 0:
            return start + found + 1, text[found + 1 :]
    return 0, text


def first_link(folder: Path, segment: str) -> Link | None:
    """What the first event of *segment* follows, None when the segment has no whole first line."""
    with opened(folder, segment) as descriptor:
        line = _line_at(descriptor, 0, os.fstat(descriptor).st_size)
    return link_before(line)


def locate(folder: Path, seq: int, last: str, bounds: dict[str, int]) -> Place | None:
    """
    Where to begin reading for *seq*: at its line or a few before it; the first line of all when it was cut.

    *bounds* remembers the first seq of each segment. Both searches halve what is left, whatever the log's size; and
    what is in the segment *last*, which is asked for most, is found without a look at the others.
    """
    if last and (_first_seq(folder, last, bounds) or seq + 1) <= seq:
        return _place(folder, last, seq)
    found = names(folder)
    low, high = 0, len(found)
    while high - low > 1:
        middle = (low + high) // 2
        first = _first_seq(folder, found[middle], bounds)
        if first is None or first > seq:
            high = middle
        else:
            low = middle
    return _place(folder, found[low], seq) if found else None


def _place(folder: Path, segment: str, seq: int) -> Place:
    with opened(folder, segment) as descriptor:
        return Place(segment, _search(descriptor, seq, os.fstat(descriptor).st_size))


def _first_seq(folder: Path, segment: str, bounds: dict[str, int]) -> int | None:
    if segment not in bounds:
        with opened(folder, segment) as descriptor:
            first = seq_of(os.pread(descriptor, 64, 0))
        if first is None:
            return None
        bounds[segment] = first
    return bounds[segment]


def _search(descriptor: int, seq: int, end: int) -> int:
    """The offset of a line whose seq is at most *seq*, and near it."""
    low, high = 0, end
    while high - low > STEP:
        middle = (low + high) // 2
        start = _line_start(descriptor, middle, high)
        found = None if start is None else seq_of(os.pread(descriptor, 64, start))
        if start is None or found is None or found > seq:
            high = middle
        else:
            low = start
    return low


def _line_start(descriptor: int, offset: int, end: int) -> int | None:
    """Where the first line behind *offset* begins, None when that is at *end* or later."""
    while offset < end:
        text = os.pread(descriptor, min(STEP, end - offset), offset)
        if (found := text.find(b"\n")) >= 0:
            start = offset + found + 1
            return start if start < end else None
        if not text:
            return None
        offset += len(text)
    return None


def _line_at(descriptor: int, offset: int, end: int) -> bytes:
    stop = _line_start(descriptor, offset, end)
    return os.pread(descriptor, (end if stop is None else stop) - offset, offset).removesuffix(b"\n")


def text_from(folder: Path, place: Place, end: int | None, chunk: int = CHUNK) -> bytes:
    """
    Whole lines from *place*, about *chunk* bytes of them, none behind *end* where one is given.

    Nothing: the segment, or what may be read of it, is at its end.
    """
    with opened(folder, place.segment) as descriptor:
        left = (os.fstat(descriptor).st_size if end is None else end) - place.offset
        if left <= 0:
            return b""
        text = os.pread(descriptor, min(chunk, left), place.offset)
        whole = text.rfind(b"\n") + 1
        while not whole and len(text) < left:  # a line that is longer than the chunk
            more = os.pread(descriptor, min(len(text), left - len(text)), place.offset + len(text))
            if not more:
                break
            text += more
            whole = text.rfind(b"\n") + 1
    return text if whole == len(text) else text[:whole]


@contextlib.contextmanager
def opened(folder: Path, segment: str) -> Iterator[int]:
    descriptor = os.open(folder / segment, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def segments_before(existing: list[str], segment: str) -> Iterator[str]:
    """Those that come before *segment*."""
    key = _key(segment)
    return (name for name in existing if _key(name) < key)


def segments_behind(existing: list[str], segment: str) -> Iterator[str]:
    """Those that come after *segment*."""
    key = _key(segment)
    return (name for name in existing if _key(name) > key)


def _key(name: str) -> tuple[str, int]:
    day, number, _ = name.split(".")
    return day, int(number)
