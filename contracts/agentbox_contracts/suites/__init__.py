"""
Suites that prove an adapter: one class a slot, one sentence a clause.

They hold clauses only. How an adapter is opened is handed in by the fixtures of `agentbox.testing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentbox_contracts.suites.lifecycle import Suite

__all__ = ["SUITES", "suite_of"]

SUITES = {
    "beads": "agentbox_contracts.suites.beads:BeadsSuite",
    "orchestrator": "agentbox_contracts.suites.orchestrator:OrchestratorSuite",
}


def suite_of(slot: str, *, off: bool = False) -> type[Suite]:
    """The suite of *slot*, or the one for what is switched off. Raises KeyError where there is none yet."""
    where = "agentbox_contracts.suites.off:OffSuite" if off else SUITES[slot]
    module, _, name = where.partition(":")
    suite: type[Suite] = getattr(importlib.import_module(module), name)
    return suite
