"""Known-bad ways to list agents and to share them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.orchestrator import Agent, AgentEvent
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import Own

__all__: list[str] = []


class Relisting(Base):
    """Lists agents in another way; `relisted` says how."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        """What is listed instead of *page*, for what was *asked*."""
        return page

    async def list_agents(self, **asked: Any) -> Any:
        return self.relisted(await super().list_agents(**asked), asked)


@known_bad(caught_by="orchestrator.list.newest-first")
class OldestFirst(Relisting):
    """Lists the oldest first."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return attrs.evolve(page, items=page.items[::-1])


@known_bad(caught_by="orchestrator.list.pages")
class SkipsBetweenPages(Relisting):
    """Leaves out the first agent of every further page."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return attrs.evolve(page, items=page.items[1:] if asked.get("after") else page.items)


@known_bad(caught_by="orchestrator.list.pages")
class NeverSaysLast(Relisting):
    """Always has one more page."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return attrs.evolve(page, next=page.items[-1].id if page.items else asked.get("after"))


@known_bad(caught_by="orchestrator.list.limit")
class IgnoresTheLimit(Base):
    """Lists as many as it likes."""

    async def list_agents(self, **asked: Any) -> Any:
        return await super().list_agents(**{**asked, "limit": 100})


@known_bad(caught_by="orchestrator.list.by-status")
class IgnoresTheStatus(Base):
    """Lists agents of any status."""

    async def list_agents(self, **asked: Any) -> Any:
        return await super().list_agents(**{**asked, "status": None})


@known_bad(caught_by="orchestrator.list.by-status")
class HidesTheLiving(Relisting):
    """Lists nobody who runs when asked for those."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return Page(items=[]) if asked.get("status") == "running" else page


@known_bad(caught_by="orchestrator.list.by-status")
class HidesTheDead(Relisting):
    """Lists nobody who has ended when asked for those."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return Page(items=[]) if asked.get("status") == "exited" else page


@known_bad(caught_by="orchestrator.list.agrees")
class ListsInBrief(Relisting):
    """Leaves out of the list how agents ended."""

    def relisted(self, page: Page[Agent], asked: dict[str, Any]) -> Page[Agent]:
        return attrs.evolve(page, items=[attrs.evolve(agent, exit_code=None) for agent in page.items])


@known_bad(caught_by="orchestrator.shared.processes")
class ListsOnlyItsOwn(Own):
    """Lists only the agents that it has started itself."""

    async def list_agents(self, **asked: Any) -> Any:
        page = await super().list_agents(**asked)
        return attrs.evolve(page, items=[agent for agent in page.items if agent.id in self.own])


@known_bad(caught_by="orchestrator.shared.processes")
class ListsOnlyWhatCameLater(Base):
    """Lists only the agents that were started since it was opened."""

    opened_at = datetime.min.replace(tzinfo=UTC)

    async def connect(self) -> None:
        await super().connect()
        self.opened_at = datetime.now(UTC)

    async def list_agents(self, **asked: Any) -> Any:
        page = await super().list_agents(**asked)
        return attrs.evolve(page, items=[agent for agent in page.items if agent.created_at >= self.opened_at])


@known_bad(caught_by="orchestrator.shared.outlives")
class TakesItsAgentsAlong(Own):
    """Ends its agents when it is closed."""

    async def disconnect(self) -> None:
        for agent_id in self.own:
            await super().terminate(agent_id, grace_seconds=0)
        self.own.clear()
        await super().disconnect()


class HearsOnlyItsOwn(Own):
    """Has no output of agents that others have started."""

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(super().stream(agent_id, after=after)) as events:
            async for event in events:
                if agent_id in self.own or event.type not in ("stdout", "stderr"):
                    yield event


@known_bad(caught_by="orchestrator.shared.output")
class HearsOnlyWhileOpen(HearsOnlyItsOwn):
    """Has no output of agents that were started before it was opened."""


@known_bad(caught_by="orchestrator.crash.output")
class LosesTheOutputOfTheDead(HearsOnlyItsOwn):
    """Loses an agent's output with the process that started it."""


@known_bad(caught_by="orchestrator.crash.any-moment")
class LosesOutputAtAnyMoment(HearsOnlyItsOwn):
    """Loses the output of agents whenever their process dies."""


@known_bad(caught_by="orchestrator.shared.input")
class SendsOnlyToItsOwn(Own):
    """Loses input for agents that others have started."""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        return await super().send(agent_id, data, end=end, key=key) if agent_id in self.own else None


class EndsOnlyItsOwn(Own):
    """Says that it ended agents that others have started, and does not."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        if agent_id in self.own:
            return await super().terminate(agent_id, grace_seconds=grace_seconds)
        return attrs.evolve(await super().status(agent_id), status="exited", signal="SIGTERM")


@known_bad(caught_by="orchestrator.shared.terminate")
class SparesTheAgentsOfOthers(EndsOnlyItsOwn):
    """Does not end the agents of other processes."""


@known_bad(caught_by="orchestrator.crash.adopted")
class SparesTheAgentsOfTheDead(EndsOnlyItsOwn):
    """Does not end the agents of processes that died."""


@known_bad(caught_by="orchestrator.crash.adopted")
class GivesTheAgentsOfTheDeadUp(Own):
    """Says of the agents of processes that died that they are lost."""

    async def status(self, agent_id: str) -> Any:
        agent = await super().status(agent_id)
        return agent if agent_id in self.own else attrs.evolve(agent, status="lost")


@known_bad(caught_by="orchestrator.crash.adopted")
class DoesNotKnowHowTheyEnded(Own):
    """Ends the agents of processes that died, and says that they are lost."""

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Any:
        agent = await super().terminate(agent_id, grace_seconds=grace_seconds)
        return agent if agent_id in self.own else attrs.evolve(agent, status="lost")
