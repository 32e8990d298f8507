"""What of a value is text, how long text is cut into pieces, its words, and the hash of content."""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from agentbox_contracts.wire import encode

__all__ = ["MAX_PIECES", "OVERLAP", "PIECE", "Piece", "content_hash", "pieces", "text_of", "words"]

PIECE = 1200
OVERLAP = 200
MAX_PIECES = 2048
"""More than the longest text, 1,000,000 characters, can give."""

_WORD = re.compile(r"[^\W_]+")
# Scripts that write without spaces: each character is a word of its own.
_UNSPACED = re.compile(r"([\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f])")
_BREAK = re.compile(r"[.!?…]\s+|\n+|[,;:]\s+|\s+")


@attrs.frozen
class Piece:
    """A part of a text: where it begins, and the part itself."""

    start: int
    text: str


def text_of(value: Any) -> str:
    """*value* itself where it is text, else the texts within it, in order, one a line."""
    return value if isinstance(value, str) else "\n".join(_texts(value))


def pieces(text: str) -> list[Piece]:
    """*text* in overlapping pieces of at most PIECE characters, cut where sentences or words end; none if blank."""
    if len(text) <= PIECE:
        return [Piece(0, text)] if text.strip() else []
    found: list[Piece] = []
    start = 0
    while start < len(text):
        end = _cut(text, start)
        if part := text[start:end].strip():
            found.append(Piece(start, part))
        if end == len(text):
            break
        start = _after_break(text, end - OVERLAP, end)
    return found


def words(text: str) -> list[str]:
    """The words of *text* as full-text search compares them: case folded, accents removed."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
        text = _UNSPACED.sub(r" \1 ", text)
    return _WORD.findall(text.casefold())


def content_hash(value: Any, text: str, embedding: Sequence[float] | None) -> bytes:
    """The same for the same JSON *value*, found by the same *text* and the same vector brought along, else another."""
    digest = hashlib.blake2b(encode([value, text]), digest_size=16)
    if embedding is not None:
        data = b"\0" + struct.pack(f"{len(embedding)}d", *embedding)
        # A longer piece would be hashed without Python's lock, and waiting for it again costs more than the hash.
        for start in range(0, len(data), 2047):
            digest.update(data[start : start + 2047])
    return digest.digest()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _cut(text: str, start: int) -> int:
    """Where the piece that begins at *start* ends: after the best break in its last third."""
    end = start + PIECE
    if end >= len(text):
        return len(text)
    best, weight = end, -1
    for match in _BREAK.finditer(text, end - PIECE // 3, end):
        found = _weight(match.group())
        if found >= weight:
            best, weight = match.end(), found
    return best


def _weight(separator: str) -> int:
    if "\n" in separator:
        return 3
    return 2 if separator[0] in ".!?…" else 1 if separator[0] in ",;:" else 0


def _after_break(text: str, low: int, high: int) -> int:
    match = _BREAK.search(text, low, high)
    return match.end() if match and match.end() < high else low
