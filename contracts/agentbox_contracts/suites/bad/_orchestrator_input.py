"""Known-bad ways to pass input on, and to declare what one can do."""

from __future__ import annotations

from typing import Any

from agentbox_contracts.errors import AdapterDisabled, AdapterError, AdapterUnavailable, Conflict, NotFound
from agentbox_contracts.orchestrator import AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad

__all__: list[str] = []


@known_bad(caught_by="orchestrator.input.arrives")
class TakesInputForText(Base):
    """Leaves NUL out of what is sent."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        return await super().send(agent_id, data.replace(b"\0", b""), end=end, key=key)


@known_bad(caught_by="orchestrator.input.ends")
class NeverEndsTheInput(Base):
    """Keeps the input open for more."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        return await super().send(agent_id, data, key=key)


class Swallowing(Base):
    """Takes input that goes nowhere, and says nothing."""

    swallowed: type[AdapterError] = Conflict

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        try:
            return await super().send(agent_id, data, end=end, key=key)
        except self.swallowed:
            return None


@known_bad(caught_by="orchestrator.input.over")
class TakesInputBehindTheEnd(Swallowing):
    """Takes input although it was ended."""


@known_bad(caught_by="orchestrator.input.after-exit")
class TakesInputForTheDead(Swallowing):
    """Takes input for an agent that has ended."""


@known_bad(caught_by="orchestrator.input.no-pipe")
class TakesInputWithoutAPipe(Swallowing):
    """Takes input for an agent that has none."""


@known_bad(caught_by="orchestrator.stale.input")
class TakesInputInItsSleep(Swallowing):
    """Takes input for an agent that another process has ended."""


@known_bad(caught_by="orchestrator.input.bounded")
class TakesInputWithoutBound(Swallowing):
    """Takes any amount of input for an agent that does not read."""

    swallowed = AdapterUnavailable


@known_bad(caught_by="orchestrator.input.not-found")
class TakesInputForNobody(Swallowing):
    """Takes input for an agent that is not there."""

    swallowed = NotFound


@known_bad(caught_by="orchestrator.capabilities.keys")
class TakesKeysUndeclared(Base):
    """Takes keys although it does not declare them."""

    capabilities = frozenset({"send"})


@known_bad(caught_by="orchestrator.capabilities.keys")
class RefusesKeysItDeclares(Base):
    """Refuses keys although it declares them."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if key is not None:
            raise AdapterDisabled("there are no keys here")
        return await super().spawn(spec)


@known_bad(caught_by="orchestrator.capabilities.send")
class TakesPipesUndeclared(Base):
    """Has pipes although it does not declare input."""

    capabilities = frozenset({"keys"})

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        raise AdapterDisabled("there is no input here")


@known_bad(caught_by="orchestrator.capabilities.send")
class TakesInputUndeclared(Base):
    """Takes input although it does not declare it."""

    capabilities = frozenset({"keys"})

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if spec.stdin == "pipe":
            raise AdapterDisabled("there are no pipes here")
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.capabilities.send")
class RefusesPipesItDeclares(Base):
    """Refuses pipes although it declares input."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if spec.stdin == "pipe":
            raise AdapterDisabled("there are no pipes here")
        return await super().spawn(spec, key=key)
