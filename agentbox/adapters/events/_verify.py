"""Checking a chain against the stored bytes, from the first line to the last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from agentbox.adapters.events import _segments
from agentbox.adapters.events._head import Head
from agentbox.adapters.events._line import CUT, GENESIS, Link, link_before, link_of
from agentbox_contracts.events import Verdict

__all__ = ["verified"]

HASH_LENGTH = 75
"""How many bytes at the end of a line its hash is not about: `,"hash":"…"}`."""


def verified(folder: Path, head: Head | None = None, *, seq: int | None = None, hash: str | None = None) -> Verdict:
    """
    Whether the chain in *folder* holds, up to *head* where one is given, and to its very end otherwise.

    A chain that was cut off at its end holds. Who has a receipt can tell: the event *seq* must be there, with *hash*.
    """
    last: Link | None = None
    first: Link | None = None
    cuts: set[tuple[object, object]] = set()
    place, count = "", 0
    for where, line in _lines(folder, head):
        place = where
        reason = _fault(line, last)
        link = link_of(line[:-1])
        if not reason and hash is not None and link is not None and link.seq == seq and link.hash != hash:
            reason = f"seq {seq} has another hash than the receipt"
        if reason or link is None:
            return _broken(first, last, count, where, reason)
        if first is None:
            begin, first = where, link_before(line[:-1])
        cuts |= _cuts(line)
        last, count = link, count + 1
    if first is not None and first.seq and (first.seq + 1, first.hash) not in cuts:
        return Verdict(ok=False, verified=0, place=begin, reason=f"begins with seq {first.seq + 1}, and no cut says so")
    if seq is not None and first is not None and seq <= first.seq:
        reason = f"begins with seq {first.seq + 1}, and a receipt is for {seq}"
        return _broken(first, last, count, begin, reason)
    if head is not None and (last is None or last.seq < head.seq) and head.seq:
        reason = f"ends with seq {last.seq if last else 0}, though seq {head.seq} was acknowledged"
        return _broken(first, last, count, place or str(folder), reason)
    if seq is not None and (last is None or last.seq < seq):
        reason = f"ends with seq {last.seq if last else 0}, and a receipt is for {seq}"
        return _broken(first, last, count, place or str(folder), reason)
    return Verdict(ok=True, verified=count, first_seq=_number(first), last_seq=last.seq if last else None)


def _broken(first: Link | None, last: Link | None, count: int, place: str, reason: str) -> Verdict:
    end = last.seq if last else None
    return Verdict(ok=False, verified=count, first_seq=_number(first), last_seq=end, place=place, reason=reason)


def _number(first: Link | None) -> int | None:
    return None if first is None else first.seq + 1


def _fault(line: bytes, last: Link | None) -> str:
    """What is wrong with *line* behind *last*; nothing when it is as it should be."""
    if not line.endswith(b"\n"):
        return "is torn: it has no end"
    text = line[:-1]
    link, before = link_of(text), link_before(text)
    if link is None or before is None:
        return "is no line of a log"
    if sha256(text[:-HASH_LENGTH]).hexdigest() != link.hash:
        return "its hash is not that of its bytes"
    if last is None:
        return "seq 1 follows something" if link.seq == 1 and before.hash != GENESIS else ""
    if link.seq != last.seq + 1:
        return f"seq {link.seq} follows seq {last.seq}"
    if before.hash != last.hash:
        return "its prev_hash is not the hash of the line before"
    return ""


def _cuts(line: bytes) -> set[tuple[object, object]]:
    """Where retention lets the log begin, if *line* says so."""
    if CUT.encode() not in line:
        return set()
    try:
        event = json.loads(line)
        if event["type"] != CUT:
            return set()
        return {(event["data"]["first_seq"], event["data"]["prev_hash"])}
    except (ValueError, TypeError, KeyError, RecursionError):
        return set()


def _lines(folder: Path, head: Head | None) -> Iterator[tuple[str, bytes]]:
    """Every line with its line break, and its place; none behind *head*."""
    for segment in _segments.names(folder):
        with (folder / segment).open("rb") as file:
            left = head.end if head is not None and segment == head.segment else os.fstat(file.fileno()).st_size
            number = 0
            while left > 0 and (line := file.readline(left)):
                number += 1
                left -= len(line)
                yield f"{segment}:{number}", line
        if head is not None and segment == head.segment:
            return
