"""Known-bad ways to let spawns wait for their turn."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs

from agentbox_contracts.context import session_id
from agentbox_contracts.orchestrator import AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import detached, invented

__all__: list[str] = []

PATIENCE = 0.1
KEPT: list[Any] = []


@known_bad(caught_by="orchestrator.turns.bound")
class StartsOneTooMany(Base):
    """Starts what would have to wait."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                return await super().spawn(spec, key=key)
        except TimeoutError:
            detached(spec)
            return invented("ag-many")


@known_bad(caught_by="orchestrator.turns.in-order")
class LastComeFirst(Base):
    """Serves those first who came last."""

    asked = 0

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        self.asked += 1
        await asyncio.sleep(max(1.0 - 0.15 * self.asked, 0) if self.asked > 2 else 0)
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.turns.fair")
class OneQueueForAll(Base):
    """Does not ask whose turn it is."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        token = session_id.set(None)
        try:
            return await super().spawn(spec, key=key)
        finally:
            session_id.reset(token)


@known_bad(caught_by="orchestrator.turns.cancelled")
class WaitsForTheCancelled(Base):
    """Keeps the place of a spawn that was cancelled, and starts it."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        spawning = asyncio.ensure_future(super().spawn(spec, key=key))
        KEPT.append(spawning)
        return await asyncio.shield(spawning)


@known_bad(caught_by="orchestrator.turns.dead-caller")
class StartsForTheDead(Base):
    """Leaves a process behind that starts what was waited for, sooner or later."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                return await super().spawn(spec, key=key)
        except TimeoutError:
            detached(attrs.evolve(spec, command="/bin/sh", args=("-c", "exec sleep 60")))
            return await super().spawn(spec, key=key)
