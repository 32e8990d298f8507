"""What every `external` adapter shares: a host behind it, a handshake, and a look at the host's own health."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, TypeVar, cast
from uuid import uuid4

import msgspec

from agentbox.adapters._http import Client, HttpSettings
from agentbox_contracts.contract import BaseAdapter, Contract, Durability, Health, Settings
from agentbox_contracts.errors import AdapterDisabled, AdapterFailed, AdapterUnavailable, AgentboxError
from agentbox_contracts.wire import decode

__all__ = ["ExternalAdapter"]

T = TypeVar("T")


class _Slot(msgspec.Struct):
    """What a host says of a slot of its own."""

    impl: str
    contract: str
    capabilities: list[str]
    durability: str
    reason: str | None = None


class ExternalAdapter(BaseAdapter):
    """A slot of a host. Version, capabilities and durability are those of what stands behind the host."""

    settings_class: ClassVar[type[Settings]] = HttpSettings
    contract: ClassVar[Contract]
    config: Any

    def __init__(self, *, slot: str, impl: str, config: Settings, logger: logging.Logger) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._host = self.client()

    def client(self) -> Any:
        """The other side."""
        return Client(self.contract, self.config)

    @property
    def location(self) -> str:
        """The host's address."""
        return str(self._host.url)

    async def connect(self) -> None:
        """Open the pool and ask the host what it has."""
        found = self._told(await self._host.open())
        if found.impl == "off":
            raise AdapterUnavailable(f"{self.slot} is off at the host {self.location}: {found.reason or 'by choice'}")
        self.contract_version = found.contract
        self.capabilities = self.contract.capabilities.intersection(found.capabilities)
        self.durability = cast("Durability", found.durability)

    def _told(self, found: Any) -> _Slot:
        try:
            return msgspec.convert(found, _Slot)
        except msgspec.ValidationError as error:
            told = f"{self.location} answered, and not as an agentbox host does: {error}"
            raise AdapterFailed(told) from error

    async def disconnect(self) -> None:
        """Close the pool."""
        await self._host.close()

    async def health(self) -> Health:
        """What the host says of the slot."""
        try:
            report = decode(await self._host.health(), dict[str, Any])
            probe = next(probe for probe in report["slots"] if probe["slot"] == self.slot)
        except AgentboxError as error:
            return Health("degraded", error.message)
        except (KeyError, TypeError, StopIteration):
            return Health("degraded", f"{self._host.url} does not tell its health as an agentbox host does")
        return Health(probe["state"], probe["reason"])

    def keyed(self, key: str | None) -> str | None:
        """*key*, or one made for this call, so that it can be repeated and is still one write."""
        if key is not None:
            self.needs("keys")
        return key or (f"auto-{uuid4().hex}" if "keys" in self.capabilities else None)

    def needs(self, capability: str) -> None:
        """Refuse what the adapter behind the host does not declare, without asking it."""
        if capability not in self.capabilities:
            raise AdapterDisabled(f"{self.slot} at {self._host.url} lacks the capability {capability!r}")
