"""The reading end of a log. It takes no lock, and sees what has been acknowledged, whoever wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from agentbox.adapters.events import _head, _segments
from agentbox.adapters.events._head import Head
from agentbox.adapters.events._line import events_in, seq_of
from agentbox.adapters.events._recover import observed
from agentbox.adapters.events._segments import Place
from agentbox_contracts.errors import AdapterFailed
from agentbox_contracts.events import Event

__all__ = ["Cursor", "Reader"]

ADVICE = "'agentbox events verify' says which events are good"


@attrs.frozen
class Cursor:
    """The seq behind which to read on, and where that is, when it is known already."""

    seq: int
    place: Place | None = None


class Reader:
    """Reads *folder*. Every method blocks; any thread may call any of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bounds: dict[str, int] = {}

    def head(self) -> Head:
        """How far the log goes now."""
        try:
            descriptor = os.open(self.folder / _head.NAME, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return observed(self.folder)
        try:
            head = _head.read_head(descriptor)
        finally:
            os.close(descriptor)
        return observed(self.folder) if head is None else head

    def events(self, cursor: Cursor, limit: int, chunk: int = _segments.CHUNK) -> tuple[list[Event], Cursor]:
        """At most *limit* of the next events, about *chunk* bytes of them, and where the next ones are."""
        text, place = self._text(cursor, chunk)
        if not text:
            return [], cursor
        size = _size_of_lines(text, limit)
        found = events_in(memoryview(text)[:size], place.segment)
        self._refuse_gap(cursor.seq + 1, found[0].seq or 0, place)
        following = Place(place.segment, place.offset + size)
        return found, Cursor(found[-1].seq or cursor.seq + len(found), following)

    def _refuse_gap(self, wanted: int, found: int, place: Place) -> None:
        """What retention removed was the oldest; any other gap is damage."""
        if found <= wanted:
            return
        told = f"seq {found}, and seq {wanted} was to come"
        if place.offset:
            raise AdapterFailed(f"{place.segment} goes on with {told}: a line is missing; {ADVICE}")
        if any(_segments.segments_before(_segments.names(self.folder), place.segment)):
            raise AdapterFailed(f"{place.segment} begins with {told}: a file is missing; {ADVICE}")

    def lines(self, after: int, upto: int) -> Iterator[tuple[int, bytes]]:
        """The lines behind the seq *after*, up to and with that of *upto*, each with its seq."""
        cursor = Cursor(after)
        while cursor.seq < upto:
            text, place = self._text(cursor, _segments.CHUNK)
            if not text:
                return
            seq = cursor.seq
            for line in text[:-1].split(b"\n"):
                seq = seq_of(line) or seq + 1
                if seq > upto:
                    return
                yield seq, line
            cursor = Cursor(seq, Place(place.segment, place.offset + len(text)))

    def _text(self, cursor: Cursor, chunk: int) -> tuple[bytes, Place]:
        """The next whole lines, and where they are; none at the end. What retention removes is passed over."""
        head = self.head()
        place = cursor.place
        while cursor.seq < head.seq:
            try:
                if place is None:
                    place = _segments.locate(self.folder, cursor.seq + 1, head.segment, self._bounds)
                return (b"", Place("", 0)) if place is None else self._read(cursor.seq, place, head, chunk)
            except FileNotFoundError:
                place = None
                if head.segment not in _segments.names(self.folder):
                    head = observed(self.folder)  # the end was lost: what is there is all there is
        return b"", Place("", 0)

    def _read(self, after: int, place: Place, head: Head, chunk: int) -> tuple[bytes, Place]:
        seq = 0
        while True:
            end = head.end if place.segment == head.segment else None
            text = _segments.text_from(self.folder, place, end, chunk)
            behind, seq = _behind(text, after, seq)
            if behind < len(text):
                return text[behind:], Place(place.segment, place.offset + behind)
            if text:
                place = Place(place.segment, place.offset + len(text))
                continue
            following = next(_segments.segments_behind(_segments.names(self.folder), place.segment), None)
            if following is None or place.segment == head.segment:
                return b"", place
            place = Place(following, 0)


def _size_of_lines(text: bytes, limit: int) -> int:
    """How many bytes of *text*, which are whole lines, the first *limit* lines take."""
    size, find = 0, text.find
    for _ in range(limit):
        size = find(b"\n", size) + 1
        if not size:
            return len(text)
    return size


def _behind(text: bytes, after: int, seq: int) -> tuple[int, int]:
    """
    How many bytes of *text* are lines whose seq is at most *after*, and the last seq seen.

    *seq* is that of the line before, 0 when it is not known. A damaged line follows the one before.
    """
    offset = behind = 0
    while offset < len(text):
        seq = seq_of(text, offset) or (seq and seq + 1)
        if seq > after:
            break
        offset = text.index(b"\n", offset) + 1
        behind = offset if seq else behind
    return behind, seq
