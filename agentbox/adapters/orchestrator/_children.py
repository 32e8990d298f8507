"""The processes that the keeper has made. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator._lines import Lines
else:
    from _lines import Lines

__all__ = ["Child"]


class Child:
    """
    A process of the keeper's: the supervisor of an agent, with the request that waits for it, or a helper.

    A supervisor that has no agent yet is a spare.
    """

    def __init__(
        self, agent_id: str = "", client: Lines | None = None, request: dict[str, object] | None = None
    ) -> None:
        self.pid = 0
        self.agent_id = agent_id
        self.client = client
        self.request = request or {}

    @property
    def is_supervisor(self) -> bool:
        """Whether it stands over an agent."""
        return self.client is not None

    @property
    def is_spare(self) -> bool:
        """Whether it is to stand over one some day."""
        return not self.agent_id

    @property
    def is_helper(self) -> bool:
        """Whether it sees to the end of an agent that has lost its supervisor."""
        return not (self.is_supervisor or self.is_spare)
