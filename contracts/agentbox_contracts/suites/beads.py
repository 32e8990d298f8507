"""The promises of the beads port, clause by clause."""

from __future__ import annotations

from typing import Any

from agentbox_contracts.beads import Beads
from agentbox_contracts.suites._beads_capabilities import CapabilityClauses
from agentbox_contracts.suites._beads_claims import ClaimClauses
from agentbox_contracts.suites._beads_closing import ClosingClauses
from agentbox_contracts.suites._beads_crash import CrashClauses
from agentbox_contracts.suites._beads_garbage import GarbageClauses
from agentbox_contracts.suites._beads_keys import KeyClauses
from agentbox_contracts.suites._beads_leases import LeaseClauses
from agentbox_contracts.suites._beads_machine import ModelClauses
from agentbox_contracts.suites._beads_processes import ProcessClauses
from agentbox_contracts.suites._beads_records import RecordClauses
from agentbox_contracts.suites._beads_sync import SyncClauses
from agentbox_contracts.suites._beads_waiting import ReadyClauses, WaitingClauses
from agentbox_contracts.suites.lifecycle import LifecycleSuite

__all__ = ["BeadsSuite"]


class BeadsSuite(
    ModelClauses,
    CrashClauses,
    ProcessClauses,
    CapabilityClauses,
    GarbageClauses,
    SyncClauses,
    KeyClauses,
    ReadyClauses,
    WaitingClauses,
    ClosingClauses,
    LeaseClauses,
    ClaimClauses,
    RecordClauses,
    LifecycleSuite,
):
    """Every clause runs against every adapter of the slot that declares what the clause needs."""

    slot = "beads"

    async def any_read(self, adapter: Beads) -> Any:
        return await adapter.get_ready(limit=1)
