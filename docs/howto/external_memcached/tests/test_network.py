"""What no server promises: that it is there, that it answers, and that it will speak so next year."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from time import monotonic
from typing import cast
from uuid import uuid4

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AdapterError, AdapterTimeout, AdapterUnavailable
from agentbox_contracts.suites import faults, recording

SOON = 3.0
CONVERSATION = Path(__file__).with_name("conversation.jsonl")
BEAD_ID = recording.Mask(rb"bd-[0-9a-z]{6}")

Open = Callable[[str, str], AbstractAsyncContextManager[Beads]]


@pytest.fixture
def open_beads(tmp_path: Path) -> Open:
    """Open the adapter on an address and a namespace."""

    def opened(address: str, namespace: str) -> AbstractAsyncContextManager[Beads]:
        manifest = f"""
            [adapters]
            beads = "external-memcached"
            [beads.external-memcached]
            address = "{address}"
            namespace = "{namespace}"
            deadline_seconds = 0.5
            """
        return cast("AbstractAsyncContextManager[Beads]", open_slot(manifest, "beads", folder=tmp_path))

    return opened


@pytest.fixture
async def proxy(server_port: int) -> AsyncIterator[faults.Proxy]:
    async with faults.Proxy("127.0.0.1", server_port) as proxy:
        yield proxy


@pytest.fixture
async def beads(proxy: faults.Proxy, open_beads: Open) -> AsyncIterator[Beads]:
    """The adapter, connected through the proxy."""
    async with open_beads(proxy.address, f"network-{uuid4()}") as beads:
        yield beads


async def fails(beads: Beads) -> AdapterError:
    """The error of a call that must fail soon."""
    began = monotonic()
    with pytest.raises((AdapterUnavailable, AdapterTimeout)) as caught:
        await beads.create_epic(title="Lost")
    assert monotonic() - began < SOON
    assert caught.value.retryable
    return caught.value


@pytest.mark.parametrize("harm", ["cut", "reset"])
async def test_a_connection_lost_between_two_calls_is_replaced(proxy: faults.Proxy, beads: Beads, harm: str) -> None:
    epic = await beads.create_epic(title="Ship it")
    await getattr(proxy, harm)()
    await beads.health()  # whoever comes first may find out the hard way

    assert await beads.show(epic.id) == epic
    assert proxy.connections == 2


@pytest.mark.parametrize(
    "script", ["down after 10: cut", "down after 0: reset", "up after 10: cut", "down after 0: hang"]
)
async def test_a_broken_answer_is_an_error_soon_and_the_next_call_is_well(
    proxy: faults.Proxy, beads: Beads, script: str
) -> None:
    await proxy.cut()
    proxy.follow(script)
    await fails(beads)
    await proxy.heal()

    assert (await beads.create_epic(title="Ship it")).title == "Ship it"


async def test_a_value_cut_in_its_middle_is_never_taken_for_whole(proxy: faults.Proxy, beads: Beads) -> None:
    epic = await beads.create_epic(title="Ship it")
    await proxy.truncate(100)
    await fails(beads)

    assert await beads.get_ready() == [epic]


async def test_a_server_that_hangs_is_a_timeout_and_its_late_answer_is_nobodys(
    proxy: faults.Proxy, beads: Beads
) -> None:
    epic = await beads.create_epic(title="Ship it")
    await proxy.hang("down")
    proxy.follow("down after 0: hang")
    assert isinstance(await fails(beads), AdapterTimeout)
    assert "no answer" in (await beads.health()).reason
    await proxy.heal()

    assert await beads.show(epic.id) == epic


async def test_a_server_that_is_away_is_unavailable_until_it_is_back(proxy: faults.Proxy, beads: Beads) -> None:
    await proxy.refuse()
    await proxy.cut()
    assert isinstance(await fails(beads), AdapterUnavailable)
    assert (await beads.health()).state == "degraded"
    await proxy.heal()

    assert (await beads.health()).state == "healthy"
    assert (await beads.create_epic(title="Ship it")).title == "Ship it"


async def a_days_work(beads: Beads) -> None:
    """What was recorded, and is asked again of the recording."""
    epic = await beads.create_epic(title="Ship it")
    task = await beads.create_child(parent_id=epic.id, title="Write it", tags=("urgent",))
    claimed = await beads.claim_ready(actor="ada", lease_seconds=60)
    assert claimed is not None
    assert claimed.id == task.id
    await beads.close(task.id, actor="ada", fence=claimed.fence)
    assert [bead.id for bead in await beads.get_ready()] == [epic.id]


async def test_what_is_said_can_be_recorded_anew(server_port: int, open_beads: Open, tmp_path: Path) -> None:
    path = tmp_path / "conversation.jsonl"  # copy it over the one beside this module when the protocol has to change
    async with (
        recording.Recorder("127.0.0.1", server_port, path, meta={"slot": "beads", "contract": "1.0.0"}) as recorder,
        open_beads(recorder.address, f"network-{uuid4()}") as beads,
    ):
        await a_days_work(beads)

    async with replayed(path) as replay, open_beads(replay.address, "replayed") as beads:
        await a_days_work(beads)


async def test_the_recorded_conversation_still_holds(open_beads: Open) -> None:
    async with replayed(CONVERSATION) as replay, open_beads(replay.address, "replayed") as beads:
        assert replay.meta["slot"] == "beads"
        await a_days_work(beads)


def replayed(path: Path) -> recording.Replay:
    return recording.Replay(path, masks=(rb"agentbox:beads:(\S+)", BEAD_ID, recording.UUID, recording.TIMESTAMP))
