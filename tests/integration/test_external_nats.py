"""What is peculiar to events in NATS: streams that will not do, servers that go away, and peers that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

import agentbox
from agentbox.adapters.events import _nats_link
from agentbox.adapters.events._nats_stream import subject_of
from agentbox.testing import open_slot
from agentbox_contracts.errors import (
    AdapterDisabled,
    AdapterFailed,
    AdapterTimeout,
    AdapterUnavailable,
    InvalidInput,
)
from agentbox_contracts.events import Event
from agentbox_contracts.suites import faults
from tests.servers.nats import Server, nats_fixture  # noqa: F401 - used by its name, nats_server


@pytest.fixture
def own() -> Iterator[Server]:
    """A server that a test may kill."""
    server = Server()
    yield server
    server.remove()


@asynccontextmanager
async def raw(server: Server) -> AsyncIterator[Any]:
    client = await nats.connect(server.url)
    try:
        yield client.jetstream()
    finally:
        await client.close()


def event(number: int, **fields: Any) -> Event:
    return Event(type="suite.told", source="suite", id=f"event {number}", data=number, **fields)


class TestStream:
    async def test_one_that_will_not_do_is_refused_by_every_difference(
        self, nats_server: Server, tmp_path: Path
    ) -> None:
        async with raw(nats_server) as js:
            await js.add_stream(name="OTHER", subjects=["other.>"], storage="memory")
        manifest = nats_server.manifest(stream="OTHER", subject="suite.other")
        with pytest.raises(AdapterUnavailable, match="OTHER will not do") as failure:
            async with open_slot(manifest, "events", folder=tmp_path):
                pass
        for name in ("subjects", "storage", "allow_atomic"):
            assert f"{name} is" in failure.value.message

    async def test_what_the_manifest_says_is_compared_and_what_it_does_not_is_left_alone(
        self, nats_server: Server, tmp_path: Path
    ) -> None:
        settings: dict[str, Any] = {"stream": "AGED", "subject": "aged"}
        async with open_slot(nats_server.manifest(**settings, max_age_seconds=3600), "events", folder=tmp_path):
            pass
        async with open_slot(nats_server.manifest(**settings), "events", folder=tmp_path):
            pass
        with pytest.raises(AdapterUnavailable, match="max_age is 3600000000000 and should be 60000000000"):
            async with open_slot(nats_server.manifest(**settings, max_age_seconds=60), "events", folder=tmp_path):
                pass

    async def test_a_subject_taken_by_another_stream_is_an_error(self, nats_server: Server, tmp_path: Path) -> None:
        async with open_slot(nats_server.manifest(stream="FIRST", subject="same"), "events", folder=tmp_path):
            pass
        with pytest.raises(AdapterUnavailable, match="SECOND cannot be had: subjects overlap"):
            async with open_slot(nats_server.manifest(stream="SECOND", subject="same"), "events", folder=tmp_path):
                pass

    async def test_a_message_that_is_no_event_is_passed_over(self, nats_server: Server, tmp_path: Path) -> None:
        manifest = nats_server.manifest(stream="MIXED", subject="mixed")
        async with raw(nats_server) as js, open_slot(manifest, "events", folder=tmp_path) as events:
            await events.dispatch(event(1))
            for stranger in (b"", b"hello", b"[1]", b'{"specversion":"1.0"}', b"\xff"):
                await js.publish("mixed.stranger", stranger)
            await events.dispatch(event(2))
            assert [found.data for found in await events.read()] == [1, 2]

    def test_no_two_types_share_a_subject(self) -> None:
        types = (
            "a",
            "a.b",
            "a..b",
            "a.",
            ".a",
            ".",
            "..",
            "*",
            ">",
            "a b",
            "%",
            "%25",
            "a%2Eb",
            "ü",
            "A",
            "a/b",
            "a\tb",
        )
        subjects = {subject_of("p", kind) for kind in types}
        assert len(subjects) == len(types)
        assert all(word and not set(word) & set(" *>\t") for each in subjects for word in each.split("."))


class TestPromises:
    @pytest.mark.parametrize(("sync", "durability"), [("interval", "os"), ("always", "fsync")])
    async def test_meta_tells_the_durability_and_how_to_get_more(
        self, nats_server: Server, tmp_path: Path, sync: str, durability: str
    ) -> None:
        path = tmp_path / "agentbox.toml"
        path.write_text(nats_server.manifest(server_sync=sync))
        async with agentbox.open_app(path) as app:
            meta = app.meta()["slots"]["events"]
            receipt = await app.adapters.events.dispatch(event(1))
        assert (meta["durability"], receipt.durability) == (durability, durability)
        assert ("sync_interval: always" in meta["advice"]) == (durability == "os")

    async def test_there_is_no_chain(self, nats_server: Server, tmp_path: Path) -> None:
        async with open_slot(nats_server.manifest(), "events", folder=tmp_path) as events:
            receipt = await events.dispatch(event(1))
            assert receipt.hash is None
            with pytest.raises(AdapterDisabled, match="no hash chain"):
                await events.verify()

    async def test_a_batch_longer_than_the_server_takes_leaves_nothing(
        self, nats_server: Server, tmp_path: Path
    ) -> None:
        async with open_slot(nats_server.manifest(), "events", folder=tmp_path) as events:
            with pytest.raises(InvalidInput, match=r"^1,001 events: .* at most 1,000 events together or not at all"):
                await events.dispatch_many([event(number) for number in range(1001)])
            assert await events.read() == []
            assert len(await events.dispatch_many([event(number) for number in range(1000)])) == 1000

    async def test_meta_tells_how_many_one_batch_may_have(self, nats_server: Server, tmp_path: Path) -> None:
        path = tmp_path / "agentbox.toml"
        path.write_text(nats_server.manifest())
        async with agentbox.open_app(path) as app:
            assert app.meta()["slots"]["events"]["limits"] == {"dispatch_many": 1000, "dedupe_window_seconds": 3600}

    async def test_an_event_longer_than_the_server_takes_is_refused(self, tmp_path: Path) -> None:
        server = Server(more="max_payload: 4KB")
        try:
            async with open_slot(server.manifest(), "events", folder=tmp_path) as events:
                with pytest.raises(InvalidInput, match="at most 3,584 bytes"):
                    await events.dispatch(Event(type="suite.long", source="suite", data="x" * 4096))
                assert (await events.dispatch(event(1))).seq == 1
        finally:
            server.remove()

    async def test_an_event_longer_than_the_stream_takes_is_refused_for_good(
        self, nats_server: Server, tmp_path: Path
    ) -> None:
        settings: dict[str, Any] = {"stream": "SHORT", "subject": "short", "retry_seconds": 1}
        manifest, long = nats_server.manifest(**settings), Event(type="suite.long", source="suite", data="x" * 4096)
        async with raw(nats_server) as js, open_slot(manifest, "events", folder=tmp_path) as events:
            config = (await js.stream_info("SHORT")).config
            await js.update_stream(config.evolve(max_msg_size=4096))
            with pytest.raises(InvalidInput, match="message size exceeds maximum allowed"):
                await events.dispatch(long)
            async with open_slot(manifest, "events", folder=tmp_path) as later:
                for call in (later.dispatch(long), later.dispatch_many([event(1), long])):
                    with pytest.raises(InvalidInput, match="at most 3,584 bytes; the stream's max_msg_size could be"):
                        await call
                assert len(await later.dispatch_many([event(1), event(2)])) == 2


class TestRestarts:
    async def test_what_is_published_through_restarts_is_there_once(self, own: Server, tmp_path: Path) -> None:
        await check_restarts(own, tmp_path, count=2_000, restarts=3)

    @pytest.mark.soak
    async def test_fifty_thousand_through_five_restarts(self, own: Server, tmp_path: Path) -> None:
        await check_restarts(own, tmp_path, count=50_000, restarts=5)

    async def test_a_batch_whose_answer_was_lost_is_there_once(self, own: Server, tmp_path: Path) -> None:
        async with faults.Proxy(own.host, own.port) as proxy:
            manifest = own.manifest(url=f"nats://127.0.0.1:{proxy.port}", retry_seconds=20)
            async with open_slot(manifest, "events", folder=tmp_path) as events:
                await events.dispatch(event(0))
                await proxy.hang("down")
                sending = asyncio.ensure_future(events.dispatch_many([event(number) for number in range(1, 51)]))
                async with raw(own) as js:
                    stream = manifest.split('stream = "')[1].split('"')[0]
                    while (await js.stream_info(stream)).state.messages < 51:
                        await asyncio.sleep(0.01)
                await proxy.heal()
                receipts = await sending
                found = await events.read()
        assert [receipt.seq for receipt in receipts] == list(range(2, 52))
        assert [each.data for each in found] == list(range(51))

    async def test_without_a_server_calls_end_in_time_and_health_says_so(self, own: Server, tmp_path: Path) -> None:
        async with open_slot(own.manifest(retry_seconds=0.5), "events", folder=tmp_path) as events:
            await events.dispatch(event(1))
            own.kill()
            for call in (events.dispatch(event(2)), events.dispatch_many([event(3), event(4)]), events.read()):
                with pytest.raises(AdapterUnavailable):
                    await call
            assert (await events.health()).state == "degraded"
            own.start()
            async with asyncio.timeout(20):
                while (await events.health()).state != "healthy":
                    await asyncio.sleep(0.05)
            assert [each.data for each in await events.read()] == [1]


async def check_restarts(server: Server, folder: Path, *, count: int, restarts: int) -> None:
    """Publish *count* events from 64 callers while the server is killed and started again, and follow them."""
    async with open_slot(server.manifest(retry_seconds=25), "events", folder=folder) as events:
        numbers = iter(range(count))
        acknowledged: dict[int, int] = {}

        async def publish() -> None:
            for number in numbers:
                acknowledged[number] = (await events.dispatch(event(number))).seq

        async def restart() -> None:
            for turn in range(1, restarts + 1):
                while len(acknowledged) < turn * count // (restarts + 1):
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)

        async def follow() -> list[int]:
            seqs: list[int] = []
            async for each in events.subscribe():
                seqs.append(each.seq)
                if len(seqs) == count:
                    return seqs
            raise AssertionError("the subscription ended")

        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow())
            tasks.create_task(restart())
            for _ in range(64):
                tasks.create_task(publish())
        found: list[Event] = []
        while page := await events.read(after=found[-1].seq if found else 0, limit=10_000):
            found += page
    assert sorted(each.data for each in found) == list(range(count))
    assert {each.data: each.seq for each in found} == acknowledged
    assert following.result() == [each.seq for each in found]


class TestPeers:
    @pytest.mark.parametrize("harm", [faults.hang(), faults.nonsense(200), faults.cut(), faults.reset()], ids=str)
    async def test_a_peer_that_does_harm_is_a_typed_error(
        self, nats_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: faults.Harm
    ) -> None:
        monkeypatch.setattr(_nats_link, "ANSWER_SECONDS", 0.5)
        async with faults.Proxy(nats_server.host, nats_server.port) as proxy:
            manifest = nats_server.manifest(url=f"nats://127.0.0.1:{proxy.port}", retry_seconds=0.5)
            async with open_slot(manifest, "events", folder=tmp_path) as events:
                await events.dispatch(event(1))
                proxy.follow([faults.After(bytes=0, direction="down", do=harm)])
                await proxy.cut()
                for call in (events.dispatch(event(2)), events.dispatch_many([event(3)] * 2), events.read()):
                    with pytest.raises((AdapterUnavailable, AdapterTimeout, AdapterFailed)):
                        await call

    @pytest.mark.parametrize("harm", [faults.hang(), faults.nonsense(200), faults.cut(), faults.reset()], ids=str)
    async def test_a_peer_that_does_harm_from_the_start_is_no_connection(
        self, nats_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: faults.Harm
    ) -> None:
        monkeypatch.setattr(_nats_link, "ANSWER_SECONDS", 0.5)
        async with faults.Proxy(nats_server.host, nats_server.port) as proxy:
            proxy.follow([faults.After(bytes=0, direction="down", do=harm)])
            manifest = nats_server.manifest(url=f"nats://127.0.0.1:{proxy.port}", retry_seconds=0.5)
            with pytest.raises(AdapterUnavailable, match="did not connect"):
                async with open_slot(manifest, "events", folder=tmp_path):
                    pass
