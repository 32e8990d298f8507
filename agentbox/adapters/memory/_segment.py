"""
Index files: approximate search over most of a set's vectors, by usearch, mapped into memory.

A file is never changed. It counts from the moment the table names it, and not before; whatever the table does not
name is rubbish. The library follows whatever links a file holds, also out of its memory; so the links are compared with
their checksum before it sees them. Without usearch there are none. One that another version of the library wrote, and
this one does not read, is as good as lost.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import attrs

from agentbox.adapters.memory._vectors import numpy

__all__ = ["Segment", "SegmentRow", "checksum_of", "listed", "mapped", "new_index", "save", "usearch"]

CONNECTIVITY = 16
EXPANSION = 100
MARGIN = 5e-4
"""What a similarity in half precision may be off by."""

_COLUMNS = "id, vectors, file, bytes, entries, first, last, gone, effort, checksum"
_HEAD = struct.Struct("<II")
_CHUNK = 1 << 20


@cache
def usearch() -> Any:
    """The index library, or None where it is not installed. The first call imports it."""
    try:
        return importlib.import_module("usearch.index") if numpy() is not None else None
    except ModuleNotFoundError:
        return None


@attrs.frozen
class SegmentRow:
    """A segment as the table has it. `effort` is how many candidates a search must keep to find what it should."""

    id: int
    vectors: int
    file: str
    bytes: int
    entries: int
    first: int
    last: int
    gone: int
    effort: int
    checksum: int

    def is_sound(self, folder: Path) -> bool:
        """Whether the file is there, as it was written, and not one that the library has failed to read."""
        path = folder / self.file
        try:
            found = path.stat()
            as_written = found.st_size == self.bytes and _has_checksum(path, self.checksum, found.st_mtime_ns)
        except OSError:
            return False
        return as_written and path not in _UNREAD


_UNREAD: set[Path] = set()
"""Files that the library did not read. Their names are never used again."""


@lru_cache(maxsize=256)
def _has_checksum(path: Path, checksum: int, modified: int) -> bool:
    """Looked at once for each time that *path* was written. Raises OSError."""
    return checksum_of(path) == checksum


def checksum_of(path: Path) -> int:
    """
    Of all but the vectors, which are most of a file: of its head and the links between them.

    A vector that is not what it was can spoil no more than its own chance to be found. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        rows, width = _HEAD.unpack(head)
        file.seek(rows * width, os.SEEK_CUR)
        found = zlib.crc32(head)
        while chunk := file.read(_CHUNK):
            found = zlib.crc32(chunk, found)
    return found


def listed(db: sqlite3.Connection, vectors: int, folder: Path) -> list[SegmentRow]:
    """The segments of a set that can be used, oldest first: up to the first whose file is lost or spoilt."""
    if usearch() is None:
        return []
    rows = db.execute(f"SELECT {_COLUMNS} FROM segment WHERE vectors = ? ORDER BY first", (vectors,))
    found: list[SegmentRow] = []
    for row in (SegmentRow(*values) for values in rows.fetchall()):
        if not row.is_sound(folder):
            break
        found.append(row)
    return found


def mapped(path: Path, dimensions: int) -> Any:
    """The index in that file, mapped into memory; None when the library does not read it."""
    index = new_index(dimensions)
    try:
        index.view(os.fspath(path))
    except Exception:
        # Foreign code, and a file that can be made again: whatever it says, the answer is no.
        _UNREAD.add(path)
        return None
    return index


class Segment:
    """An open index file."""

    def __init__(self, row: SegmentRow, index: Any) -> None:
        self.row = row
        self._index = index

    @classmethod
    def opened(cls, rows: Iterable[SegmentRow], folder: Path, dimensions: int) -> list[Segment]:
        """The segments of *rows* up to the first that the library does not read."""
        found: list[Segment] = []
        for row in rows:
            if (index := mapped(folder / row.file, dimensions)) is None:
                break
            found.append(cls(row, index))
        return found

    def search(self, queries: Any, count: int) -> tuple[Any, Any]:
        """For each query at least about the *count* nearest: similarities and labels, best first, as two matrices."""
        count = max(self.row.effort, count)
        self._index.expansion_search = count
        threads = 0 if len(queries) > 1 else 1  # all cores, or none beside this one, which would cost more than it does
        found = self._index.search(queries, min(count, self.row.entries), threads=threads)
        shape = (len(queries), -1)
        return 1.0 - found.distances.reshape(shape), found.keys.reshape(shape)


def new_index(dimensions: int) -> Any:
    """An empty index. It knows no vector by its label, which saves most of the time of opening a file."""
    return usearch().Index(
        ndim=dimensions,
        metric="ip",
        dtype="f16",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION,
        enable_key_lookups=False,
    )


def save(index: Any, path: Path) -> int:
    """Write *index* so that it is there whole, and on disk, or not at all; how many bytes."""
    draft = path.with_suffix(".tmp")
    index.save(os.fspath(draft))
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path.stat().st_size
