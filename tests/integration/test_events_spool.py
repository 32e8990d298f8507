"""Events on their way to a host that is killed, down, full, or of another mind: none is lost, doubled or moved."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters import _http
from agentbox.adapters.events._spool import Spool
from agentbox.adapters.events.external import ExternalEvents, ExternalEventsSettings
from agentbox.context import bound
from agentbox.testing import open_slot
from agentbox_contracts.contract import Secret
from agentbox_contracts.errors import AdapterUnavailable, ContractMismatch
from agentbox_contracts.events import Event
from agentbox_contracts.suites import faults
from agentbox_contracts.suites._events_processes import killed_writers
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess
from tests.servers.endpoint import endpoint
from tests.servers.host import Host, host

LOCAL = '[adapters]\nevents = "local-jsonl"\n'
PATIENCE = 20.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    with host(tmp_path / "host", LOCAL) as found:
        yield found


def events(count: int, *, first: int = 0, data: Any = None) -> list[Event]:
    return [Event(type="t", source="spool", id=str(number), data=data) for number in range(first, first + count)]


async def until(what: Callable[[], Any]) -> Any:
    """What *what* gives, once that is something."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await what()):
            await asyncio.sleep(0.01)
    return found


async def arrived(adapter: Any, count: int) -> list[Event]:
    """The events of these tests in the host's log, once there are *count* of them; the host tells of itself too."""

    async def look() -> list[Event]:
        found: list[Event] = await adapter.read(limit=10_000, types=("t",))
        return found if len(found) >= count else []

    found: list[Event] = await until(look)
    return found


@asynccontextmanager
async def opened(served: Host, folder: Path, **settings: Any) -> AsyncIterator[ExternalEvents]:
    """The adapter itself, with what a manifest cannot give."""
    given = {name: settings.pop(name) for name in ("clock", "pauses") if name in settings}
    token = Secret("host", lambda: served.token)
    config = ExternalEventsSettings(url=served.url, token=token, spool=folder / "spool", **settings)
    adapter = ExternalEvents(slot="events", impl="external", config=config, logger=logging.getLogger("test"), **given)
    try:
        await adapter.connect()
        yield adapter
    finally:
        await adapter.disconnect()


async def test_a_stream_that_falls_silent_is_asked_for_anew(
    served: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http, "SILENCE_SECONDS", 0.3)
    async with faults.Proxy("127.0.0.1", served.port) as proxy, opened(served, tmp_path) as direct:
        manifest = served.client("events", port=proxy.port)
        async with open_slot(manifest, "events", folder=tmp_path / "far") as far:
            await direct.dispatch_many(events(1))
            async with asyncio.timeout(PATIENCE), aclosing(far.subscribe(types=("t",))) as stream:
                assert (await anext(stream)).id == "0"
                await proxy.hang("down")  # what is open stays open and says no more; what comes later is well
                await direct.dispatch_many(events(1, first=1))
                assert (await anext(stream)).id == "1"


async def test_a_host_that_is_killed_again_and_again_gets_every_event_once_and_in_order(
    served: Host, tmp_path: Path
) -> None:
    told = events(300)
    async with open_slot(served.client("events"), "events", folder=tmp_path / "near") as adapter:
        for number, event in enumerate(told):
            await adapter.dispatch(event)
            if number % 100 == 50:
                await asyncio.to_thread(served.kill)
                served.start()
        found = await arrived(adapter, 300)

    assert [event.id for event in found] == [event.id for event in told]


async def test_a_host_that_is_down_for_an_hour_misses_nothing(served: Host, tmp_path: Path) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def pauses(failures: int) -> float:
        """What an hour of pauses would be, in no time."""
        nonlocal now
        now += timedelta(seconds=20)
        return 0.0

    began = now
    async with opened(served, tmp_path, clock=lambda: now, pauses=pauses) as adapter:
        await adapter.dispatch(events(1)[0])
        await arrived(adapter, 1)
        await asyncio.to_thread(served.kill)
        for number in range(1, 100):
            await adapter.dispatch(events(1, first=number)[0])
        async with asyncio.timeout(PATIENCE):
            while now - began < timedelta(hours=1):
                await asyncio.sleep(0.01)
        health = await adapter.health()
        served.start()
        found = await arrived(adapter, 100)

    assert health.state == "degraded"
    assert "99 events wait in the spool" in health.reason
    assert [event.id for event in found] == [str(number) for number in range(100)]


