"""A conversation as a file: a header line, a line for each turn, a closing line."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
import msgspec

__all__ = ["BadRecording", "Conversation", "Turn", "read", "write"]

FORMAT = "agentbox-recording"
VERSION = 1

T = TypeVar("T")


class BadRecording(ValueError):
    """A file that is no recording, is not whole, or is of a newer version; the message says which line."""


@attrs.define
class Turn:
    """What one side of one connection said before the other spoke; `end` says that it will say no more."""

    connection: int
    direction: Literal["up", "down"]
    data: bytes = b""
    end: bool = False


@attrs.frozen
class Conversation:
    """The turns of all connections in the order in which they began, and what is known about them."""

    turns: tuple[Turn, ...]
    meta: Mapping[str, Any]

    def connection(self, number: int) -> list[Turn]:
        """The turns of one connection, the first being 1."""
        return [turn for turn in self.turns if turn.connection == number]

    def said(self) -> list[Turn]:
        """What clients said, without their leaving."""
        return [attrs.evolve(turn, end=False) for turn in self.turns if turn.direction == "up" and turn.data]


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    connection: int
    direction: Literal["up", "down"]
    text: str | None = None
    base64: str | None = None
    end: bool = False


class _Header(msgspec.Struct):
    format: str
    version: int
    meta: dict[str, Any] = {}


class _Closing(msgspec.Struct, forbid_unknown_fields=True):
    lines: int


def write(path: Path, conversation: Conversation) -> None:
    """Write *conversation*; no reader ever sees half of it."""
    header = _Header(FORMAT, VERSION, dict(conversation.meta))
    lines = [header, *map(_line, conversation.turns), _Closing(len(conversation.turns))]
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> Conversation:
    """
    The conversation in *path*.

    Raises BadRecording when it is foreign, truncated or of a newer version.
    """
    first, *rest = path.read_bytes().split(b"\n")
    header = _header(path, first)
    if len(rest) < 2 or rest[-1] != b"":
        raise BadRecording(f"{path}: it is truncated: the closing line is missing")
    *lines, last = rest[:-1]
    closing = _decoded(path, len(rest), last, _Closing, "it is truncated: the closing line is missing")
    if closing.lines != len(lines):
        raise BadRecording(f"{path}: it has {len(lines)} turns, and its closing line says {closing.lines}")
    return Conversation(tuple(_turn(path, number, line) for number, line in enumerate(lines, start=2)), header.meta)


def _header(path: Path, line: bytes) -> _Header:
    foreign = f'it is not a recording: the first line is not {{"format":"{FORMAT}",…}}'
    header = _decoded(path, 1, line, _Header, foreign)
    if header.format != FORMAT:
        raise BadRecording(f"{path}:1: {foreign}")
    if header.version > VERSION:
        raise BadRecording(f"{path}:1: it is of version {header.version}, and this agentbox reads up to {VERSION}")
    return header


def _line(turn: Turn) -> _Line:
    line = _Line(turn.connection, turn.direction, end=turn.end)
    if turn.data:
        try:
            line.text = turn.data.decode()
        except UnicodeDecodeError:
            line.base64 = base64.b64encode(turn.data).decode()
    return line


def _turn(path: Path, number: int, line: bytes) -> Turn:
    found = _decoded(path, number, line, _Line, "it is not a turn")
    try:
        data = base64.b64decode(found.base64 or "", validate=True) or (found.text or "").encode()
    except ValueError as error:
        raise BadRecording(f"{path}:{number}: base64: {error}") from None
    return Turn(found.connection, found.direction, data, found.end)


def _decoded(path: Path, number: int, line: bytes, kind: type[T], otherwise: str) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRecording(f"{path}:{number}: {otherwise} ({error})") from None
