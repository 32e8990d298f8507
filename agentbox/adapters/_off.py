"""A slot that is off: every method says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from agentbox_contracts.contract import BaseAdapter, Contract, Health, Method
from agentbox_contracts.errors import AdapterDisabled

__all__ = ["OffAdapter", "off"]


class OffAdapter(BaseAdapter):
    """What stands in for an adapter that was not chosen, or that failed; `reason` says which."""

    enabled = False
    reason = "it is switched off in the manifest"
    has_failed = False

    def disabled(self) -> AdapterDisabled:
        """The answer to every call."""
        return AdapterDisabled(f"{self.slot} is off: {self.reason}", resource=self.slot)

    async def health(self) -> Health:
        """Off, and why."""
        return Health("off", self.reason)


def off(contract: Contract) -> type[OffAdapter]:
    """The off adapter of one slot."""
    members: dict[str, Any] = {name: _refusal(method) for name, method in contract.methods.items()}
    members["contract_version"] = contract.version
    members["__doc__"] = f"{contract.slot.title()} that are off."
    return type(f"Off{contract.slot.title()}", (OffAdapter,), members)


def _refusal(method: Method) -> Callable[..., Any]:
    async def refuse(self: OffAdapter, *args: Any, **kwargs: Any) -> Any:
        raise self.disabled()

    async def refuse_stream(self: OffAdapter, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if not self.enabled:
            raise self.disabled()
        yield

    return refuse_stream if method.stream else refuse
