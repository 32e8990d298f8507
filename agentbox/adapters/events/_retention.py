"""How long events are kept: whole segments go, the oldest first, and the chain says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from uuid import uuid4

from agentbox.adapters.events import _segments
from agentbox.adapters.events._line import Draft, Link, cut_of

__all__ = ["Retention"]


class Retention:
    """
    Keeps the segments of the last *days*, and of those no more than *size* bytes; None for no such bound.

    Decided when a segment is begun, which is at least once a day on which something happens.
    """

    def __init__(self, days: float | None, size: int | None, tell: Callable[[str], None]) -> None:
        self._days = days
        self._size = size
        self._tell = tell

    def plan(self, folder: Path, existing: list[str], link: Link, now: datetime) -> tuple[list[Path], list[Draft]]:
        """
        The paths of the segments to remove, and an event for each, to be written first.

        An event tells with which seq and prev_hash the log goes on after its segment, so that a verifier can begin
        there. *link* is the end of the chain, where the next segment will begin.
        """
        doomed = self._doomed(folder, existing, now)
        cuts: list[Draft] = []
        begin = _segments.first_link(folder, existing[0]) if doomed else None
        for index, (segment, reason) in enumerate(doomed):
            following = _segments.first_link(folder, existing[index + 1]) if index + 1 < len(existing) else None
            kept = following or link
            count = 0 if begin is None else kept.seq - begin.seq
            cuts.append(cut_of(segment, count, kept, reason, str(uuid4()), now))
            begin = kept
        return [folder / segment for segment, _ in doomed], cuts

    def remove(self, paths: list[Path]) -> None:
        """Remove what was planned, the oldest first. What cannot be removed now is planned again."""
        try:
            for path in paths:
                path.unlink()
        except OSError as error:
            self._tell(f"retention: {error.filename} cannot be removed: {error.strerror}")

    def _doomed(self, folder: Path, existing: list[str], now: datetime) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if self._days is None and self._size is None:
            return found
        sizes = {segment: (folder / segment).stat().st_size for segment in existing}
        total = sum(sizes.values())
        for segment in existing:
            ended = datetime.combine(_segments.day_of(segment), time.max, UTC)
            if self._days is not None and ended < now - timedelta(days=self._days):
                found.append((segment, "age"))
            elif self._size is not None and total > self._size:
                found.append((segment, "size"))
            else:
                break
            total -= sizes[segment]
        return found
