"""Ids of beads: short ones to speak, long ones to keep."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from uuid import UUID

__all__ = ["short_ids", "uuid7", "uuid7_from"]

# Without 0 and o, 1 and l, i: nobody should have to spell a bead.
ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
LENGTH = 4


def short_ids(choice: Callable[[str], str] = secrets.choice) -> Iterator[str]:
    """Candidates for a new id, longer with every collision, so that a full store finds a free one soon."""
    length = LENGTH
    while True:
        yield "bd-" + "".join(choice(ALPHABET) for _ in range(length))
        length += 1


def uuid7(moment: datetime) -> str:
    """A time-ordered UUID of *moment*."""
    return _uuid7(moment, secrets.token_bytes(10))


def uuid7_from(moment: datetime, name: str) -> str:
    """The same UUID for the same *moment* and *name*: for records of other tools, which have none."""
    return _uuid7(moment, hashlib.sha256(name.encode()).digest()[:10])


def _uuid7(moment: datetime, noise: bytes) -> str:
    milliseconds = max(0, int(moment.timestamp() * 1000)) & (1 << 48) - 1
    value = int.from_bytes(milliseconds.to_bytes(6, "big") + noise, "big")
    value = value & ~(0xF << 76) | 7 << 76
    return str(UUID(int=value & ~(0b11 << 62) | 0b10 << 62))
