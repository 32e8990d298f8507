"""Known-bad ways to die, to wake, to be cancelled, and to be untidy."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from agentbox_contracts.orchestrator import Agent, AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import detached

__all__: list[str] = []

KEPT: list[object] = []
"""What is leaked on purpose: the loop forgets tasks that nobody holds."""


class RecordsLate(Base):
    """Starts the command first and writes its record then."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        pid = detached(attrs.evolve(spec, command="sleep", args=("60",)))
        await asyncio.sleep(random.uniform(0.02, 0.2))
        os.kill(pid, signal.SIGKILL)
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.crash.none-unknown")
class StartsBeforeItRecords(RecordsLate):
    """Dies between starting an agent and writing its record."""


@known_bad(caught_by="orchestrator.cancel.spawn")
class LeavesWhatItStarted(RecordsLate):
    """Leaves a process behind when it is cancelled."""


@known_bad(caught_by="orchestrator.crash.any-moment")
class RecordsLateAtAnyMoment(RecordsLate):
    """Dies at any moment, also between starting an agent and writing its record."""


class EndsNothing(Base):
    """Says that agents have ended, and does not end them."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return attrs.evolve(await super().status(agent_id), status="exited", signal="SIGTERM")


@known_bad(caught_by="orchestrator.crash.none-unknown")
class CannotEndTheUnknown(EndsNothing):
    """Does not end what a crash has left."""


@known_bad(caught_by="orchestrator.crash.terminate")
class CannotEndTwice(EndsNothing):
    """Takes an ending that was cut short for done."""


@known_bad(caught_by="orchestrator.crash.terminate")
class ForgetsTheSignal(Base):
    """Does not know how an agent ended whose ending was cut short."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        return attrs.evolve(await super().terminate(agent_id, grace_seconds=grace_seconds), signal=None)


class AnswersEarly(Base):
    """Answers before the record is written."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        KEPT.append(asyncio.create_task(self._later(spec, key)))
        return Agent(id=f"ag-{os.urandom(4).hex()}", status="starting", command=spec.command, created_at=_now())

    async def _later(self, spec: AgentSpec, key: str | None) -> None:
        await asyncio.sleep(0.2)
        await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.crash.acknowledged")
class AnswersBeforeItRecords(AnswersEarly):
    """Answers for an agent whose record is not written yet."""


@known_bad(caught_by="orchestrator.crash.any-moment")
class AnswersAtAnyMoment(AnswersEarly):
    """Answers for agents whose records are not written yet, and dies at any moment."""


@known_bad(caught_by="orchestrator.stale.status")
class RemembersTheStatus(Base):
    """Tells the status that it knew before it stood still."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.seen: dict[str, Any] = {}

    async def status(self, agent_id: str) -> Any:
        if agent_id not in self.seen:
            self.seen[agent_id] = await super().status(agent_id)
        return self.seen[agent_id]


@known_bad(caught_by="orchestrator.stale.terminate")
class RewritesHistory(Base):
    """Puts its own reason in place of what another process has written."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        before = await super().status(agent_id)
        if not before.is_alive:
            self._note(agent_id).touch()
        return await super().terminate(agent_id, grace_seconds=grace_seconds)

    async def status(self, agent_id: str) -> Any:
        agent = await super().status(agent_id)
        return attrs.evolve(agent, reason="ended by me") if self._note(agent_id).exists() else agent

    def _note(self, agent_id: str) -> Path:
        return Path(f"{self.location}.{agent_id}")


@known_bad(caught_by="orchestrator.cancel.spawn")
class StartsAgainWhenCancelled(Base):
    """Starts an agent of its own accord when it is cancelled."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except asyncio.CancelledError:
            for _ in range(2):
                await super().spawn(spec)
            raise


@known_bad(caught_by="orchestrator.cancel.spawn")
class LeavesHalfAnAgent(Base):
    """Leaves an agent in the list that never starts when it is cancelled."""

    half: tuple[Agent, ...] = ()

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except asyncio.CancelledError:
            agent = Agent(id="ag-half", status="starting", name=spec.name, command=spec.command, created_at=_now())
            self.half = (agent,)
            raise

    async def list_agents(self, **asked: Any) -> Any:
        page = await super().list_agents(**asked)
        return attrs.evolve(page, items=[*self.half, *page.items])


class Leaking(Base):
    """Leaks something with every agent; `leak` says what."""

    def leak(self) -> None:
        """Leak it."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        self.leak()
        return await super().spawn(spec, key=key)


@known_bad(caught_by="orchestrator.leak.nothing")
class LeaksADescriptorAnAgent(Leaking):
    """Leaves a descriptor open with every agent."""

    def leak(self) -> None:
        KEPT.append(os.open(os.devnull, os.O_RDONLY))


@known_bad(caught_by="orchestrator.leak.nothing")
class LeaksAThreadAnAgent(Leaking):
    """Leaves a thread running with every agent."""

    def leak(self) -> None:
        threading.Thread(target=time.sleep, args=(10,), daemon=True).start()


@known_bad(caught_by="orchestrator.leak.nothing")
class LeaksATaskAnAgent(Leaking):
    """Leaves a task waiting with every agent."""

    def leak(self) -> None:
        KEPT.append(asyncio.create_task(asyncio.sleep(60)))


@known_bad(caught_by="orchestrator.leak.nothing")
class LeaksAProcessAnAgent(Leaking):
    """Leaves a process behind with every agent."""

    def leak(self) -> None:
        detached(AgentSpec(command="true"))


def _now() -> datetime:
    return datetime.now(UTC)
