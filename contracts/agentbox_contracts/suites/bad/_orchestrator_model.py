"""Known-bad orchestrators that a model in plain Python must notice, whatever the order of things."""

from __future__ import annotations

from typing import Any

from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_ending import AnswersAsItWas, HidesFailure
from agentbox_contracts.suites.bad._orchestrator_input import Swallowing
from agentbox_contracts.suites.bad._orchestrator_sharing import ListsInBrief, OldestFirst
from agentbox_contracts.suites.bad._orchestrator_spawn import OneAgentPerSpec

__all__: list[str] = []


@known_bad(caught_by="orchestrator.model.agrees")
class LosesTheSecondInput(Base):
    """Loses what an agent is sent after the first time."""

    sent: frozenset[str] = frozenset()

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> Any:
        first, self.sent = agent_id not in self.sent, self.sent | {agent_id}
        return await super().send(agent_id, data if first else b"", end=end, key=key)


@known_bad(caught_by="orchestrator.model.agrees")
class StartsOneOfAKind(OneAgentPerSpec):
    """Sooner or later gives an agent out that it has given out before."""


@known_bad(caught_by="orchestrator.model.agrees")
class TakesInputWhereItShouldNot(Swallowing):
    """Sooner or later takes input that goes nowhere."""


@known_bad(caught_by="orchestrator.model.agrees")
class AnswersOutOfDate(AnswersAsItWas):
    """Sooner or later answers with what an agent was before."""


@known_bad(caught_by="orchestrator.model.agrees")
class ForgetsFailure(HidesFailure):
    """Sooner or later tells a wrong exit code."""


@known_bad(caught_by="orchestrator.model.agrees")
class ListsOutOfOrder(OldestFirst):
    """Sooner or later lists an older agent before a newer one."""


@known_bad(caught_by="orchestrator.model.agrees")
class ListsOutOfDate(ListsInBrief):
    """Sooner or later lists an agent as it is not."""
