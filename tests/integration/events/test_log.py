"""What only `local-jsonl` has: files, their ends after a crash, days, retention."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentbox.adapters.events import _files, _head, _segments
from agentbox.adapters.events._verify import verified
from agentbox.adapters.events.local_jsonl import JsonlEvents, JsonlSettings
from agentbox.app import open_app
from agentbox.context import bound
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable, InvalidInput
from agentbox_contracts.events import Event

START = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def opened(folder: Path, clock: Clock, **settings: object) -> AsyncIterator[JsonlEvents]:
    config = JsonlSettings(path=folder, **settings)  # type: ignore[arg-type]
    events = JsonlEvents(
        slot="events", impl="local-jsonl", config=config, logger=logging.getLogger("test"), clock=clock
    )
    await events.connect()
    try:
        yield events
    finally:
        await events.disconnect()


def event(number: int = 0, **details: object) -> Event:
    return Event(type="test.said", source="test", data={"number": number}, **details)  # type: ignore[arg-type]


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jsonl"))


async def test_nothing_is_made_before_the_first_event(tmp_path: Path) -> None:
    overrides = {"state": {"path": str(tmp_path / "state")}, "adapters_policy": {"announce": False}}
    async with open_app(overrides=overrides) as app:
        assert app.slots["events"].choice.impl == "local-jsonl"
        assert await app.adapters.events.read() == []
        assert (await app.adapters.events.verify()).ok
        assert not (tmp_path / "state" / "events").exists()
        await app.adapters.events.dispatch(event())
        assert (tmp_path / "state" / "events").is_dir()


async def test_a_line_is_a_cloudevent_that_people_can_read(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        receipt = await events.dispatch(event(7, id="one", subject="bd-1"))
    (line,) = (tmp_path / "2026-11-18.0001.jsonl").read_text().splitlines()

    assert list(json.loads(line).items()) == [
        ("seq", 1),
        ("specversion", "1.0"),
        ("id", "one"),
        ("source", "test"),
        ("type", "test.said"),
        ("time", "2026-11-18T12:00:00Z"),
        ("subject", "bd-1"),
        ("data", {"number": 7}),
        ("prev_hash", "0" * 64),
        ("hash", receipt.hash),
    ]


async def test_segments_go_by_day_and_size_and_never_back(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096) as events:
        for days in (0, 1, -5, 2):
            clock.now = START + timedelta(days=days)
            for number in range(12):
                await events.dispatch(event(number))
        verdict = await events.verify()
        assert [event.seq for event in await events.read(after=10, limit=30)] == list(range(11, 41))
    assert segments(tmp_path) == [
        "2026-11-18.0001.jsonl",
        "2026-11-19.0001.jsonl",
        "2026-11-19.0002.jsonl",
        "2026-11-20.0001.jsonl",
    ]
    assert (verdict.ok, verdict.verified) == (True, 48)


@pytest.mark.parametrize("name", ["9999-99-99.0001.jsonl", "2026-02-31.0001.jsonl"])
async def test_a_file_of_no_day_there_is_stops_nobody(tmp_path: Path, clock: Clock, name: str) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096, retain_days=3) as events:
        await events.dispatch(event(0))
        (tmp_path / name).touch()
        for number in range(1, 25):
            await events.dispatch(event(number))
        assert [found.seq for found in await events.read(limit=30)] == list(range(1, 26))
        assert (await events.verify()).ok


@pytest.mark.parametrize("has_restarted", [False, True], ids=["process", "machine"])
async def test_a_torn_line_is_set_aside_and_told(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, has_restarted: bool
) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch(event(1))
    segment = tmp_path / "2026-11-18.0001.jsonl"
    whole = segment.read_bytes()
    segment.write_bytes(whole + b'{"seq":2,"half')
    if has_restarted:
        (tmp_path / "head").write_bytes(b"")

    async with opened(tmp_path, clock) as events:
        assert segment.read_bytes() == whole
        assert (tmp_path / "2026-11-18.0001.torn").read_bytes() == b'{"seq":2,"half\n'
        assert "2026-11-18.0001.torn" in (await events.health()).reason
        assert (await events.dispatch(event(2))).seq == 2
        assert [event.seq for event in await events.read()] == [1, 2]
        assert (await events.verify()).ok
    assert any("torn" in str(record.__dict__.get("reason")) for record in caplog.records)


async def test_whole_lines_that_nobody_was_told_of_are_set_aside_by_the_next_process(
    tmp_path: Path, clock: Clock
) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(3)])
        head = (tmp_path / "head").read_bytes()
        await events.dispatch_many([event(number) for number in range(3, 6)])
    (tmp_path / "head").write_bytes(head)

    async with opened(tmp_path, clock) as events:
        assert len(await events.read()) == 3
        assert (await events.dispatch(event())).seq == 4
        assert (await events.verify()).verified == 4
    assert (tmp_path / "2026-11-18.0001.torn").read_bytes().count(b'"seq"') == 3


async def test_after_a_restart_of_the_machine_every_whole_line_counts(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(3)])
        head = (tmp_path / "head").read_bytes()
        await events.dispatch_many([event(number) for number in range(3, 6)])
    (tmp_path / "head").write_bytes(b"another-boot" + head[12:])

    async with opened(tmp_path, clock) as events:
        assert len(await events.read()) == 6
        assert (await events.dispatch(event())).seq == 7
        assert (await events.verify()).ok


async def test_a_log_that_lost_its_end_says_so_until_the_next_event_makes_a_fact_of_it(
    tmp_path: Path, clock: Clock
) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096) as events:
        await events.dispatch_many([event(number) for number in range(20)])
        await events.dispatch_many([event(number) for number in range(20, 25)])
    first, second = (tmp_path / name for name in segments(tmp_path))
    assert first.read_bytes().count(b"\n") == 20
    second.unlink()

    for _ in range(2):  # whoever only looks changes nothing
        async with opened(tmp_path, clock) as events:
            assert len(await events.read()) == 20
            verdict = await events.verify()
            health = await events.health()
            assert (verdict.ok, verdict.verified) == (False, 20)
            assert verdict.reason == "ends with seq 20, though seq 25 was acknowledged"
            assert health.state == "degraded"
            assert "ends with seq 20, though seq 25 was acknowledged" in health.reason
    async with opened(tmp_path, clock) as events:
        assert (await events.dispatch(event())).seq == 22
        lost = (await events.read(after=20))[0]
        assert (lost.type, lost.data) == ("agentbox.log.lost", {"acknowledged_seq": 25, "last_seq": 20})
        assert (await events.verify()).ok
        assert (await events.health()).state == "healthy"
        assert (await events.dispatch(event())).seq == 23
    async with opened(tmp_path, clock) as events:
        assert [event.seq for event in await events.read(after=20)] == [21, 22, 23]


async def test_a_log_that_lost_everything_is_not_an_empty_one(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch(event())
    (tmp_path / segments(tmp_path)[0]).unlink()

    async with opened(tmp_path, clock) as events:
        assert (await events.verify()).reason == "ends with seq 0, though seq 1 was acknowledged"
        assert (await events.dispatch(event())).seq == 2
        assert [event.type for event in await events.read()] == ["agentbox.log.lost", "test.said"]


async def test_a_missing_segment_is_an_error_and_not_passed_over(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096) as events:
        for _ in range(4):
            await events.dispatch_many([event(number) for number in range(20)])
    (tmp_path / segments(tmp_path)[1]).unlink()

    async with opened(tmp_path, clock) as events:
        assert len(await events.read(limit=20)) == 20
        with pytest.raises(AdapterFailed, match="begins with seq 41, and seq 21 was to come"):
            await events.read(after=20)
        with pytest.raises(AdapterFailed, match="seq 21 was to come"):
            await anext(aiter(events.subscribe(after=20)))


def damage(folder: Path, seq: int) -> None:
    """Write nonsense over the beginning of the line with *seq*."""
    for name in segments(folder):
        text = (folder / name).read_bytes()
        (folder / name).write_bytes(text.replace(b'{"seq":%d,' % seq, b"\xff\xfe{nonsense,"[: len(f'{{"seq":{seq},')]))


async def test_a_damaged_line_stops_nobody_who_brings_an_id(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number, id=f"id-{number}") for number in range(10)])
    damage(tmp_path, 5)

    async with opened(tmp_path, clock) as events:
        assert (await events.dispatch(event(id="new"))).seq == 11
        assert (await events.dispatch(event(id="id-7"))).duplicate
        # What is damaged is not there: whoever brings it again is not sent away with an error.
        assert (await events.dispatch(event(id="id-4"))).seq == 12


async def test_what_lies_behind_a_damaged_line_can_be_read(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(10)])
        damage(tmp_path, 5)

        for after in (3, 4):
            with pytest.raises(AdapterFailed, match="there is damage"):
                await events.read(after=after)
        assert [found.seq for found in await events.read(after=5)] == [6, 7, 8, 9, 10]
        assert (await anext(aiter(events.subscribe(after=8)))).seq == 9


async def test_a_line_that_swallowed_the_next_is_not_passed_over(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(10)])
        (name,) = segments(tmp_path)
        lines = (tmp_path / name).read_bytes().splitlines(keepends=True)
        lines[4] = b"?" * len(lines[4])
        (tmp_path / name).write_bytes(b"".join(lines))

        with pytest.raises(AdapterFailed, match="seq 7, and seq 6 was to come: a line is missing"):
            await events.read(after=5)


@pytest.mark.parametrize("strange", ["s" * 201, "\ud800", ""])
async def test_an_id_of_the_caller_that_no_event_can_carry_is_left_out(
    tmp_path: Path, clock: Clock, strange: str
) -> None:
    async with opened(tmp_path, clock) as events:
        with bound(session=strange, execution="e" * 200):
            await events.dispatch(event())
        (found,) = await events.read()

    assert (found.session_id, found.execution_id) == (None, "e" * 200)


async def test_a_rare_type_is_found_in_a_few_readings(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[_segments.Place] = []
    text_from = _segments.text_from
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(2000)])
        await events.dispatch(Event(type="test.rare", source="test"))

        def counted(folder: Path, place: _segments.Place, *more: int) -> bytes:
            readings.append(place)
            return text_from(folder, place, *more)

        monkeypatch.setattr(_segments, "text_from", counted)

        assert [found.seq for found in await events.read(limit=1, types=("test.rare",))] == [2001]

    assert len(readings) < 10


async def test_a_reader_whom_retention_overtakes_is_told_of_no_damage(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096) as events:
        for _ in range(4):
            await events.dispatch_many([event(number) for number in range(20)])
        first, second, *_ = segments(tmp_path)
        (tmp_path / first).unlink()
        text_from = _segments.text_from

        def read_then_removed(folder: Path, place: _segments.Place, *more: int) -> bytes:
            text = text_from(folder, place, *more)
            (folder / second).unlink(missing_ok=True)
            return text

        monkeypatch.setattr(_segments, "text_from", read_then_removed)
        assert [found.seq for found in await events.read(limit=20)] == list(range(21, 41))


async def test_a_subscription_beyond_the_end_is_refused(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        await events.dispatch_many([event(number) for number in range(5)])
        await events.ack("invoices", 5)
    for name in segments(tmp_path):
        (tmp_path / name).unlink()
    (tmp_path / "head").unlink()

    async with opened(tmp_path, clock) as events:
        await events.dispatch(event())
        with pytest.raises(AdapterFailed, match="'invoices' has come to seq 5, and the log ends with seq 1"):
            await anext(aiter(events.subscribe(name="invoices")))


async def test_retention_by_size_and_age_is_recorded_in_the_chain(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096, retain_bytes=20_000, retain_days=3) as events:
        for number in range(200):
            await events.dispatch(event(number))
        kept = await events.read(limit=10_000)
        assert kept[0].seq is not None
        assert kept[0].seq > 1
        assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 30_000
        cuts = [event for event in kept if event.type == "agentbox.log.cut"]
        assert cuts[-1].data["first_seq"] == kept[0].seq
        assert cuts[-1].data["prev_hash"] == kept[0].prev_hash
        assert {cut.data["reason"] for cut in cuts} == {"size"}
        verdict = await events.verify()
        assert (verdict.ok, verdict.first_seq) == (True, kept[0].seq)

        clock.now += timedelta(days=10)
        await events.dispatch(event())
        kept = await events.read(limit=10_000)
        assert {event.data["reason"] for event in kept if event.type == "agentbox.log.cut"} == {"age"}
        assert kept[-1].type == "test.said"
        verdict = await events.verify()
        assert (verdict.ok, verdict.first_seq) == (True, kept[0].seq)
    assert segments(tmp_path) == ["2026-11-28.0001.jsonl"]


async def test_a_beginning_that_no_cut_speaks_of_is_broken(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock, segment_bytes=4096) as events:
        for number in range(60):
            await events.dispatch(event(number))
    (tmp_path / segments(tmp_path)[0]).unlink()

    verdict = verified(tmp_path)
    assert not verdict.ok
    assert verdict.verified == 0
    assert verdict.place == f"{segments(tmp_path)[0]}:1"
    assert "no cut says so" in verdict.reason


async def test_nobody_else_may_speak_for_the_log(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, clock) as events:
        for said in (Event(type="agentbox.log.cut", source="x"), event(seq=1), event(hash="x"), event(prev_hash="x")):
            with pytest.raises(InvalidInput):
                await events.dispatch_many([event(), said])
        assert await events.read() == []


async def test_a_newer_format_is_refused(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "VERSION").write_text("2\n")

    with pytest.raises(AdapterUnavailable, match="knows up to 1"):
        async with opened(tmp_path, clock):
            pass


async def test_a_folder_that_is_replaced_is_begun_anew(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "events"
    async with opened(folder, clock) as events:
        await events.dispatch(event())
        shutil.move(folder, tmp_path / "moved")
        assert (await events.dispatch(event())).seq == 1
        assert len(await events.read()) == 1
        shutil.rmtree(folder)
        assert (await events.dispatch(event())).seq == 1
    assert verified(tmp_path / "moved").verified == 1


async def test_many_dispatches_share_few_syncs(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    sync = _files.sync

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(_files, "sync", counted)
    async with opened(tmp_path, clock) as events:
        receipts = await asyncio.gather(*(events.dispatch(event(number)) for number in range(500)))
    assert sorted(receipt.seq or 0 for receipt in receipts) == list(range(1, 501))
    assert len(syncs) < 50


async def test_the_head_is_believed_only_whole(tmp_path: Path) -> None:
    path = tmp_path / "head"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert _head.read_head(descriptor) is None
    head = _head.Head("2026-11-18.0001.jsonl", 7, 4000, 12, "a" * 64)
    _head.write_head(descriptor, head)
    assert _head.read_head(descriptor) == head
    os.pwrite(descriptor, b"9", 60)
    assert _head.read_head(descriptor) is None
    os.pwrite(descriptor, b"00000000".ljust(_head.SIZE), 0)  # the checksum of nothing
    assert _head.read_head(descriptor) is None
    os.close(descriptor)
