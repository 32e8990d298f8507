"""Where each key of a TOML text stands, because the parser does not say."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import attrs
import tomli

KeyPath = tuple[str | int, ...]
"""The way to a key: names, and the index within an array of tables."""

_STRING = r"""
      \"{3} (?: \\. | [^\\] )*? \"{3} \"{0,2}   # up to two quotes may stand before the closing three
    | '{3} .*? '{3} '{0,2}
    | " (?: \\. | [^"\\] )* "
    | '[^']*'
"""
_BLANK = re.compile(r"(?:[ \t\r\n]|\#[^\n]*)*")
_PART = re.compile(rf"[ \t]*({_STRING}|[^ \t.=\]]+)[ \t]*(\.?)", re.VERBOSE | re.DOTALL)
_VALUE = re.compile(
    rf"(?:{_STRING}|[^\"'\#\[\]{{}}\n]++|\#[^\n]*)*(?P<turn>[\[\]{{}}\n]|\Z)",
    re.VERBOSE | re.DOTALL,
)


@attrs.frozen
class Place:
    """Line and column of a key's statement, both counted from 1."""

    line: int
    column: int


def scan(text: str) -> dict[KeyPath, Place]:
    """
    The place of every table header and every `key = value` in *text*, which must be valid TOML.

    Each part of a dotted key has a place: that of the first statement that mentions it. Keys inside an inline table or
    an array have none of their own; see `find`.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    places: dict[KeyPath, Place] = {}
    for position, path in _statements(text):
        line = bisect_right(starts, position)
        place = Place(line, position - starts[line - 1] + 1)
        for length in range(1, len(path) + 1):
            places.setdefault(path[:length], place)
    return places


def find(places: dict[KeyPath, Place], path: KeyPath) -> Place | None:
    """The place of *path*, else of the nearest table or statement around it."""
    for length in range(len(path), 0, -1):
        if place := places.get(path[:length]):
            return place
    return None


def _statements(text: str) -> Iterator[tuple[int, KeyPath]]:
    table: KeyPath = ()
    lengths: dict[KeyPath, int] = {}
    position = _skip_blank(text, 0)
    while position < len(text):
        brackets = 2 if text.startswith("[[", position) else 1 if text[position] == "[" else 0
        names, end = _key(text, position + brackets)
        if brackets:
            table = _header(names, lengths, is_array=brackets == 2)
            yield position, table
            end += brackets
        else:
            yield position, table + names
            end = _skip_value(text, end + 1)
        position = _skip_blank(text, end)


def _header(names: tuple[str, ...], lengths: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """The path that *names* mean: below an array of tables they speak of its last element."""
    path: KeyPath = ()
    for number, name in enumerate(names, start=1):
        path += (name,)
        if is_array and number == len(names):
            lengths[path] = lengths.get(path, 0) + 1
        if path in lengths:
            path += (lengths[path] - 1,)
    return path


def _key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while match := _PART.match(text, position):
        names.append(_name(match[1]))
        position = match.end()
        if not match[2]:
            break
    return tuple(names), position


def _name(written: str) -> str:
    if written[0] not in "\"'":
        return written
    name: str = tomli.loads(f"name = {written}")["name"]
    return name


def _skip_value(text: str, position: int) -> int:
    """The end of the value at *position*: the first end of line outside of strings, comments and brackets."""
    depth = 0
    while match := _VALUE.match(text, position):
        turn = match["turn"]
        position = match.end()
        depth += (turn in "[{") - (turn in "]}") if turn else 0
        if not turn or (turn == "\n" and depth == 0):
            break
    return position


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
