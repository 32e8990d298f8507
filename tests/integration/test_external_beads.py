"""Beads of a host whose answers get lost: what may be repeated is, and what may not is left to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbox.context import bound
from agentbox.testing import open_slot
from agentbox_contracts.beads import Bead
from agentbox_contracts.errors import AdapterUnavailable, NotFound
from agentbox_contracts.suites import faults
from tests.servers.host import Host, host


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


@pytest.fixture
async def proxy(served: Host) -> AsyncIterator[faults.Proxy]:
    async with asyncio.timeout(60), faults.Proxy("127.0.0.1", served.port) as proxy:
        yield proxy


@pytest.fixture
async def beads(served: Host, proxy: faults.Proxy, tmp_path: Path) -> AsyncIterator[Any]:
    """A client whose answers come through the proxy."""
    manifest = served.client("beads").replace(served.url, f"http://{proxy.address}")
    async with open_slot(manifest, "beads", folder=tmp_path / "near") as beads:
        yield beads


@pytest.fixture
async def other(served: Host, tmp_path: Path) -> AsyncIterator[Any]:
    """A client that always hears the host."""
    async with open_slot(served.client("beads"), "beads", folder=tmp_path / "far") as beads:
        yield beads


async def unheard(proxy: faults.Proxy, call: Callable[[], Awaitable[Bead]]) -> Bead:
    """What comes of *call* when its first answer is cut off."""
    await proxy.truncate(10)
    return await call()


@pytest.mark.parametrize("strange", ["a\nb", " a", "a\0b", "\x7f", "s" * 201, "\ud800"])
async def test_a_session_that_no_header_can_carry_fails_no_call(other: Any, strange: str) -> None:
    with bound(session=strange):
        assert (await other.create_epic(title="Ship it")).id


async def test_a_release_without_a_fence_does_not_take_the_bead_from_the_next_holder(
    beads: Any, other: Any, proxy: faults.Proxy
) -> None:
    epic = await beads.create_epic(title="Ship it")
    await beads.claim(epic.id, actor="ada")
    with pytest.raises(AdapterUnavailable):
        await unheard(proxy, lambda: beads.release(epic.id))
    assert (await other.claim(epic.id, actor="grace")).holder == "grace"
    assert (await beads.show(epic.id)).holder == "grace"


async def test_a_renewal_without_a_fence_is_not_repeated(beads: Any, proxy: faults.Proxy) -> None:
    epic = await beads.create_epic(title="Ship it")
    await beads.claim(epic.id, actor="ada")
    with pytest.raises(AdapterUnavailable):
        await unheard(proxy, lambda: beads.renew(epic.id, lease_seconds=60))
    assert (await beads.show(epic.id)).lease_expires_at is not None


async def test_with_a_fence_both_are_repeated(beads: Any, proxy: faults.Proxy) -> None:
    epic = await beads.create_epic(title="Ship it")
    held = await beads.claim(epic.id, actor="ada", lease_seconds=60)
    renewed = await unheard(proxy, lambda: beads.renew(epic.id, lease_seconds=90, fence=held.fence))
    released = await unheard(proxy, lambda: beads.release(epic.id, fence=held.fence))
    assert renewed.lease_expires_at > held.lease_expires_at
    assert (released.status, released.fence) == ("open", held.fence)
    assert proxy.connections == 3


async def test_what_creates_claims_and_closes_is_repeated(beads: Any, other: Any, proxy: faults.Proxy) -> None:
    epic = await unheard(proxy, lambda: beads.create_epic(title="Ship it"))
    child = await unheard(proxy, lambda: beads.create_child(parent_id=epic.id, title="part"))
    claimed = await unheard(proxy, lambda: beads.claim_ready(actor="ada", parent_id=epic.id))
    closed = await unheard(proxy, lambda: beads.close(child.id, actor="ada"))
    assert proxy.connections == 5
    assert (claimed.id, claimed.fence, closed.outcome) == (child.id, 1, "done")
    assert [bead.id for bead in (await other.children(epic.id)).items] == [child.id]


@pytest.mark.parametrize("name", [".", "..", "ready", "epics", "a/b", "%2E%2E"])
async def test_an_id_is_never_another_address(beads: Any, name: str) -> None:
    for call in (beads.show, beads.children, beads.close):
        with pytest.raises(NotFound) as caught:
            await call(name)
        assert (caught.value.resource, caught.value.id) == ("bead", name)
