"""Known-bad ways to hold limits, and to put agents into sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import attrs

from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec, Limits
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import Retelling
from agentbox_contracts.suites.bad._orchestrator_spawn import Respecifying

__all__: list[str] = []

ENOUGH = 3.0
"""For a clause to see that a limit was left out; then it may end."""


class LeavesOut(Respecifying):
    """Leaves one limit out."""

    left_out: str

    def changed(self, spec: AgentSpec) -> AgentSpec:
        if getattr(spec.limits, self.left_out) is None:
            return spec
        limits = attrs.evolve(spec.limits, **{self.left_out: None})
        return attrs.evolve(spec, limits=attrs.evolve(limits, wall_seconds=limits.wall_seconds or ENOUGH))


@known_bad(caught_by="orchestrator.limits.wall")
class IgnoresTheClock(Respecifying):
    """Lets an agent run for as long as it likes, within reason."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, limits=Limits(output_bytes=1), command="/bin/sh", args=("-c", "echo over; sleep 60"))


@known_bad(caught_by="orchestrator.limits.idle")
class IgnoresSilence(LeavesOut):
    """Lets an agent be silent for as long as it likes."""

    left_out = "idle_seconds"


@known_bad(caught_by="orchestrator.limits.idle")
class TakesSpeechForSilence(Respecifying):
    """Ends an agent after its idle time, whether or not it speaks."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, limits=Limits(wall_seconds=spec.limits.idle_seconds))


@known_bad(caught_by="orchestrator.limits.output")
class IgnoresFloods(Respecifying):
    """Lets an agent write as much as it likes, within reason."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, limits=Limits(wall_seconds=0.2))


@known_bad(caught_by="orchestrator.limits.memory")
class IgnoresMemory(LeavesOut):
    """Lets an agent take as much memory as it likes."""

    left_out = "memory_bytes"


@known_bad(caught_by="orchestrator.limits.memory")
class CountsTheFirstProcess(Respecifying):
    """Holds the memory limit for each process alone."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        memory = spec.limits.memory_bytes
        return attrs.evolve(spec, limits=Limits(memory_bytes=memory and 4 * memory, wall_seconds=ENOUGH))


@known_bad(caught_by="orchestrator.limits.cpu")
class IgnoresCpu(LeavesOut):
    """Lets an agent use as much cpu as it likes."""

    left_out = "cpu_seconds"


@known_bad(caught_by="orchestrator.limits.processes")
class IgnoresForks(LeavesOut):
    """Lets an agent fork as often as it likes."""

    left_out = "processes"


@known_bad(caught_by="orchestrator.limits.open-files")
class IgnoresOpenFiles(LeavesOut):
    """Lets an agent open as many files as it likes."""

    left_out = "open_files"


@known_bad(caught_by="orchestrator.limits.told")
class HidesTheLimit(Base):
    """Does not tell that a limit ended an agent."""

    async def status(self, agent_id: str) -> Any:
        return attrs.evolve(await super().status(agent_id), limit=None)


@known_bad(caught_by="orchestrator.limits.told")
class TellsNoNumbers(Base):
    """Does not tell by how much a limit was exceeded."""

    async def status(self, agent_id: str) -> Any:
        agent = await super().status(agent_id)
        return attrs.evolve(agent, reason="a limit was exceeded") if agent.limit else agent


@known_bad(caught_by="orchestrator.limits.told")
class TellsTheReasonOnlyWhenAsked(Retelling):
    """Leaves the reason out of the `exited` event."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, reason="")]


@known_bad(caught_by="orchestrator.limits.within")
class EndsBeforeTheLimit(Respecifying):
    """Ends an agent when it comes near its limit."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        bytes_ = spec.limits.output_bytes
        return attrs.evolve(spec, limits=attrs.evolve(spec.limits, output_bytes=bytes_ and bytes_ - 1))


@known_bad(caught_by="orchestrator.limits.dead-host")
class HoldsLimitsItself(Base):
    """Holds the time limit in its own process, with which it goes."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        seconds = spec.limits.wall_seconds
        agent: Agent = await super().spawn(attrs.evolve(spec, limits=Limits()), key=key)
        if seconds is not None:
            self.later = asyncio.create_task(self._end(agent.id, seconds))
        return agent

    async def _end(self, agent_id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await super().terminate(agent_id, grace_seconds=0)


@known_bad(caught_by="orchestrator.capabilities.limits")
class TakesLimitsUndeclared(Base):
    """Takes limits although it does not declare them."""

    capabilities = frozenset({"keys", "send"})


@known_bad(caught_by="orchestrator.capabilities.limits")
class RefusesLimitsItDeclares(Base):
    """Refuses limits although it declares them."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        if spec.limits != Limits():
            raise AdapterDisabled("there are no limits here")
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.sandbox.never-left-out")
class LeavesTheSandboxOut(Respecifying):
    """Starts an agent without the sandbox that it was to have."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, sandbox=None)
