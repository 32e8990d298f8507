"""The contract of slots that are off."""

from __future__ import annotations

from agentbox_contracts.suites.off import OffSuite


class TestBeadsOff(OffSuite):
    slot = "beads"


class TestPodsOff(OffSuite):
    slot = "pods"


class TestMemoryOff(OffSuite):
    slot = "memory"


class TestEventsOff(OffSuite):
    slot = "events"


class TestOrchestratorOff(OffSuite):
    slot = "orchestrator"
