"""
One event as one line of JSON, and what links it to the line before.

A line ends with `,"prev_hash":"…","hash":"…"}`. The hash is the SHA-256, in hexadecimal, of the line's bytes up to
`,"hash":`; so whoever checks it needs the bytes and no canonical form. It begins with `{"seq":`.
"""

from __future__ import annotations

import gc
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, repeat
from operator import attrgetter
from typing import Any

import attrs
import msgspec

from agentbox_contracts.context import execution_id, fitting, session_id
from agentbox_contracts.errors import AdapterFailed, InvalidInput
from agentbox_contracts.events import Event, Receipt

__all__ = [
    "CUT",
    "GENESIS",
    "Draft",
    "Link",
    "cut_of",
    "drafts_of",
    "events_in",
    "ids_of_one_process",
    "link_before",
    "link_of",
    "linked",
    "lost_of",
    "seq_of",
]

GENESIS = "0" * 64
"""What the first event of a log has as its `prev_hash`."""

LOG = "agentbox.log."
"""Types that begin so are said by the log itself; nobody else may."""
LOG_TYPE = f'"type":"{LOG}'.encode()

CUT = f"{LOG}cut"
"""The type of the event which says that retention has removed a segment."""

LOST = f"{LOG}lost"
"""The type of the event which says that the log once went further than it does."""

SEQ = re.compile(rb'\{"seq":([1-9][0-9]{0,18}),')
END = re.compile(rb',"prev_hash":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}')
END_LENGTH = 154
FEW = 16


class _Stored(msgspec.Struct, omit_defaults=True, gc=False, tag_field="specversion", tag="1.0"):
    """The members that the caller decides, in the order in which people read them."""

    id: str
    source: str
    type: str
    time: datetime
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: Any = None
    session_id: str | None = None
    execution_id: str | None = None


@attrs.frozen
class Link:
    """Where the chain stands: the seq and hash of its last event."""

    seq: int = 0
    hash: str = GENESIS


class Draft(msgspec.Struct, gc=False):
    """An event that is ready to be linked. One whose id was given, and not made here, may be there already."""

    id: str
    source: str
    is_given: bool
    body: bytes


_encode_lines = msgspec.json.Encoder().encode_lines
_decode_lines = msgspec.json.Decoder(Event).decode_lines
_id_of = attrgetter("id")
_exhaust = deque[None](maxlen=0).extend
_fills = [getattr(Receipt, name).__set__ for name in ("id", "seq", "hash", "durability", "duplicate")]


@contextmanager
def _no_collection() -> Iterator[None]:
    """
    Let no garbage be looked for meanwhile.

    Thousands of new objects that are all kept make the collector go through them, and through everything else there
    is, several times: that takes as long as making them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ids_of_one_process() -> Iterator[str]:
    """Ids that nobody else makes: 96 random bits, drawn once, and a number; a UUID would cost as much as all else."""
    return map(f"{os.urandom(12).hex()}-".__add__, map(str, count(1)))


def drafts_of(events: Sequence[Event], ids: Iterator[str], now: datetime) -> list[Draft]:
    """
    *events* encoded, with what they left out filled in.

    Raises:
        InvalidInput: One brings what only the log may give, or cannot be written down.
    """
    session, execution = fitting(session_id.get()), fitting(execution_id.get())
    stored: list[_Stored] = []
    for event in events:
        if event.seq is not None or event.prev_hash is not None or event.hash is not None:
            raise InvalidInput("seq, prev_hash and hash are given by the log; leave them out of what is dispatched")
        stored.append(
            _Stored(
                event.id or next(ids),
                event.source,
                event.type,
                now if event.time is None else _utc(event.time),
                event.subject,
                event.datacontenttype,
                event.dataschema,
                event.data,
                event.session_id or session,
                event.execution_id or execution,
            )
        )
    block = _encoded(stored)
    if LOG_TYPE in block and any(event.type.startswith(LOG) for event in events):
        raise InvalidInput(f"type: {LOG}* is said by the log alone")
    return [
        Draft(line.id, line.source, event.id is not None, body)
        for event, line, body in zip(events, stored, _bodies(block), strict=True)
    ]


def _encoded(stored: list[_Stored]) -> bytes:
    try:
        return _encode_lines(stored)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"the event cannot be written down: {error}") from None


def _bodies(block: bytes) -> list[bytes]:
    """The members of each object in *block*; a line break within a text is escaped, and so ends one everywhere."""
    return block[1:-2].split(b"}\n{")


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"time: {moment.isoformat()} is not within the years 1 to 9999 in UTC") from None


def cut_of(file: str, events: int, kept: Link, reason: str, id: str, now: datetime) -> Draft:
    """The log's own event about the segment *file*, after which the log begins behind *kept*."""
    data = {"file": file, "events": events, "first_seq": kept.seq + 1, "prev_hash": kept.hash, "reason": reason}
    (body,) = _bodies(_encoded([_Stored(id, "agentbox/log", CUT, now, data=data)]))
    return Draft(id, "agentbox/log", False, body)


