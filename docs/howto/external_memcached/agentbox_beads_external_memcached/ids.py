"""Names for new beads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Container
from uuid import UUID

__all__ = ["new_id", "new_uid"]

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_id(taken: Container[str]) -> str:
    """`bd-` and six letters and digits that nobody has yet."""
    while (found := "bd-" + "".join(secrets.choice(ALPHABET) for _ in range(6))) in taken:
        pass
    return found


def new_uid() -> str:
    """A UUID of version 7: milliseconds, then chance."""
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=number))
