"""What known-bad orchestrators are made of."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import attrs

from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec
from agentbox_contracts.suites.bad import Base

__all__ = ["Own", "Retelling", "detached", "invented", "restamped"]


class Own(Base):
    """Knows which agents it has started itself."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.own: set[str] = set()

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        agent = await super().spawn(spec, key=key)
        self.own.add(agent.id)
        return agent


class Retelling(Base):
    """Tells the events of a stream in another way, which `retold` says event by event."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        """What is told instead of *event*."""
        return [event]

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                for other in self.retold(event, after):
                    yield other


def detached(spec: AgentSpec) -> int:
    """Start *spec*'s command behind the adapter's back."""
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    environment = {**os.environ, **spec.env}
    return os.posix_spawnp(spec.command, [spec.command, *spec.args], environment, file_actions=silence)


def invented(agent_id: str) -> Agent:
    """An agent that does not exist."""
    return Agent(id=agent_id, status="lost", command="", created_at=datetime.now(UTC))


def restamped(agent: Agent) -> Agent:
    """*agent*, said to have ended now."""
    return attrs.evolve(agent, ended_at=datetime.now(UTC))
