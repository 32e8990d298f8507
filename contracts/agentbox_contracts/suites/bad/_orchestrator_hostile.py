"""Known-bad ways to deal with agents at their worst."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any

import attrs

from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.orchestrator import AgentEvent, AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import Own, Retelling
from agentbox_contracts.suites.bad._orchestrator_ending import KillsOnlyTheGroup, Misreporting
from agentbox_contracts.suites.bad._orchestrator_spawn import Respecifying, StartsAnything

__all__: list[str] = []


def through(spec: AgentSpec, script: str) -> AgentSpec:
    """*spec*, its command started by a shell script."""
    return attrs.evolve(spec, command="/bin/sh", args=("-c", script, "sh", spec.command, *spec.args))


@known_bad(caught_by="orchestrator.terminate.fork-bomb")
class LosesSightOfForks(KillsOnlyTheGroup):
    """Kills the group, of which those that fork have left."""


@known_bad(caught_by="orchestrator.stream.flood")
class CutsFloodsShort(Retelling):
    """Tells the first megabytes of an agent's output."""

    told = 0

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        self.told += len(event.data)
        return [] if event.type == "stdout" and self.told > 4 << 20 else [event]


@known_bad(caught_by="orchestrator.stream.flood")
class TakesHostileOutputForText(Retelling):
    """Puts replacement characters where output is no text."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, data=event.data.decode(errors="replace").encode())]


@known_bad(caught_by="orchestrator.stream.closed")
class TakesSilenceForTheEnd(Misreporting):
    """Takes an agent that has closed its output for one that has ended."""

    def misreported(self, agent: Any) -> Any:
        try:
            closed = agent.pid is not None and not os.path.exists(f"/proc/{agent.pid}/fd/1")  # noqa: PTH110
        except OSError:
            closed = True
        return attrs.evolve(agent, status="exited") if agent.is_alive and closed else agent


@known_bad(caught_by="orchestrator.stream.closed")
class KillsTheSilent(Respecifying):
    """Ends an agent that has nothing more to say."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, args=(spec.args[0], spec.args[1].replace("exit 4", "kill -9 $$"), *spec.args[2:]))


@known_bad(caught_by="orchestrator.spawn.instant")
class MissesTheStart(Retelling):
    """Does not tell the start of an agent that was quicker than itself."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if event.type == "started" else [event]


@known_bad(caught_by="orchestrator.spawn.instant")
class MissesTheExit(Retelling):
    """Does not know how an agent ended that was quicker than itself."""

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [attrs.evolve(event, exit_code=None)]


@known_bad(caught_by="orchestrator.spawn.dead-folder")
class StartsInAnotherFolder(StartsAnything):
    """Starts the agent elsewhere when its folder is gone."""


@known_bad(caught_by="orchestrator.spawn.clean")
class LeavesAFileOpen(Respecifying):
    """Leaves a file open in the agent."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(
            spec, command="/bin/sh", args=("-c", 'exec "$@" 7</dev/null', "sh", spec.command, *spec.args)
        )


@known_bad(caught_by="orchestrator.spawn.clean")
class KeepsItsOwnUmask(Respecifying):
    """Gives the agent another umask."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(
            spec, command="/bin/sh", args=("-c", 'umask 077; exec "$@"', "sh", spec.command, *spec.args)
        )


@known_bad(caught_by="orchestrator.environment.identity")
class KeepsTheSessionToItself(Respecifying):
    """Does not tell the agent whose session it is."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, env={**spec.env, "AGENTBOX_SESSION_ID": ""})


@known_bad(caught_by="orchestrator.environment.identity")
class KeepsTheBeadToItself(Respecifying):
    """Does not tell the agent what it works on."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, env={**spec.env, "AGENTBOX_BEAD_ID": ""})


@known_bad(caught_by="orchestrator.input.unread")
class EndsTheInattentive(Base):
    """Ends an agent that does not read."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        try:
            return await super().send(agent_id, data, end=end, key=key)
        except AdapterUnavailable:
            agent = await super().status(agent_id)
            if agent.pid is not None:
                os.kill(agent.pid, signal.SIGKILL)
            raise


class Unfiltered(Base):
    """Lists agents whatever they were asked to have; `ignored` is what."""

    ignored: str

    async def list_agents(self, **asked: Any) -> Any:
        return await super().list_agents(**{**asked, self.ignored: None})


@known_bad(caught_by="orchestrator.list.filters")
class IgnoresTheName(Unfiltered):
    """Lists agents of any name."""

    ignored = "name"


@known_bad(caught_by="orchestrator.list.filters")
class IgnoresTheBead(Unfiltered):
    """Lists agents of any bead."""

    ignored = "bead_id"


@known_bad(caught_by="orchestrator.list.filters")
class IgnoresTheSession(Unfiltered):
    """Lists agents of any session."""

    ignored = "session_id"


@known_bad(caught_by="orchestrator.crash.agreement")
class KnowsBetter(Own):
    """Tells of agents that others started that they are lost."""

    async def list_agents(self, **asked: Any) -> Any:
        page = await super().list_agents(**asked)
        items = [agent if agent.id in self.own else attrs.evolve(agent, status="lost") for agent in page.items]
        return attrs.evolve(page, items=items)


@known_bad(caught_by="orchestrator.crash.agreement")
class TellsEachAnotherReason(Base):
    """Tells each process another reason for the end of an agent."""

    async def list_agents(self, **asked: Any) -> Any:
        page = await super().list_agents(**asked)
        return attrs.evolve(page, items=[attrs.evolve(agent, reason=f"seen by {os.getpid()}") for agent in page.items])
