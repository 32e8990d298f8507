"""
What agentbox itself says: the types of its own events and what the data of each holds.

One fact is one event. `subject` is the bead, agent or slot that it is about, `time` when it happened, `session_id` and
`execution_id` those of whoever caused it. A type is never given another meaning: data may gain members, not lose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import attrs
import msgspec

from agentbox_contracts.beads import Outcome
from agentbox_contracts.contract import Instant

__all__ = [
    "VOCABULARY",
    "AgentExited",
    "AgentLost",
    "AgentSpawned",
    "AppClosed",
    "AppOpened",
    "BeadClaimed",
    "BeadClosed",
    "BeadCreated",
    "BeadDeleted",
    "BeadDependencyAdded",
    "BeadImported",
    "BeadReleased",
    "BeadRenewed",
    "Fact",
    "OutboxTrimmed",
    "SlotDegraded",
    "SlotRecovered",
    "data_of",
    "source_of",
]


@attrs.frozen(kw_only=True)
class Fact:
    """The data of one event. `type` is the event's type, and not a member of the data."""

    type: ClassVar[str]


@attrs.frozen(kw_only=True)
class BeadCreated(Fact):
    """A bead was recorded. `actor` is who did it, where that was said."""

    type = "agentbox.bead.created"
    bead_id: str
    uid: str
    kind: Literal["epic", "task"]
    title: str
    priority: int
    parent_id: str | None = None
    actor: str | None = None


@attrs.frozen(kw_only=True)
class BeadDependencyAdded(Fact):
    """A bead waits for another from now on."""

    type = "agentbox.bead.dependency_added"
    bead_id: str
    uid: str
    blocker_id: str


@attrs.frozen(kw_only=True)
class BeadClaimed(Fact):
    """An actor got a bead. Claiming what one holds already changes nothing and is not told."""

    type = "agentbox.bead.claimed"
    bead_id: str
    uid: str
    actor: str
    fence: int
    lease_expires_at: Instant | None = None


@attrs.frozen(kw_only=True)
class BeadRenewed(Fact):
    """The lease of a claim was set anew."""

    type = "agentbox.bead.renewed"
    bead_id: str
    uid: str
    actor: str
    fence: int
    lease_expires_at: Instant


@attrs.frozen(kw_only=True)
class BeadReleased(Fact):
    """A claimed bead was given back. `fence` is that of the claim that ended."""

    type = "agentbox.bead.released"
    bead_id: str
    uid: str
    fence: int


@attrs.frozen(kw_only=True)
class BeadClosed(Fact):
    """The work ended, one way or another."""

    type = "agentbox.bead.closed"
    bead_id: str
    uid: str
    outcome: Outcome
    reason: str = ""
    actor: str | None = None
    fence: int = 0


@attrs.frozen(kw_only=True)
class BeadImported(Fact):
    """A sync brought a bead into the store, or a later version of one."""

    type = "agentbox.bead.imported"
    bead_id: str
    uid: str
    status: Literal["open", "claimed", "closed"]


@attrs.frozen(kw_only=True)
class BeadDeleted(Fact):
    """A sync removed a bead, because the file had a tombstone for it."""

    type = "agentbox.bead.deleted"
    bead_id: str


@attrs.frozen(kw_only=True)
class AgentSpawned(Fact):
    """An agent was started. Its arguments are left out: they may hold what is not for everyone."""

    type = "agentbox.agent.spawned"
    agent_id: str
    command: str
    name: str | None = None
    bead_id: str | None = None


@attrs.frozen(kw_only=True)
class AgentExited(Fact):
    """An agent ended, and everything it had started is gone."""

    type = "agentbox.agent.exited"
    agent_id: str
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    name: str | None = None
    bead_id: str | None = None


@attrs.frozen(kw_only=True)
class AgentLost(Fact):
    """How an agent ended cannot be known; `reason` says why."""

    type = "agentbox.agent.lost"
    agent_id: str
    reason: str
    name: str | None = None
    bead_id: str | None = None


@attrs.frozen(kw_only=True)
class SlotDegraded(Fact):
    """A slot of one app does not work as it should. `app_id` is the one of `agentbox.app.opened`."""

    type = "agentbox.slot.degraded"
    app_id: str
    slot: str
    impl: str
    reason: str


@attrs.frozen(kw_only=True)
class SlotRecovered(Fact):
    """A slot that was degraded works again."""

    type = "agentbox.slot.recovered"
    app_id: str
    slot: str
    impl: str


@attrs.frozen(kw_only=True)
class AppOpened(Fact):
    """An app was opened. `slots` has the adapter behind each slot."""

    type = "agentbox.app.opened"
    app_id: str
    version: str
    pid: int
    slots: dict[str, str]


@attrs.frozen(kw_only=True)
class AppClosed(Fact):
    """An app was closed. One that was killed says nothing."""

    type = "agentbox.app.closed"
    app_id: str


@attrs.frozen(kw_only=True)
class OutboxTrimmed(Fact):
    """Facts about beads were given up untold, the oldest first, because the events slot was away for too long."""

    type = "agentbox.outbox.trimmed"
    dropped: int


_FACTS: tuple[type[Fact], ...] = (
    BeadCreated,
    BeadDependencyAdded,
    BeadClaimed,
    BeadRenewed,
    BeadReleased,
    BeadClosed,
    BeadImported,
    BeadDeleted,
    AgentSpawned,
    AgentExited,
    AgentLost,
    SlotDegraded,
    SlotRecovered,
    AppOpened,
    AppClosed,
    OutboxTrimmed,
)

VOCABULARY: Mapping[str, type[Fact]] = MappingProxyType({fact.type: fact for fact in _FACTS})
"""The class of each type's data."""

_SOURCES = {"bead": "beads", "outbox": "beads", "agent": "agents", "slot": "app", "app": "app"}


def source_of(type: str) -> str:
    """Who says events of *type*: `/agentbox/beads`, `/agentbox/agents` or `/agentbox/app`."""
    return f"/agentbox/{_SOURCES[type.split('.')[1]]}"


def data_of(fact: Fact) -> Any:
    """*fact* as an event's data: JSON values only."""
    return msgspec.to_builtins(fact)
