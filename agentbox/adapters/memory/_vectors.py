"""Vectors of unit length and blocks of them that are compared exactly: fast with numpy, slower without."""

from __future__ import annotations

import importlib
import math
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from heapq import nlargest
from itertools import pairwise
from operator import mul
from typing import Any, Protocol, TypeAlias

__all__ = ["Block", "Hit", "Subset", "block", "cosines", "numpy", "subset", "unit"]

Hit: TypeAlias = tuple[float, int]
"""A similarity and the record that has it."""

SERIAL = 250_000
"""So many multiplications are a product that BLAS leaves to one thread."""

MARGIN = 1e-5
"""What sums in single precision may be off by; whatever is so near the last one wanted is given too."""


class Subset(Protocol):
    """The ids of the records that a search may find."""

    def __len__(self) -> int: ...

    def ids(self) -> Sequence[int]:
        """All of them, ascending."""

    def holds(self, record: int) -> bool:
        """Whether the record is one of them."""

    def mask(self, records: Any) -> Any:
        """Which of an array of records are among them; only with numpy."""

    def changed(self, added: Iterable[int], removed: Iterable[int]) -> Subset:
        """This with some more, all greater than any before, and some less."""


class Block(Protocol):
    """Vectors of records, ascending by record, in memory."""

    def __len__(self) -> int: ...

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add records, each with its vectors one after the other; greater ids than all before."""

    def drop(self, records: Iterable[int]) -> None:
        """Forget records; those that are not here are no matter."""

    def drop_upto(self, record: int) -> None:
        """Forget every record up to this one."""

    def top(self, queries: Sequence[Any], want: int, among: Subset | None) -> list[list[Hit]]:
        """For each query the *want* most similar vectors, and whatever is as similar as the last, best first."""


@cache
def numpy() -> Any:
    """numpy, or None where it is not installed. The first call imports it."""
    try:
        return importlib.import_module("numpy")
    except ModuleNotFoundError:
        return None


def unit(vector: Iterable[float]) -> array[float] | None:
    """*vector* with length 1 as 32-bit floats; None when it has no length. Its numbers are finite."""
    numbers = tuple(vector)
    values = array("d", struct.pack(f"{len(numbers)}d", *numbers))  # four times as quick as from the numbers
    if "numpy" in sys.modules and (np := numpy()) is not None:
        return _unit_by_numpy(np, values)
    largest = max(map(abs, values))
    if not largest:
        return None
    scaled = [x / largest for x in values]
    length = math.sqrt(sum(map(mul, scaled, scaled)))
    return array("f", [x / length for x in scaled])


def _unit_by_numpy(np: Any, values: array[float]) -> array[float] | None:
    vector = np.frombuffer(values)
    with np.errstate(over="ignore"):
        square = float(vector @ vector)
    if not 1e-200 < square < 1e200:  # whose root is off, or which is no number
        largest = np.abs(vector).max()
        if not largest:
            return None
        vector = vector / largest
        square = float(vector @ vector)
    return array("f", (vector / math.sqrt(square)).astype("f4").tobytes())


def cosines(queries: Sequence[Any], data: Sequence[Sequence[bytes]]) -> list[list[float]]:
    """
    For each query, the best similarity with each record's vectors in its own list of *data*.

    The same two vectors always give the same number, whatever else is compared.
    """
    if (np := numpy()) is not None:
        return _cosines_by_numpy(np, queries, data)
    return [
        [round(min(1.0, max(_dots(query, array("f", blob)))), 6) for blob in blobs]
        for query, blobs in zip(queries, data, strict=True)
    ]


def _cosines_by_numpy(np: Any, queries: Sequence[Any], data: Sequence[Sequence[bytes]]) -> list[list[float]]:
    blobs = [blob for some in data for blob in some]
    if not blobs:
        return [[] for _ in data]
    width = len(queries[0])
    counts = [len(blob) // (4 * width) for blob in blobs]
    rows = np.frombuffer(b"".join(blobs), dtype="f4").reshape(-1, width)
    bounds = np.cumsum([0, *map(len, data)]).tolist()
    places = np.cumsum([0, *counts])
    # Not a matrix product: BLAS sums the rows of one matrix in different orders, and equal vectors would differ.
    wide = np.repeat(np.asarray(queries, dtype="f8"), np.diff(places[bounds]), axis=0)
    near = (rows * wide).sum(axis=1)
    best = np.maximum.reduceat(near, places[:-1]) if len(near) > len(blobs) else near
    found: list[float] = np.minimum(best, 1.0).round(6).tolist()
    return [found[first:last] for first, last in pairwise(bounds)]


def _dots(query: Sequence[float], values: array[float]) -> list[float]:
    size = len(query)
    return [sum(map(mul, query, values[start : start + size])) for start in range(0, len(values), size)]


def subset(ids: Iterable[int]) -> Subset:
    """A subset of these ids."""
    if (np := numpy()) is not None:
        return _ArraySubset(np.sort(np.fromiter(ids, dtype="i8")))
    return _PlainSubset(sorted(ids))


def block(dimensions: int) -> Block:
    """An empty block."""
    return _MatrixBlock(dimensions) if numpy() is not None else _PlainBlock(dimensions)


class _PlainSubset:
    def __init__(self, ids: list[int]) -> None:
        self._ids = ids
        self._set = frozenset(ids)

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self) -> Sequence[int]:
        return self._ids

    def holds(self, record: int) -> bool:
        return record in self._set

    def mask(self, records: Any) -> Any:
        raise NotImplementedError

    def changed(self, added: Iterable[int], removed: Iterable[int]) -> Subset:
        return _PlainSubset(sorted(self._set.difference(removed).union(added)))


class _ArraySubset:
    def __init__(self, ids: Any) -> None:
        self.array = ids
        self._flags: Any = None

    def __len__(self) -> int:
        return len(self.array)

    def ids(self) -> Sequence[int]:
        found: list[int] = self.array.tolist()
        return found

    def holds(self, record: int) -> bool:
        place = self.array.searchsorted(record)
        return place < len(self.array) and bool(self.array[place] == record)

    def mask(self, records: Any) -> Any:
        if not len(self.array):
            return numpy().zeros(len(records), dtype=bool)
        if self._is_dense():
            return self._flagged().take(records - (self.array[0] - 1), mode="clip")
        places = numpy().minimum(self.array.searchsorted(records), len(self.array) - 1)
        return self.array[places] == records

    def _is_dense(self) -> bool:
        """Whether a flag for each number between the least and the greatest takes at most twice what the ids take."""
        return bool(self.array[-1] - self.array[0] < 16 * len(self.array))

    def _flagged(self) -> Any:
        """Which of the numbers from one before the least to one behind the greatest are ids."""
        if self._flags is None:
            self._flags = numpy().zeros(self.array[-1] - self.array[0] + 3, dtype=bool)
            self._flags[self.array - (self.array[0] - 1)] = True
        return self._flags

    def changed(self, added: Iterable[int], removed: Iterable[int]) -> Subset:
        np = numpy()
        new, gone = np.fromiter(added, dtype="i8"), np.fromiter(removed, dtype="i8")
        lost = gone[self.mask(gone)]
        if not len(new) and not len(lost):
            return self
        kept = self.array[~np.isin(self.array, lost)] if len(lost) else self.array
        return _ArraySubset(np.concatenate([kept, new]))


class _PlainBlock:
    """Vectors one by one. Exact and in no hurry."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._vectors: dict[int, array[float]] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self._vectors.update((record, array("f", data)) for record, data in rows)

    def drop(self, records: Iterable[int]) -> None:
        for record in records:
            self._vectors.pop(record, None)

    def drop_upto(self, record: int) -> None:
        self.drop([known for known in self._vectors if known <= record])

    def top(self, queries: Sequence[Any], want: int, among: Subset | None) -> list[list[Hit]]:
        return [self._top(query, want, among) for query in queries]

    def _top(self, query: Sequence[float], want: int, among: Subset | None) -> list[Hit]:
        chosen = self._vectors.keys() if among is None else [r for r in among.ids() if r in self._vectors]
        found = [(max(_dots(query, self._vectors[record])), record) for record in chosen]
        if len(found) > want:
            least = nlargest(want, found)[-1][0] - MARGIN
            found = [hit for hit in found if hit[0] >= least]
        return sorted(found, reverse=True)


