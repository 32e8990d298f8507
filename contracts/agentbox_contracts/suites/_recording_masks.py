"""Comparing what a client says with what was recorded, except where they may differ; and giving its own values back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

__all__ = ["ADDRESS", "HTTP", "TIMESTAMP", "UUID", "Echo", "Expected", "Mask", "Mismatch"]

SHOWN = 60
LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)(?=\r\n)")


class Mismatch(AssertionError):
    """What a client said is not what was recorded. `expected` and `actual` are the bytes around the difference."""

    def __init__(self, where: str, expected: bytes, actual: bytes) -> None:
        super().__init__(f"{where}\n  expected: {expected!r}\n  actual:   {actual!r}")
        self.where = where
        self.expected = expected
        self.actual = actual


@attrs.frozen
class Mask:
    """
    Bytes that may differ: wherever *pattern* matches the recording, it has to match what the client says.

    Its first group, or all of it without groups, is the value. With *echo* a recorded answer in which the mask finds
    the recorded value gets the client's own instead. At the very end of a turn the length has to be the same.
    """

    pattern: bytes
    echo: bool = True

    def __attrs_post_init__(self) -> None:
        re.compile(self.pattern)


UUID = Mask(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
"""An id of 36 characters; one that the client made is echoed."""

TIMESTAMP = Mask(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", echo=False)
"""A date and time of ISO 8601."""

ADDRESS = Mask(rb"(?:127\.0\.0\.1|localhost|\[::1\]):\d+")
"""Where a server listens on loopback: a recorded link to itself leads back to the replay."""

HTTP = (
    Mask(rb"(?i)\r\nhost:[ \t]*([^\r\n]*)"),
    Mask(rb"(?i)\r\nuser-agent:([^\r\n]*)", echo=False),
    Mask(rb"(?i)\r\ndate:([^\r\n]*)", echo=False),
    Mask(rb"(?i)\r\ncontent-length:([^\r\n]*)", echo=False),
    ADDRESS,
)
"""What differs between two equal requests of HTTP/1.1. The length of the body is proved by comparing the body."""


@attrs.frozen
class Stretch:
    """A part of a turn: literal bytes, or what a mask found there, its value after *at* bytes."""

    data: bytes
    value: bytes = b""
    mask: Mask | None = None
    at: int = 0

    def with_value(self, value: bytes) -> bytes:
        """The bytes with another value in its place."""
        return self.data[: self.at] + value + self.data[self.at + len(self.value) :]


def stretches(data: bytes, masks: Iterable[Mask]) -> Iterator[Stretch]:
    """*data* cut where masks match; of two that overlap the first to begin counts, then the first in order."""
    at = 0
    while found := _earliest(data, at, masks):
        match, mask = found
        yield Stretch(data[at : match.start()])
        yield Stretch(match[0], _value(match), mask, match.start(_group(match)) - match.start())
        at = match.end()
    yield Stretch(data[at:])


def _earliest(data: bytes, at: int, masks: Iterable[Mask]) -> tuple[re.Match[bytes], Mask] | None:
    found = [(match, mask) for mask in masks if (match := _search(data, at, mask))]
    return min(found, key=lambda pair: pair[0].start(), default=None)


def _search(data: bytes, at: int, mask: Mask) -> re.Match[bytes] | None:
    return next((match for match in re.compile(mask.pattern).finditer(data, at) if match[0]), None)


def _value(match: re.Match[bytes]) -> bytes:
    value: bytes = match[_group(match)]
    return value


def _group(match: re.Match[bytes]) -> int:
    """The first group where it took part in the match, else all of it."""
    return 1 if match.re.groups and match[1] is not None else 0


class Expected:
    """A recorded turn of the client's, compared with bytes as they come. How they are cut on the way means nothing."""

    def __init__(self, data: bytes, masks: Iterable[Mask]) -> None:
        self.data = data
        self.values: list[tuple[bytes, bytes]] = []
        self._left = [stretch for stretch in stretches(data, masks) if stretch.data]
        self._recorded = 0
        self._actual = 0

    def take(self, heard: bytes) -> int | None:
        """
        How much of *heard*, all that came since the turn began, is this turn; None while more has to come.

        Raises ValueError with the offsets of the first difference in the recording and in *heard*.
        """
        while self._left:
            size = self._matched(self._left[0], heard)
            if size is None:
                return None
            stretch = self._left.pop(0)
            self._recorded += len(stretch.data)
            self._actual += size
        return self._actual

    @property
    def place(self) -> tuple[int, int]:
        """How far it matched: the offset in the recording and in what the client said."""
        return self._recorded, self._actual

    def _matched(self, stretch: Stretch, heard: bytes) -> int | None:
        if stretch.mask is not None:
            return self._unmasked(stretch, stretch.mask, heard)
        given = heard[self._actual : self._actual + len(stretch.data)]
        same = next((n for n, (a, b) in enumerate(zip(stretch.data, given, strict=False)) if a != b), len(given))
        if same < len(given):
            raise ValueError(self._recorded + same, self._actual + same)
        return len(given) if len(given) == len(stretch.data) else None

    def _unmasked(self, stretch: Stretch, mask: Mask, heard: bytes) -> int | None:
        is_last = len(self._left) == 1
        stop = self._actual + len(stretch.data) if is_last else len(heard)
        match = re.compile(mask.pattern).match(heard, self._actual, stop)
        if match is None or not match[0]:
            if self._can_grow(heard, is_last, stop):
                return None
            raise ValueError(self._recorded, self._actual)
        if match.end() == len(heard) < stop or (match.end() == stop and not is_last):
            return None  # it may go on
        if mask.echo:
            self.values.append((stretch.value, _value(match)))
        return len(match[0])

    def _can_grow(self, heard: bytes, is_last: bool, stop: int) -> bool:
        """Whether more bytes could make a mask match that does not yet: not when what follows it is there already."""
        if is_last:
            return len(heard) < stop
        follows = self._left[1]
        return follows.mask is not None or heard.find(follows.data, self._actual) < 0


