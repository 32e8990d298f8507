"""Moments as whole microseconds since 1970, which is how SQLite's tables hold them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

__all__ = ["instant", "micros"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """A moment as whole microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


@overload
def instant(value: int) -> datetime: ...
@overload
def instant(value: None) -> None: ...
def instant(value: int | None) -> datetime | None:
    """Microseconds since 1970 as a moment; None where there is none."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)