async def test_the_hosts_limits_are_told_beside_the_spools(served: Host, tmp_path: Path) -> None:
    async with opened(served, tmp_path, spool_bytes=1 << 20) as adapter:
        assert adapter.limits == {"dedupe_window": 100_000, "spool_bytes": 1 << 20}


async def test_an_app_opens_without_its_host_and_says_so(served: Host, tmp_path: Path) -> None:
    manifest = served.client("events")
    await asyncio.to_thread(served.kill)
    async with open_slot(manifest, "events", folder=tmp_path / "near") as adapter:
        receipt = await adapter.dispatch(events(1)[0])
        health = await adapter.health()
        with pytest.raises(AdapterUnavailable, match="cannot be reached"):
            async with asyncio.timeout(PATIENCE):
                await adapter.read()
        served.start()
        await arrived(adapter, 1)

    assert (receipt.durability, receipt.seq, receipt.hash) == ("spooled", None, None)
    assert (health.state, "1 events wait" in health.reason) == ("degraded", True)


async def test_a_full_spool_says_how_full_it_is_and_has_room_again_later(served: Host, tmp_path: Path) -> None:
    await asyncio.to_thread(served.kill)
    kept: list[Event] = []
    async with opened(served, tmp_path, spool_bytes=20_000) as adapter:
        with pytest.raises(AdapterUnavailable, match=r"is full: [\d,]+ of 20,000 bytes wait .* [\d,]+ events"):
            await _fill(adapter, kept)
        with pytest.raises(AdapterUnavailable):
            await adapter.dispatch_many(events(20, first=2000, data="x" * 500))
        served.start()
        assert [event.id for event in await arrived(adapter, len(kept))] == [event.id for event in kept]
        await adapter.dispatch_many(events(20, first=2000, data="x" * 500))
        assert len(await arrived(adapter, len(kept) + 20)) == len(kept) + 20


async def _fill(adapter: Any, kept: list[Event]) -> None:
    for event in events(1000, data="x" * 500):
        await adapter.dispatch(event)
        kept.append(event)


