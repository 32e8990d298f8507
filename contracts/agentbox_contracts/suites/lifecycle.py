"""The promises that every adapter of every slot makes."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
import pytest_asyncio

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Durability
from agentbox_contracts.errors import AdapterUnavailable, AgentboxError
from agentbox_contracts.suites.clauses import Exemption, clause
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

__all__ = ["LifecycleSuite", "Suite", "given_back", "held"]

SETTLE_SECONDS = 2.0


class Suite:
    """What every suite has: the adapter that its author names, and ways to open it."""

    slot: ClassVar[str]
    exemptions: ClassVar[tuple[Exemption, ...]] = ()
    known_bad: ClassVar[str | None] = None

    @pytest.fixture
    def manifest(self) -> str:
        """Manifest text that chooses the adapter under test. Every author overrides this one fixture."""
        raise AssertionError(f"{type(self).__name__} needs a fixture `manifest` that returns manifest text")

    @pytest_asyncio.fixture
    async def adapter(self, open_adapter: OpenAdapter, manifest: str) -> AsyncIterator[Any]:
        """The adapter, connected."""
        async with open_adapter(manifest) as adapter:
            yield adapter


class LifecycleSuite(Suite):
    """Connect, disconnect, health, and honest words about itself."""

    async def any_read(self, adapter: Any) -> Any:
        """A call of the port that needs the store. Each slot's suite says which."""
        raise NotImplementedError

    @clause("lifecycle.health.connected")
    async def test_a_connected_adapter_is_healthy(self, adapter: Any) -> None:
        """A connected adapter is healthy. What it should be known for, though it is well, it may say as the reason."""
        assert (await adapter.health()).state == "healthy"

    @clause("lifecycle.health.disconnected")
    async def test_a_disconnected_adapter_is_not_healthy(self, adapter: Any) -> None:
        """Health is a real look: an adapter that was disconnected is not healthy, and says why."""
        await adapter.disconnect()
        health = await adapter.health()

        assert health.state != "healthy"
        assert health.reason

    @clause("lifecycle.words.capabilities")
    async def test_it_declares_what_the_contract_knows(self, adapter: Any) -> None:
        """It declares only capabilities that the contract knows."""
        assert adapter.capabilities <= contract_of(self.slot).capabilities

    @clause("lifecycle.words.durability")
    async def test_it_says_how_durable_it_is(self, adapter: Any) -> None:
        """It says in a word of the contract how durable its writes are."""
        assert adapter.durability in get_args(Durability)

    @clause("lifecycle.words.enabled")
    async def test_it_is_enabled(self, adapter: Any) -> None:
        """It is enabled: only a slot that is off is not."""
        assert adapter.enabled is True

    @clause("lifecycle.disconnect.twice")
    async def test_disconnecting_twice_is_fine(self, adapter: Any) -> None:
        """Disconnecting a second time does nothing."""
        await adapter.disconnect()
        try:
            await adapter.disconnect()
        except Exception as error:
            pytest.fail(f"the second disconnect raised {error!r}")

    @clause("lifecycle.disconnect.refuses")
    async def test_a_call_after_disconnect_is_refused(self, adapter: Any) -> None:
        """A call after disconnect is refused with AdapterUnavailable, and soon."""
        await adapter.disconnect()

        assert isinstance(await _heard(self.any_read(adapter)), AdapterUnavailable)

    @clause("lifecycle.open.again")
    async def test_it_can_be_opened_again(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """What was closed can be opened again."""
        for number in range(3):
            try:
                async with open_adapter(manifest) as adapter:
                    assert (await adapter.health()).state == "healthy"
            except AgentboxError as error:
                pytest.fail(f"it could not be opened for the {number + 1}. time: {error.message}")

    @clause("lifecycle.open.together")
    async def test_two_can_be_open_at_once(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """Two adapters can have the same store open, and closing one leaves the other healthy."""
        async with open_adapter(manifest) as one:
            try:
                async with open_adapter(manifest) as other:
                    assert (await other.health()).state == "healthy"
            except AgentboxError as error:
                pytest.fail(f"it could not be opened while another had it open: {error.message}")
            assert (await one.health()).state == "healthy"

    @clause("lifecycle.open.processes")
    async def test_two_processes_can_have_it_open(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Two processes can have the same store open."""
        async with open_adapter(manifest) as here:
            try:
                async with open_process(manifest):
                    assert (await here.health()).state == "healthy"
            except AgentboxError as error:
                pytest.fail(f"the second process could not open it: {error.message}")

    @clause("lifecycle.close.leaves-nothing")
    async def test_closing_leaves_nothing_behind(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """What opening took, closing gives back: descriptors, threads and tasks."""
        async with open_adapter(manifest):
            pass
        before = held()
        for _ in range(5):
            async with open_adapter(manifest):
                pass

        assert await given_back(before) == before


async def _heard(call: Awaitable[Any]) -> Any:
    """What *call* returned or raised within two seconds."""
    try:
        return await asyncio.wait_for(call, 2)
    except (AgentboxError, TimeoutError) as error:
        return error


def held() -> tuple[int, int, int]:
    """How many descriptors, threads and tasks this process has."""
    gc.collect()
    own = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]  # the loop keeps those
    return sum(1 for _ in Path("/proc/self/fd").iterdir()), len(own), len(asyncio.all_tasks())


async def given_back(before: tuple[int, int, int]) -> tuple[int, ...]:
    """What is held once nothing is given back any more, at most as much as *before*, or for SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        if all(now <= then for now, then in zip(held(), before, strict=True)):
            break
        await asyncio.sleep(0.02)
    return tuple(max(now, then) for now, then in zip(held(), before, strict=True))