def _products(np: Any, queries: Any, matrix: Any) -> Any:
    """
    Each query with each row, a little at a time.

    BLAS spreads a large product over threads that spin while they wait for each other. Beside other work that takes
    many times longer than one thread does.
    """
    wide = np.concatenate([queries, queries]) if len(queries) == 1 else queries
    step = max(1, SERIAL // wide.size)
    found = np.empty((len(wide), len(matrix)), dtype="f4")
    for start in range(0, len(matrix), step):
        np.matmul(wide, matrix[start : start + step].T, out=found[:, start : start + step])
    return found[: len(queries)]


class _MatrixBlock:
    """All vectors in one matrix, compared by one product."""

    def __init__(self, dimensions: int) -> None:
        self._np = numpy()
        self._size = 0
        self._records = self._np.empty(64, dtype="i8")
        self._matrix = self._np.empty((64, dimensions), dtype="f4")
        self._dead = self._np.zeros(64, dtype=bool)
        self._dropped = 0

    def __len__(self) -> int:
        return self._size - self._dropped

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        if not rows:
            return
        np, width = self._np, self._matrix.shape[1]
        new = np.frombuffer(b"".join([data for _, data in rows]), dtype="f4").reshape(-1, width)
        records = np.repeat([record for record, _ in rows], [len(data) // (4 * width) for _, data in rows])
        end = self._size + len(new)
        if end > len(self._records):
            self._grow(max(end, 2 * len(self._records)))
        self._matrix[self._size : end] = new
        self._records[self._size : end] = records
        self._dead[self._size : end] = False
        self._size = end

    def drop(self, records: Iterable[int]) -> None:
        known = self._records[: self._size]
        for record in records:
            first, last = bisect_left(known, record), bisect_right(known, record)
            self._dropped += int((~self._dead[first:last]).sum())
            self._dead[first:last] = True
        if self._dropped > max(64, self._size // 4):
            self._keep(~self._dead[: self._size])

    def drop_upto(self, record: int) -> None:
        self._keep((self._records[: self._size] > record) & ~self._dead[: self._size])

    def top(self, queries: Sequence[Any], want: int, among: Subset | None) -> list[list[Hit]]:
        np = self._np
        if not self._size:
            return [[] for _ in queries]
        matrix, records, dead = self._matrix[: self._size], self._records[: self._size], self._dead[: self._size]
        if among is not None:
            chosen = np.flatnonzero(among.mask(records))
            matrix, records, dead = matrix[chosen], records[chosen], dead[chosen]
        scores = _products(np, np.asarray(queries, dtype="f4"), matrix)
        if self._dropped:
            scores, records = scores[:, ~dead], records[~dead]
        return [self._best(row, records, want) for row in scores]

    def _best(self, scores: Any, records: Any, want: int) -> list[Hit]:
        np = self._np
        if len(scores) > want:
            least = np.partition(scores, len(scores) - want)[len(scores) - want] - MARGIN
            chosen = np.flatnonzero(scores >= least)
            scores, records = scores[chosen], records[chosen]
        order = np.argsort(-scores, kind="stable")
        return list(zip(scores[order].tolist(), records[order].tolist(), strict=True))

    def _grow(self, capacity: int) -> None:
        np, size = self._np, self._size
        for name in ("_records", "_matrix", "_dead"):
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            new[:size] = old[:size]
            setattr(self, name, new)

    def _keep(self, chosen: Any) -> None:
        self._records, self._matrix = self._records[: self._size][chosen], self._matrix[: self._size][chosen]
        self._size, self._dropped = len(self._records), 0
        self._dead = self._np.zeros(max(1, self._size), dtype=bool)
