"""Known-bad keys."""

from __future__ import annotations

import asyncio
from typing import Any

from agentbox_contracts.errors import Conflict
from agentbox_contracts.orchestrator import Agent, AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import detached

__all__: list[str] = []


@known_bad(caught_by="orchestrator.keys.same-agent")
class SpawnsForEveryKey(Base):
    """Does not care for keys."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        return await super().spawn(spec)


class Remembering(Base):
    """Remembers which agent a key stands for, in memory."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.known: dict[str, Agent] = {}
        self.sent: set[str] = set()

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if key in self.known:
            return await super().status(self.known[key].id)
        await asyncio.sleep(0)
        agent = await super().spawn(spec)
        if key is not None:
            self.known[key] = agent
        return agent

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        if key in self.sent:
            return None
        if key is not None:
            self.sent.add(key)
        return await super().send(agent_id, data, end=end)


@known_bad(caught_by="orchestrator.keys.together")
class LooksBeforeItWrites(Remembering):
    """Looks for a key and uses it in two steps."""


@known_bad(caught_by="orchestrator.keys.processes")
class KeepsKeysToItself(Remembering):
    """Knows only the keys that its own process has used."""


@known_bad(caught_by="orchestrator.keys.crash")
class ForgetsKeysInACrash(Remembering):
    """Loses its keys when its process dies."""


@known_bad(caught_by="orchestrator.keys.input-processes")
class KeepsInputKeysToItself(Remembering):
    """Knows only the keys of input that its own process has sent."""


@known_bad(caught_by="orchestrator.keys.input-crash")
class ForgetsInputKeysInACrash(Remembering):
    """Loses the keys of input when its process dies."""


@known_bad(caught_by="orchestrator.keys.other-spec")
class IgnoresTheSpec(Remembering):
    """Takes a key for its first agent, whatever is asked for with it."""


class StartsOneMore(Base):
    """Starts a process that nobody knows of beside every agent that has a key."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        detached(spec)
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.keys.same-agent")
class StartsOneMoreEachTime(StartsOneMore):
    """Starts the command again each time its key is used."""


@known_bad(caught_by="orchestrator.keys.together")
class StartsOneMoreForEach(StartsOneMore):
    """Starts the command for each who uses the key."""


@known_bad(caught_by="orchestrator.keys.processes")
class StartsOneMorePerProcess(StartsOneMore):
    """Starts the command in each process that uses the key."""


@known_bad(caught_by="orchestrator.keys.crash")
class StartsOneMoreAfterACrash(StartsOneMore):
    """Starts the command again when its key is used after a crash."""


@known_bad(caught_by="orchestrator.keys.after-exit")
class ForgetsTheKeysOfTheDead(Remembering):
    """Forgets a key when its agent has ended."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if key in self.known and not (await super().status(self.known[key].id)).is_alive:
            del self.known[key]
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.keys.other-key")
class FoldsKeys(Base):
    """Takes keys that look alike for the same."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        return await super().spawn(spec, key=key.strip().lower() if key else None)


@known_bad(caught_by="orchestrator.keys.input-once")
class WritesEveryTime(Base):
    """Does not care for the keys of input."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        return await super().send(agent_id, data, end=end)


@known_bad(caught_by="orchestrator.keys.input-after-exit")
class ForgetsWhatTheDeadTook(Base):
    """Forgets which input an agent took when it has ended."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        if not (await super().status(agent_id)).is_alive:
            raise Conflict(f"{agent_id} has ended")
        return await super().send(agent_id, data, end=end, key=key)
