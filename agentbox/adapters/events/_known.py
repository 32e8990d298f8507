"""Which events the log has already: the last ones, by source and id."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from operator import attrgetter

import attrs
import msgspec

from agentbox.adapters.events._line import Draft
from agentbox.adapters.events._reader import Cursor, Reader
from agentbox_contracts.errors import AdapterFailed
from agentbox_contracts.events import Receipt

__all__ = ["Answers", "Known"]

Answers = list[list["int | Receipt"]] | None
"""
For each event of each batch: the number of the new line it gets, minus 1 minus that of its twin, or a receipt. None
when all are new.
"""

FEW_BYTES = 8192

_is_given = attrgetter("is_given")


class _Named(msgspec.Struct):
    id: str
    source: str


class Known:
    """
    The seqs of the last *window* events. It is read from the log when an event first brings an id of its own; an
    application that leaves ids to the log never pays for it.

    Hashes stand for names here, 64 bits of each: the log itself is asked before an event is called a duplicate.
    """

    def __init__(self, window: int, reader: Reader) -> None:
        self._window = window
        self._reader = reader
        self._decode = msgspec.json.Decoder(_Named).decode
        self._upto: int | None = None
        self._old: dict[int, int] = {}
        self._new: dict[int, int] = {}

    def sorted_out(self, batches: list[list[Draft]], seq: int) -> tuple[Answers, list[Draft]]:
        """The drafts that are new in a log that ends with *seq*, and how to answer for all."""
        if not any(map(_is_given, chain.from_iterable(batches))):
            self._fresh = list(chain.from_iterable(batches))
            return None, self._fresh
        fresh: list[Draft] = []
        answers: list[list[int | Receipt]] = []
        twins: dict[tuple[str, str], int] = {}
        for batch in batches:
            row: list[int | Receipt] = []
            for draft in batch:
                found = self._found(draft, twins, seq) if draft.is_given and self._window else None
                if found is None:
                    found = len(fresh)
                    fresh.append(draft)
                    twins[draft.source, draft.id] = found
                row.append(found)
            answers.append(row)
        self._fresh = fresh
        return answers, fresh

    def answered(
        self, batches: list[list[Draft]], answers: Answers, receipts: list[Receipt], seq: int
    ) -> list[list[Receipt]]:
        """The receipts for *batches*, when those for the new ones are *receipts* and the log ends with *seq*."""
        if receipts and self._upto is not None and receipts[0].seq == self._upto + 1:
            for draft, receipt in zip(self._fresh, receipts, strict=True):
                self._add(draft.source, draft.id, receipt.seq or 0)
            self._upto = seq
        if answers is None:
            rest = iter(receipts)
            return [list(islice(rest, len(batch))) for batch in batches]
        return [[_receipt(answer, receipts) for answer in row] for row in answers]

    def _found(self, draft: Draft, twins: dict[tuple[str, str], int], seq: int) -> int | Receipt | None:
        twin = twins.get((draft.source, draft.id))
        if twin is not None:
            return -1 - twin
        self._catch_up(seq)
        name = hash((draft.source, draft.id))
        at = self._new.get(name) or self._old.get(name)
        if at is None or at <= seq - self._window:
            return None
        try:
            found, _ = self._reader.events(Cursor(at - 1), 1, FEW_BYTES)
        except AdapterFailed:
            return None  # damaged since
        if not found or (found[0].source, found[0].id) != (draft.source, draft.id):
            return None
        event = found[0]
        return Receipt(id=draft.id, seq=event.seq, hash=event.hash, durability="fsync", duplicate=True)

    def _catch_up(self, seq: int) -> None:
        """Read what was written since, by others or before this process began."""
        upto = self._upto
        if upto is None or seq < upto or seq - upto > self._window:
            self._old, self._new = {}, {}
            upto = max(0, seq - self._window)
        if upto < seq:
            for number, line in self._reader.lines(upto, seq):
                # A line that was damaged is nobody's twin, and no reason to turn away what comes now.
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    named = self._decode(line)
                    self._add(named.source, named.id, number)
        self._upto = seq

    def _add(self, source: str, id: str, seq: int) -> None:
        if len(self._new) >= self._window:
            self._old, self._new = self._new, {}
        self._new[hash((source, id))] = seq


def _receipt(answer: int | Receipt, receipts: list[Receipt]) -> Receipt:
    if isinstance(answer, Receipt):
        return answer
    return receipts[answer] if answer >= 0 else attrs.evolve(receipts[-1 - answer], duplicate=True)
