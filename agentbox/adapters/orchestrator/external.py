"""Agents of a host."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

from agentbox.adapters._external import ExternalAdapter
from agentbox_contracts.contract import Page
from agentbox_contracts.orchestrator import CONTRACT, Agent, AgentEvent, AgentSpec, AgentStatus, Limits, Orchestrator

__all__ = ["Adapter", "ExternalOrchestrator"]


class ExternalOrchestrator(ExternalAdapter, Orchestrator):
    """
    Agents run where the host runs. A stream that breaks goes on behind its last event.

    A spawn and an input are given a key, so that they can be repeated when the host was out of reach.
    """

    contract = CONTRACT
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Agent:
        if spec.limits != Limits():
            self.needs("limits")
        if spec.sandbox == "bubblewrap":
            self.needs("sandbox")
        key = self.keyed(key)
        return cast("Agent", await self._host.call("spawn", safe=key is not None, spec=spec, key=key))

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async for event in self._host.stream("stream", agent_id=agent_id, after=after):
            yield event

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> None:
        self.needs("send")
        key = self.keyed(key)
        await self._host.call("send", safe=key is not None, agent_id=agent_id, data=data, end=end, key=key)

    async def status(self, agent_id: str) -> Agent:
        return cast("Agent", await self._host.call("status", safe=True, agent_id=agent_id))

    async def list_agents(
        self,
        *,
        status: AgentStatus | None = None,
        name: str | None = None,
        bead_id: str | None = None,
        session_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Agent]:
        wanted = {"status": status, "name": name, "bead_id": bead_id, "session_id": session_id}
        call = self._host.call("list_agents", safe=True, **wanted, limit=limit, after=after)
        return cast("Page[Agent]", await call)

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Agent:
        call = self._host.call("terminate", safe=True, agent_id=agent_id, grace_seconds=grace_seconds)
        return cast("Agent", await call)


Adapter = ExternalOrchestrator