class Echo:
    """Recorded values and the client's own that stand for them now."""

    def __init__(self, masks: Iterable[Mask]) -> None:
        self._masks = tuple(mask for mask in masks if mask.echo)
        self._values: dict[bytes, bytes] = {}

    def learn(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Remember what the client said in place of what was recorded."""
        self._values.update((recorded, actual) for recorded, actual in values if recorded)

    def answer(self, data: bytes) -> bytes:
        """The recorded answer with the client's values; an HTTP body that changes its length says so in its head."""
        if not any(recorded != actual for recorded, actual in self._values.items()):
            return data
        answer, at = b"", 0
        while (head := LENGTH.search(data, at)) and (body := data.find(b"\r\n\r\n", head.end()) + 4) > 3:
            recorded = data[body : body + int(head[1])]
            told = self._told(recorded)
            answer += self._told(data[at : head.start(1)])
            # The recorded length and what has changed: a head may stand alone, as an answer to HEAD does.
            answer += b"%d" % (int(head[1]) + len(told) - len(recorded))
            answer += self._told(data[head.end(1) : body]) + told
            at = body + len(recorded)
        return answer + self._told(data[at:])

    def _told(self, data: bytes) -> bytes:
        return b"".join(self._own(stretch) for stretch in stretches(data, self._masks))

    def _own(self, stretch: Stretch) -> bytes:
        if stretch.mask is None or stretch.value not in self._values:
            return stretch.data
        return stretch.with_value(self._values[stretch.value])


def around(data: bytes, at: int) -> bytes:
    """The bytes about *at*: its line's beginning if that is near, and what follows."""
    return data[max(at - SHOWN, data.rfind(b"\n", 0, at) + 1, 0) : at + SHOWN]
