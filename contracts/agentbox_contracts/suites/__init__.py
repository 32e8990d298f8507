"""
Suites that prove an adapter: one class a slot, one sentence a clause.

They hold clauses only. How an adapter is opened is handed in by the fixtures of `agentbox.testing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentbox_contracts.suites.lifecycle import Suite

__all__ = ["NETWORK", "SUITES", "suite_of"]

SUITES = {
    "beads": "agentbox_contracts.suites.beads:BeadsSuite",
    "events": "agentbox_contracts.suites.events:EventsSuite",
    "memory": "agentbox_contracts.suites.memory:MemorySuite",
    "orchestrator": "agentbox_contracts.suites.orchestrator:OrchestratorSuite",
}

NETWORK = {
    "beads": "agentbox_contracts.suites.network:BeadsNetworkSuite",
    "events": "agentbox_contracts.suites.network:EventsNetworkSuite",
    "memory": "agentbox_contracts.suites.network:MemoryNetworkSuite",
    "orchestrator": "agentbox_contracts.suites.network:OrchestratorNetworkSuite",
}


def suite_of(slot: str, *, off: bool = False, network: bool = False) -> type[Suite]:
    """
    The suite of *slot*, the one for what is switched off, or the one for what has its server behind a network.

    Raises KeyError where there is none yet.
    """
    where = "agentbox_contracts.suites.off:OffSuite" if off else (NETWORK if network else SUITES)[slot]
    module, _, name = where.partition(":")
    suite: type[Suite] = getattr(importlib.import_module(module), name)
    return suite
