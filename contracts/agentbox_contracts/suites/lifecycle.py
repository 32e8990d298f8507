"""What every adapter promises besides its port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentbox_contracts import contract_of
from agentbox_contracts.errors import AgentboxError, InvalidInput

OpenAdapter = Callable[[str], AbstractAsyncContextManager[Any]]


class LifecycleSuite:
    """Connect, disconnect, health, and honest words about itself."""

    slot: ClassVar[str]

    @pytest.fixture
    def manifest(self) -> str:
        """Manifest text that chooses the adapter under test. Every author overrides this one fixture."""
        raise AssertionError(f"{type(self).__name__} needs a fixture `manifest` that returns manifest text")

    @pytest_asyncio.fixture
    async def adapter(self, open_adapter: OpenAdapter, manifest: str) -> AsyncIterator[Any]:
        """The adapter, connected."""
        async with open_adapter(manifest) as adapter:
            yield adapter

    async def test_a_connected_adapter_is_healthy(self, adapter: Any) -> None:
        health = await adapter.health()

        assert (health.state, health.reason) == ("healthy", "")

    async def test_it_speaks_a_version_of_the_contract_and_says_what_it_can_do(self, adapter: Any) -> None:
        assert adapter.contract_version.split(".")[0] == contract_of(self.slot).version.split(".")[0]
        assert adapter.durability in ("none", "memory", "os", "fsync", "spooled", "quorum")
        assert all(isinstance(name, str) for name in adapter.capabilities)
        assert adapter.enabled

    async def test_disconnecting_twice_is_fine(self, adapter: Any) -> None:
        await adapter.disconnect()
        await adapter.disconnect()

    async def test_a_call_after_disconnect_is_a_typed_error(self, adapter: Any) -> None:
        await adapter.disconnect()

        with pytest.raises(AgentboxError):
            await self.any_read(adapter)

    async def test_it_can_be_opened_again(self, open_adapter: OpenAdapter, manifest: str) -> None:
        for _ in range(3):
            async with open_adapter(manifest) as adapter:
                assert (await adapter.health()).state == "healthy"

    async def test_two_can_be_open_at_once(self, open_adapter: OpenAdapter, manifest: str) -> None:
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            await one.health()
            assert (await other.health()).state == "healthy"

    async def test_an_unknown_argument_is_refused(self, adapter: Any) -> None:
        for name, method in contract_of(self.slot).methods.items():
            if not method.stream:
                with pytest.raises(InvalidInput):
                    await getattr(adapter, name)(nonsense=1)

    async def any_read(self, adapter: Any) -> Any:
        """A call of the port that reads."""
        raise AssertionError
