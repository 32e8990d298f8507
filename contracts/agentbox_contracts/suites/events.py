"""The promises of the events port, clause by clause."""

from __future__ import annotations

from typing import Any

from agentbox_contracts.events import Events
from agentbox_contracts.suites._events_dedupe import DedupeClauses
from agentbox_contracts.suites._events_dispatch import DispatchClauses, ManyClauses
from agentbox_contracts.suites._events_following import AckClauses, SubscribeClauses
from agentbox_contracts.suites._events_garbage import CapabilityClauses, GarbageClauses
from agentbox_contracts.suites._events_machine import ModelClauses
from agentbox_contracts.suites._events_processes import CrashClauses, ProcessClauses
from agentbox_contracts.suites._events_reading import ReadClauses, VerifyClauses
from agentbox_contracts.suites.lifecycle import LifecycleSuite

__all__ = ["EventsSuite"]


class EventsSuite(
    ModelClauses,
    CrashClauses,
    ProcessClauses,
    CapabilityClauses,
    GarbageClauses,
    VerifyClauses,
    AckClauses,
    SubscribeClauses,
    ReadClauses,
    DedupeClauses,
    ManyClauses,
    DispatchClauses,
    LifecycleSuite,
):
    """Every clause runs against every adapter of the slot that declares what the clause needs, in a log of others."""

    slot = "events"

    async def any_read(self, adapter: Events) -> Any:
        return await adapter.read(limit=1)