async def test_what_was_sent_leaves_the_disk(served: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbox.adapters.events._spool.SEGMENT_BYTES", 4096)
    async with opened(served, tmp_path) as adapter:
        for event in events(50, data="x" * 500):
            await adapter.dispatch(event)
        await arrived(adapter, 50)

    assert len(list((tmp_path / "spool").glob("*.jsonl"))) <= 2


async def test_a_spool_that_lost_its_files_sends_what_comes_now(
    served: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(served, tmp_path) as adapter:
        await adapter.dispatch_many(events(5))
        await arrived(adapter, 5)
    for path in (tmp_path / "spool").glob("*.jsonl"):
        path.unlink()

    async with opened(served, tmp_path) as adapter:
        await adapter.dispatch_many(events(3, first=5))
        assert [event.id for event in await arrived(adapter, 8)] == [str(number) for number in range(8)]

    assert any("goes on behind seq 0" in str(record.__dict__.get("reason")) for record in caplog.records)


async def test_an_event_that_the_host_refuses_stands_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    with host(tmp_path / "host", f"{LOCAL}[host]\nbody_bytes = 8192\n") as served:
        told = events(60)
        told[30:30] = [Event(type="t", source="spool", id="poison", data="x" * 10_000)]
        async with opened(served, tmp_path) as adapter:
            await adapter.dispatch_many(told)
            found = await arrived(adapter, 60)
            health = await until(lambda: _degraded(adapter))

    assert [event.id for event in found] == [event.id for event in told if event.id != "poison"]
    (line,) = (tmp_path / "spool" / "refused.jsonl").read_text().splitlines()
    assert json.loads(line)["event"]["id"] == "poison"
    assert "bytes" in json.loads(line)["refused"]
    assert "1 events were refused" in health.reason


@pytest.mark.parametrize("damage", [b"?", b'{"seq":3,\xff'], ids=["no event at all", "not JSON"])
async def test_a_damaged_event_stands_in_nobodys_way(served: Host, tmp_path: Path, damage: bytes) -> None:
    await asyncio.to_thread(served.kill)
    async with opened(served, tmp_path) as adapter:
        await adapter.dispatch_many(events(5))
    (segment,) = (tmp_path / "spool").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[2] = damage + b"?" * (len(lines[2]) - len(damage) - 1) + b"\n"
    segment.write_bytes(b"".join(lines))

    served.start()
    async with opened(served, tmp_path) as adapter:
        assert [event.id for event in await arrived(adapter, 4)] == ["0", "1", "3", "4"]
    (line,) = (tmp_path / "spool" / "refused.jsonl").read_text().splitlines()
    assert "not JSON" in json.loads(line)["refused"]


async def _degraded(adapter: Any) -> Any:
    health = await adapter.health()
    return health if health.state == "degraded" else None


async def test_a_wrong_token_sets_nothing_aside(served: Host, tmp_path: Path) -> None:
    wrong = True
    token = Secret("test", lambda: "wrong" if wrong else served.token)
    config = ExternalEventsSettings(url=served.url, token=token, spool=tmp_path / "spool")
    adapter = ExternalEvents(slot="events", impl="external", config=config, logger=logging.getLogger("test"))
    wrong = False
    await adapter.connect()
    try:
        wrong = True
        await adapter.dispatch(events(1)[0])
        health = await until(lambda: _degraded(adapter))
        wrong = False
        await arrived(adapter, 1)
    finally:
        await adapter.disconnect()

    assert "token" in health.reason
    assert not (tmp_path / "spool" / "refused.jsonl").exists()


async def test_a_sender_outlives_a_spool_that_cannot_be_read_for_a_while(
    served: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(served, tmp_path) as adapter:
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "next", _broken)
            await adapter.dispatch(events(1)[0])
            health = await until(lambda: _degraded(adapter))
        await arrived(adapter, 1)

    assert "Input/output error" in health.reason


def _broken(self: Spool, most: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


async def test_the_sender_belongs_to_no_session(served: Host, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with bound(session="of the opener", execution="of the opener"):
            adapter = await stack.enter_async_context(opened(served, tmp_path))
            await adapter.dispatch(Event(type="t", source="s", id="the opener's"))
        await adapter.dispatch(Event(type="t", source="s", id="nobody's"))
        found = await arrived(adapter, 2)

    assert [event.session_id for event in found] == ["of the opener", None]


async def test_another_contract_that_is_met_later_ends_the_sending(tmp_path: Path) -> None:
    with endpoint() as server:
        server.answers = [(503, "")]
        config = ExternalEventsSettings(url=server.url, spool=tmp_path / "spool", retry_seconds=0)
        adapter = ExternalEvents(slot="events", impl="external", config=config, logger=logging.getLogger("test"))
        await adapter.connect()
        try:
            slot = {"impl": "local-jsonl", "reason": "", "contract": "9.0.0", "capabilities": [], "durability": "fsync"}
            server.answers = [(200, json.dumps({"slots": {"events": slot}}))]
            await adapter.dispatch(events(1)[0])
            health = await until(lambda: _degraded_for_ever(adapter))
            with pytest.raises(ContractMismatch, match=r"9\.0\.0"):
                await adapter.dispatch(events(1)[0])
        finally:
            await adapter.disconnect()

    assert "1 events wait" in health.reason


async def _degraded_for_ever(adapter: Any) -> Any:
    health = await adapter.health()
    return health if "9.0.0" in health.reason else None


class TestKilled:
    """Processes that share a spool, and die."""

    slot = "events"
    known_bad = None

    @pytest.fixture
    def manifest(self, served: Host) -> str:
        return served.client("events")

    async def test_another_process_sends_what_a_killed_one_left(
        self, served: Host, manifest: str, open_adapter: OpenAdapter, open_process: OpenProcess
    ) -> None:
        async with open_process(manifest) as there:
            await asyncio.to_thread(served.kill)
            await there.dispatch_many(events(20))
            await there.kill()
        async with open_adapter(manifest) as here:
            await here.dispatch_many(events(5, first=20))
            served.start()
            found = await arrived(here, 25)

        assert [event.id for event in found] == [str(number) for number in range(25)]

    @pytest.mark.soak
    @pytest.mark.timeout(1800)
    async def test_a_hundred_kills_of_writers_and_hosts(
        self, served: Host, manifest: str, open_adapter: OpenAdapter, open_process: OpenProcess
    ) -> None:
        came: Counter[str] = Counter()
        async with open_adapter(manifest) as here:
            for seed in range(100):
                chance = random.Random(seed)
                if seed % 5 == 4:
                    await asyncio.to_thread(served.kill)
                    served.start()
                killed, _, _ = await killed_writers(here, open_process, manifest, chance)
                assert killed.is_sound, (seed, killed)
                came["acknowledged"] += len(killed.acknowledged)
                came["there"] += len(killed.counts)
            verdict = await here.verify()
        print(f"\n{dict(came)}, {verdict}")
        assert verdict.ok