def lost_of(kept: int, acknowledged: int, id: str, now: datetime) -> Draft:
    """The log's own event about events that were acknowledged and are gone: all behind *kept*."""
    data = {"acknowledged_seq": acknowledged, "last_seq": kept}
    (body,) = _bodies(_encoded([_Stored(id, "agentbox/log", LOST, now, data=data)]))
    return Draft(id, "agentbox/log", False, body)


def linked(drafts: list[Draft], link: Link) -> tuple[bytes, list[Receipt]]:
    """The lines of *drafts* behind *link*, and what their callers are told."""
    texts: list[bytes] = []
    hashes: list[str] = []
    last = link.hash.encode()
    for seq, draft in enumerate(drafts, link.seq + 1):
        text = b'{"seq":%d,%b,"prev_hash":"%b"' % (seq, draft.body, last)
        digest = sha256(text).hexdigest()
        last = digest.encode()
        texts.append(text)
        texts.append(b',"hash":"%b"}\n' % last)
        hashes.append(digest)
    return b"".join(texts), _receipts(drafts, link.seq + 1, hashes)


def _receipts(drafts: list[Draft], first: int, hashes: list[str]) -> list[Receipt]:
    """
    A receipt for each draft.

    Of many, field by field for all of them: by the constructor, one after the other, they cost as much as hashing.
    """
    if len(drafts) < FEW:
        numbered = zip(drafts, count(first), hashes, strict=False)
        return [Receipt(id=draft.id, seq=seq, hash=digest, durability="fsync") for draft, seq, digest in numbered]
    columns: tuple[Iterable[Any], ...] = (map(_id_of, drafts), count(first), hashes, repeat("fsync"), repeat(False))
    with _no_collection():
        receipts = list(map(Receipt.__new__, repeat(Receipt, len(drafts))))
    for fill, column in zip(_fills, columns, strict=True):
        _exhaust(map(fill, receipts, column))
    return receipts


def seq_of(text: bytes, offset: int = 0) -> int | None:
    """The seq of the line that begins at *offset*, None when that is no line of a log."""
    found = SEQ.match(text, offset)
    return int(found[1]) if found else None


def link_of(line: bytes) -> Link | None:
    """The link that *line*, without its line break, makes; None when it is not whole."""
    seq, end = seq_of(line), _end_of(line)
    return None if seq is None or end is None else Link(seq, end[2].decode())


def link_before(line: bytes) -> Link | None:
    """The link that *line* says it follows; None when it is not whole."""
    seq, end = seq_of(line), _end_of(line)
    return None if seq is None or end is None else Link(seq - 1, end[1].decode())


def _end_of(line: bytes) -> re.Match[bytes] | None:
    return END.fullmatch(line, max(0, len(line) - END_LENGTH))


def events_in(text: bytes | memoryview, place: str) -> list[Event]:
    """The events in *text*, whole lines from *place* on. Raises AdapterFailed when one is damaged."""
    try:
        with _no_collection():
            return _decode_lines(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AdapterFailed(
            f"there is damage in {place} ({error}); 'agentbox events verify' says how far it is good"
        ) from None
