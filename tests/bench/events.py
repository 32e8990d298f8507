"""Events through the app against plain loops that write, sync and decode the same lines."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import msgspec

from agentbox.adapters.events._line import Link, drafts_of, ids_of_one_process, linked
from agentbox.app import open_app
from agentbox.testing import open_slot
from agentbox_contracts.events import Event, Events
from tests.bench._measure import Bench, Measured, paired, seconds_of, spread

ROUNDS = 21
LONE = 100
CROWD = 2560
BATCH = 10_000
BATCHES = 7
REPLAYED = 1_000_000
PAGE = 10_000
SEGMENT_BYTES, SEGMENT_EVENTS, OLDER = 64 << 20, 160_000, 78
LAST_EVENTS, OPENINGS = 12_500, 5

MANIFEST = """
[state]
path = "."

[adapters]
beads = "off"
pods = "off"
memory = "off"
events = "local-jsonl"

[federation]
mode = "standalone"
"""


@asynccontextmanager
async def events_of(folder: Path) -> AsyncIterator[Events]:
    """`app.adapters.events` of an app whose state folder is *folder*."""
    folder.mkdir(exist_ok=True)
    manifest = folder / "agentbox.toml"
    manifest.write_text(MANIFEST + "[adapters_policy]\nannounce = false\n")
    async with open_app(manifest) as app:
        assert app.slots["events"].failure == "", app.slots["events"].failure
        yield app.adapters.events


def event(number: int) -> Event:
    """An event as an application would say it."""
    data = {"bead": f"bd-{number}", "actor": "ada", "attempt": number % 7, "tags": ["bench", "event"]}
    return Event(type="agentbox.bead.claimed", source="agentbox/beads", subject=f"bd-{number}", data=data)


@contextmanager
def plain_file(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder / "plain.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _dispatch(callers: int, count: int) -> Measured:
    line = b"x" * 399 + b"\n"
    with tempfile.TemporaryDirectory() as name, plain_file(Path(name)) as descriptor:
        async with events_of(Path(name, "ours")) as events:

            async def reference() -> float:
                started = perf_counter()
                for _ in range(LONE):
                    os.write(descriptor, line)
                    os.fdatasync(descriptor)
                return (perf_counter() - started) / LONE

            async def subject() -> float:
                said = [event(number) for number in range(count)]
                return await spread(lambda number: events.dispatch(said[number]), count, callers)

            measured = await paired(reference, subject, rounds=ROUNDS)
            assert (await events.verify()).verified == count * (ROUNDS + 1)
            return measured


async def _dispatch_many() -> Measured:
    """The reference encodes the very Event objects, chains them by their hashes, appends and syncs, batch by batch."""
    encode = msgspec.json.Encoder().encode
    said = [event(number) for number in range(BATCH)]
    with tempfile.TemporaryDirectory() as name, plain_file(Path(name)) as descriptor:
        async with events_of(Path(name, "ours")) as events:

            async def reference() -> float:
                started = perf_counter()
                last, lines = b"0" * 64, []
                for item in said:
                    text = encode(item)
                    last = sha256(text + last).hexdigest().encode()
                    lines.append(text + last + b"\n")
                os.write(descriptor, b"".join(lines))
                os.fdatasync(descriptor)
                return (perf_counter() - started) / BATCH

            async def subject() -> float:
                return await seconds_of(lambda _: events.dispatch_many(said), 1) / BATCH

            return await paired(reference, subject, rounds=BATCHES)


async def _replay() -> Measured:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with events_of(folder) as events:
            for first in range(0, REPLAYED, PAGE):
                await events.dispatch_many([event(number) for number in range(first, first + PAGE)])

            decode = msgspec.json.Decoder(Event).decode

            async def reference() -> float:
                started, count = perf_counter(), 0
                for path in sorted(folder.glob("events/*.jsonl")):
                    with path.open("rb") as file:
                        for line in file:
                            decode(line)
                            count += 1
                assert count == REPLAYED
                return (perf_counter() - started) / REPLAYED

            async def subject() -> float:
                started, count, after = perf_counter(), 0, 0
                while page := await events.read(after=after):
                    count += len(page)
                    after = page[-1].seq or 0
                assert count == REPLAYED
                return (perf_counter() - started) / REPLAYED

            return await paired(reference, subject, rounds=3)


def _log(folder: Path, older: int) -> None:
    """A log of *older* full segments, whose middles are holes, and a last one of five megabytes."""
    (folder / "events").mkdir(parents=True)
    ids, now = ids_of_one_process(), datetime.now(UTC)
    for number in range(older):
        line, _ = linked(drafts_of([event(number)], ids, now), Link(number * SEGMENT_EVENTS))
        with (folder / "events" / f"2026-01-01.{number + 1:04}.jsonl").open("wb") as file:
            file.write(line)
            file.truncate(SEGMENT_BYTES)
    drafts = drafts_of([event(number) for number in range(LAST_EVENTS)], ids, now)
    lines, _ = linked(drafts, Link(older * SEGMENT_EVENTS))
    (folder / "events" / f"{now.date()}.0001.jsonl").write_bytes(lines)


async def _opening() -> Measured:
    """Opening, reading the last event, and closing; the first time for each sets the head."""
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name, "small"), Path(name, "large")
        _log(small, 0)
        _log(large, OLDER)

        async def open_and_read(folder: Path, older: int) -> float:
            started = perf_counter()
            for _ in range(OPENINGS):
                async with open_slot(MANIFEST, "events", folder=folder) as events:
                    (last,) = await events.read(after=older * SEGMENT_EVENTS + LAST_EVENTS - 1)
                    assert last.seq == older * SEGMENT_EVENTS + LAST_EVENTS
            return (perf_counter() - started) / OPENINGS

        return await paired(lambda: open_and_read(small, 0), lambda: open_and_read(large, OLDER), rounds=ROUNDS)


BENCHES = (
    Bench(
        name="event-256",
        what="events.dispatch, 256 callers : raw append and fdatasync for each",
        bound="at_least",
        bar=3,
        measure=lambda: asyncio.run(_dispatch(256, CROWD)),
    ),
    Bench(
        name="event-1",
        what="events.dispatch, one caller : raw append and fdatasync for each",
        bound="at_least",
        bar=0.35,
        measure=lambda: asyncio.run(_dispatch(1, LONE)),
    ),
    Bench(
        name="event-many",
        what=f"events.dispatch_many of {BATCH:,} : a loop that encodes, hashes, appends and syncs them",
        bound="at_least",
        bar=0.4,
        measure=lambda: asyncio.run(_dispatch_many()),
    ),
    Bench(
        name="event-replay",
        what=f"{REPLAYED:,} events by events.read : plain msgspec decoding of the lines as Event",
        bound="at_least",
        bar=0.5,
        measure=lambda: asyncio.run(_replay()),
    ),
    Bench(
        name="event-open",
        what="opening a log of 5 GB and reading its last event : of 5 MB",
        bound="at_most",
        bar=1.2,
        measure=lambda: asyncio.run(_opening()),
    ),
)
