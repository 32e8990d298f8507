"""Known-bad ways to end agents, and to tell how they ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from typing import Any

import attrs

from agentbox_contracts.errors import NotFound
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import Retelling, detached, invented, restamped

__all__: list[str] = []


class Misreporting(Base):
    """Tells of an agent as it is not; `misreported` says how."""

    def misreported(self, agent: Agent) -> Agent:
        """What is told instead."""
        return agent

    async def status(self, agent_id: str) -> Any:
        return self.misreported(await super().status(agent_id))


@known_bad(caught_by="orchestrator.status.running")
class LosesTheLiving(Misreporting):
    """Says of an agent that runs that it is lost."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, status="lost") if agent.status == "running" else agent


@known_bad(caught_by="orchestrator.status.running")
class WrongPid(Misreporting):
    """Tells another process's pid."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, pid=os.getpid())


class ForgetsTheStart(Misreporting):
    """Does not know when an agent started."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, started_at=None)


@known_bad(caught_by="orchestrator.status.running")
class ForgetsTheStartOfTheLiving(ForgetsTheStart):
    """Does not know when an agent that runs was started."""


@known_bad(caught_by="orchestrator.status.times")
class ForgetsTheStartOfTheDead(ForgetsTheStart):
    """Does not know when an agent that has ended was started."""


@known_bad(caught_by="orchestrator.status.times")
class ForgetsTheEnd(Misreporting):
    """Does not know when an agent ended."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, ended_at=None)


@known_bad(caught_by="orchestrator.status.times")
class EndsBeforeItStarts(Misreporting):
    """Mixes up when an agent started and ended."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, started_at=agent.ended_at, ended_at=agent.started_at)


@known_bad(caught_by="orchestrator.status.exit-code")
class HidesFailure(Misreporting):
    """Tells of every agent that it ended well."""

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, exit_code=0)


@known_bad(caught_by="orchestrator.status.signal")
class TellsSignalsAsCodes(Misreporting):
    """Tells a signal as an exit code, in the manner of a shell."""

    def misreported(self, agent: Agent) -> Agent:
        if agent.signal is None:
            return agent
        return attrs.evolve(agent, exit_code=128 + signal.Signals[agent.signal], signal=None)


@known_bad(caught_by="orchestrator.status.exited-is-over")
class LeavesAProcessBehind(Base):
    """Loses sight of a process."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        detached(attrs.evolve(spec, command="sleep", args=("60",)))
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.status.not-found")
class InventsAgents(Base):
    """Tells of an agent that is not there."""

    async def status(self, agent_id: str) -> Any:
        try:
            return await super().status(agent_id)
        except NotFound:
            return invented(agent_id)


@known_bad(caught_by="orchestrator.terminate.whole-tree")
class KillsOnlyThePid(Base):
    """Kills the command and leaves its children."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        agent = await super().status(agent_id)
        os.kill(agent.pid, signal.SIGKILL)
        return attrs.evolve(agent, status="exited", signal="SIGKILL")


@known_bad(caught_by="orchestrator.terminate.whole-tree")
class KillsOnlyTheGroup(Base):
    """Kills the command's group and leaves who has left it."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        agent = await super().status(agent_id)
        os.killpg(agent.pid, signal.SIGKILL)
        return attrs.evolve(agent, status="exited", signal="SIGKILL")


@known_bad(caught_by="orchestrator.terminate.answer")
class AnswersAsItWas(Base):
    """Answers with what the agent was before it ended."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        agent = await super().status(agent_id)
        await super().terminate(agent_id, grace_seconds=grace_seconds)
        return agent


class Restamping(Base):
    """Answers with a time of its own."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return restamped(await super().terminate(agent_id, grace_seconds=grace_seconds))


@known_bad(caught_by="orchestrator.terminate.answer")
class AnswersByItsOwnClock(Restamping):
    """Answers with another time than it keeps."""


@known_bad(caught_by="orchestrator.terminate.together")
class AnswersEachAnew(Restamping):
    """Answers each of several with another time."""


@known_bad(caught_by="orchestrator.terminate.again")
class EndsAgain(Restamping):
    """Ends what has ended once more."""


@known_bad(caught_by="orchestrator.stale.terminate")
class EndsInItsSleep(Restamping):
    """Ends what another process has ended once more."""


@known_bad(caught_by="orchestrator.shared.terminate")
class EndsForItself(Restamping):
    """Tells others another time than whoever ended the agent heard."""


@known_bad(caught_by="orchestrator.terminate.again")
class ExplainsTheEndAnew(Misreporting):
    """Puts its own reason in place of an earlier one."""

    ended: frozenset[str] = frozenset()

    def misreported(self, agent: Agent) -> Agent:
        return attrs.evolve(agent, reason="ended by terminate") if agent.id in self.ended else agent

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        agent = await super().terminate(agent_id, grace_seconds=grace_seconds)
        self.ended |= {agent_id}
        return agent


@known_bad(caught_by="orchestrator.terminate.grace")
class KillsAtOnce(Base):
    """Gives no grace."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return await super().terminate(agent_id, grace_seconds=0)


@known_bad(caught_by="orchestrator.terminate.grace")
class LosesLastWords(Retelling):
    """Does not listen to an agent that has been told to end."""

    told = False

    def retold(self, event: AgentEvent, after: str | None) -> Iterable[AgentEvent]:
        return [] if self.told and event.data == b"bye\n" else [event]

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        self.told = True
        return await super().terminate(agent_id, grace_seconds=grace_seconds)


class Telling(Base):
    """Tells the command to end, and nobody else."""

    async def told(self, agent_id: str, seconds: float) -> Agent:
        """The agent, some time after its command was sent SIGTERM."""
        agent: Agent = await super().status(agent_id)
        if agent.pid is not None:
            os.kill(agent.pid, signal.SIGTERM)
        await asyncio.sleep(seconds)
        return agent


@known_bad(caught_by="orchestrator.terminate.group")
class TellsOnlyThePid(Telling):
    """Tells only the command to end, and kills its children."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        await self.told(agent_id, 0.05)
        return await super().terminate(agent_id, grace_seconds=0)


@known_bad(caught_by="orchestrator.terminate.kills")
class OnlyAsks(Telling):
    """Asks an agent to end, and leaves it at that."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return attrs.evolve(await self.told(agent_id, grace_seconds), status="exited", signal="SIGKILL")


@known_bad(caught_by="orchestrator.terminate.in-time")
class TakesItsTime(Base):
    """Knows better how long the grace should be."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return await super().terminate(agent_id, grace_seconds=3)


@known_bad(caught_by="orchestrator.terminate.in-time")
class IsImpatient(Base):
    """Cuts the grace short."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return await super().terminate(agent_id, grace_seconds=grace_seconds / 4)


@known_bad(caught_by="orchestrator.terminate.others-live")
class EndsEverybody(Base):
    """Ends every agent that runs."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        for agent in (await super().list_agents(status="running")).items:
            await super().terminate(agent.id, grace_seconds=grace_seconds)
        return await super().status(agent_id)


@known_bad(caught_by="orchestrator.terminate.not-found")
class EndsNobody(Base):
    """Ends an agent that is not there."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        try:
            return await super().terminate(agent_id, grace_seconds=grace_seconds)
        except NotFound:
            return invented(agent_id)
