"""Events in files of JSON lines, each linked to the one before."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import attrs
from msgspec import Meta

from agentbox.adapters._lane import Job, Lane
from agentbox.adapters._watch import Watch
from agentbox.adapters.events import _files, _head, _segments
from agentbox.adapters.events._cursors import Cursors
from agentbox.adapters.events._known import Known
from agentbox.adapters.events._line import drafts_of, ids_of_one_process
from agentbox.adapters.events._log import Log
from agentbox.adapters.events._reader import Cursor, Reader
from agentbox.adapters.events._recover import missing
from agentbox.adapters.events._retention import Retention
from agentbox.adapters.events._segments import CHUNK
from agentbox.adapters.events._types import matcher
from agentbox.adapters.events._verify import verified
from agentbox_contracts.contract import BaseAdapter, Health, Settings
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable, InvalidInput
from agentbox_contracts.events import CONTRACT, Event, Events, Receipt, Verdict

__all__ = ["Adapter", "JsonlEvents", "JsonlSettings"]

T = TypeVar("T")

BATCH = 1024
LOOK_AGAIN_SECONDS = 1.0
STEP, STEP_BYTES = 256, 1 << 18
FEW_BYTES, LINE_BYTES = 8192, 512


@attrs.frozen(kw_only=True)
class JsonlSettings(Settings):
    """
    `path` is the folder of the log. A segment is followed by another at midnight UTC and at `segment_bytes`.

    `dedupe_window` is among how many of the last events the same `source` and `id` is found; 0 looks for none.
    `retain_days` and `retain_bytes` bound what is kept; without them everything is. `busy_timeout_seconds` is how long
    a write waits for other processes' writes.
    """

    path: Path = Path("events")
    segment_bytes: Annotated[int, Meta(ge=4096, le=1 << 40)] = 64 << 20
    dedupe_window: Annotated[int, Meta(ge=0, le=10_000_000)] = 100_000
    retain_days: Annotated[float, Meta(gt=0, le=36_525)] | None = None
    retain_bytes: Annotated[int, Meta(ge=4096)] | None = None
    busy_timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0


class JsonlEvents(BaseAdapter, Events):
    """Several processes may share the folder. Concurrent dispatches of one process share a write and its sync."""

    settings_class = JsonlSettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability = "fsync"
    config: JsonlSettings

    def __init__(
        self,
        *,
        slot: str,
        impl: str,
        config: JsonlSettings,
        logger: logging.Logger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._clock = clock
        self._ids = ids_of_one_process()
        self._folder = config.path.absolute()
        self._reader = Reader(self._folder)
        self._cursors = Cursors(self._folder / "cursors")
        self._lane: Lane[Log] | None = None
        self._watch: Watch | None = None
        self._is_open = False
        self._told = ""
        if not config.dedupe_window:
            self.capabilities = CONTRACT.capabilities - {"dedupe"}

    @property
    def location(self) -> str:
        """The folder of the log."""
        return str(self.config.path)

    @property
    def limits(self) -> Mapping[str, float]:
        """Among how many of the last events a second one is found."""
        return {"dedupe_window": self.config.dedupe_window}

    async def connect(self) -> None:
        """Look at the log, if there is one yet, and set aside what a crash has torn. The first event makes one."""
        self._is_open = True
        await self._blocking(self._prepare)

    async def disconnect(self) -> None:
        """Finish what was begun, wake those who follow, and close the files."""
        self._is_open = False
        lane, self._lane = self._lane, None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        if lane is not None:
            await lane.stop()

    async def health(self) -> Health:
        """Looks at the log's end, and at whether the folder can be written."""
        return await asyncio.to_thread(self._examine)

    async def dispatch(self, event: Event) -> Receipt:
        (receipt,) = await self._writing().run(drafts_of([event], self._ids, self._clock()))
        return receipt  # type: ignore[no-any-return]

    async def dispatch_many(self, events: list[Event]) -> list[Receipt]:
        if not events:
            return []
        return await self._writing().run(drafts_of(events, self._ids, self._clock()))  # type: ignore[no-any-return]

    async def read(self, *, after: int | None = None, limit: int = 1000, types: tuple[str, ...] = ()) -> list[Event]:
        wanted = matcher(types)
        found: list[Event] = []
        cursor = Cursor(after or 0)
        chunk = min(CHUNK, FEW_BYTES + limit * LINE_BYTES) if wanted is None else CHUNK
        while len(found) < limit:
            # One piece at a time: who is cancelled while a long log is searched leaves no search behind.
            few = max(limit, BATCH) if wanted else limit - len(found)
            piece, cursor = await self._blocking(self._reader.events, cursor, few, chunk)
            if not piece:
                break
            found += piece if wanted is None else [event for event in piece if wanted(event.type)]
        return found[:limit]

    async def subscribe(
        self, *, after: int | None = None, name: str | None = None, types: tuple[str, ...] = ()
    ) -> AsyncIterator[Event]:
        wanted = matcher(types)
        if after is None:
            after = 0 if name is None else await self._blocking(self._begin_of, name)
        cursor = Cursor(after)
        while True:
            piece, cursor = await self._following(cursor)
            for event in piece:
                if wanted is None or wanted(event.type):
                    yield event

    async def ack(self, name: str, seq: int) -> None:
        head = await self._blocking(self._reader.head)
        if seq > head.seq:
            raise InvalidInput(f"seq {seq} cannot be acknowledged: the log ends with {head.seq}")
        await self._blocking(self._cursors.advance, name, seq)

    async def verify(self) -> Verdict:
        return await self._blocking(self._verified)

    def _begin_of(self, name: str) -> int:
        """What the subscription *name* acknowledged last; an error when it would wait for what is gone."""
        seq, end = self._cursors.read(name), self._reader.head().seq
        if seq > end:
            what = f"the subscription {name!r} has come to seq {seq}, and the log ends with seq {end}: events are gone"
            raise AdapterFailed(f"{what}; give after={end} to go on here, or choose another name")
        return seq

    async def _following(self, cursor: Cursor) -> tuple[list[Event], Cursor]:
        """The next few events, as soon as there is one."""
        while True:
            with self._watching().on(str(self._folder / _head.NAME)) as change:
                found, cursor = await self._blocking(self._reader.events, cursor, STEP, STEP_BYTES)
                if found:
                    return found, cursor
                await change.wait(LOOK_AGAIN_SECONDS)

    def _writing(self) -> Lane[Log]:
        """The lane of the writer, begun with the first event."""
        if self._lane is None:
            self._require_open()
            self._lane = Lane(
                "agentbox-events",
                acquire=self._log,
                run=_append,
                release=Log.close,
                translated=lambda error: error,
                batch=BATCH,
            )
        return self._lane

    def _watching(self) -> Watch:
        self._require_open()
        if self._watch is None:
            self._watch = Watch()
        return self._watch

    def _require_open(self) -> None:
        if not self._is_open:
            raise AdapterUnavailable(f"{self._folder} is not open")

    def _log(self) -> Log:
        return Log(
            self._folder,
            segment_bytes=self.config.segment_bytes,
            busy_timeout_seconds=self.config.busy_timeout_seconds,
            known=Known(self.config.dedupe_window, self._reader),
            retention=Retention(self.config.retain_days, self.config.retain_bytes, self._tell),
            clock=self._clock,
            tell=self._tell,
        )

    def _prepare(self) -> None:
        if not self._folder.is_dir():
            return
        _files.check_format(self._folder)
        if not os.access(self._folder, os.W_OK):
            return  # it can be read; a dispatch will say that it cannot be written
        if self._short():
            return  # nothing is touched before the next event, which notes it: this may be somebody's evidence
        log = self._log()
        try:
            log.settle()
        finally:
            log.close()

    def _short(self) -> str:
        """What to say of a log that ends before what was acknowledged."""
        return missing(self._folder, self._reader.head())

    def _verified(self) -> Verdict:
        """The verdict; once more when retention removed a segment meanwhile, as what is missing then is no damage."""
        while True:
            before = self._oldest()
            try:
                verdict = verified(self._folder, self._reader.head())
            except FileNotFoundError:
                if self._oldest() == before:
                    raise
                continue
            if verdict.ok or self._oldest() == before:
                return verdict

    def _oldest(self) -> list[str]:
        return _segments.names(self._folder)[:1]

    def _examine(self) -> Health:
        if not self._is_open:
            return Health("degraded", f"{self._folder} is not open")
        try:
            if short := self._short():
                return Health("degraded", short)
        except OSError as error:
            return Health("degraded", f"{self._folder} cannot be read: {error.strerror}")
        nearest = self._folder
        while not nearest.exists():
            nearest = nearest.parent
        if not os.access(nearest, os.W_OK):
            return Health("degraded", f"{nearest} cannot be written")
        return Health("healthy", self._told)

    def _tell(self, what: str) -> None:
        self._told = what
        self.logger.warning("event log: %s", what, extra={"slot": self.slot, "impl": self.impl, "reason": what})

    async def _blocking(self, work: Callable[..., T], *arguments: object) -> T:
        """Run *work* off the loop; what the file system says becomes the contract's error."""
        self._require_open()
        try:
            return await asyncio.to_thread(work, *arguments)
        except OSError as error:
            raise AdapterUnavailable(f"{self._folder} cannot be used: {error.strerror or error}") from error


def _append(log: Log, jobs: list[Job]) -> None:
    try:
        answers = log.append([job.work for job in jobs])
    except Exception as error:
        for job in jobs:
            job.error = error
    else:
        for job, answer in zip(jobs, answers, strict=True):
            job.result = answer


Adapter = JsonlEvents
