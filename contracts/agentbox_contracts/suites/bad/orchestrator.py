"""Known-bad orchestrators, topic by topic."""

from __future__ import annotations

from agentbox_contracts.suites.bad import (
    _orchestrator_crash,
    _orchestrator_ending,
    _orchestrator_hostile,
    _orchestrator_input,
    _orchestrator_keys,
    _orchestrator_limits,
    _orchestrator_model,
    _orchestrator_output,
    _orchestrator_sharing,
    _orchestrator_spawn,
    _orchestrator_turns,
)

__all__ = ["TOPICS"]

TOPICS = (
    _orchestrator_spawn,
    _orchestrator_output,
    _orchestrator_input,
    _orchestrator_ending,
    _orchestrator_sharing,
    _orchestrator_keys,
    _orchestrator_model,
    _orchestrator_crash,
    _orchestrator_hostile,
    _orchestrator_limits,
    _orchestrator_turns,
)
