"""The promises of the orchestrator port, clause by clause."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, WithAgents, events_of, eventually
from agentbox_contracts.suites._orchestrator_crash import CrashClauses
from agentbox_contracts.suites._orchestrator_ending import EndingClauses
from agentbox_contracts.suites._orchestrator_hostile import HostileClauses
from agentbox_contracts.suites._orchestrator_input import InputClauses
from agentbox_contracts.suites._orchestrator_keys import KeysClauses
from agentbox_contracts.suites._orchestrator_limits import LimitsClauses
from agentbox_contracts.suites._orchestrator_model import ModelClauses
from agentbox_contracts.suites._orchestrator_output import OutputClauses
from agentbox_contracts.suites._orchestrator_sharing import SharingClauses
from agentbox_contracts.suites._orchestrator_spawn import SpawnClauses
from agentbox_contracts.suites._orchestrator_turns import TurnsClauses
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.lifecycle import LifecycleSuite

__all__ = ["OrchestratorSuite"]

MANY = 200
AT_ONCE = 20


class OrchestratorSuite(
    ModelClauses,
    TurnsClauses,
    LimitsClauses,
    HostileClauses,
    CrashClauses,
    KeysClauses,
    SharingClauses,
    EndingClauses,
    InputClauses,
    OutputClauses,
    SpawnClauses,
    WithAgents,
    LifecycleSuite,
):
    """Every clause runs against every adapter of the slot, with real processes."""

    slot = "orchestrator"

    async def any_read(self, adapter: Orchestrator) -> Any:
        return await adapter.list_agents(limit=1)

    @clause("orchestrator.leak.nothing")
    async def test_many_agents_leave_nothing_behind(self, adapter: Orchestrator, agents: Agents) -> None:
        """Two hundred agents that came and went have left no descriptor, thread, task or process."""
        await _come_and_go(adapter, agents, AT_ONCE)
        before = _held(agents)
        await _come_and_go(adapter, agents, MANY)

        assert await eventually(lambda: _is_within(agents, before), seconds=1), (
            f"held {before} before, {_held(agents)} now"
        )


async def _come_and_go(adapter: Orchestrator, agents: Agents, count: int) -> None:
    for _ in range(count // AT_ONCE):
        made = await asyncio.gather(*(adapter.spawn(agents.shell("echo hello")) for _ in range(AT_ONCE)))
        await asyncio.gather(*(events_of(adapter, agent.id) for agent in made))


def _held(agents: Agents) -> dict[str, int]:
    gc.collect()
    children = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return {
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": sum(1 for thread in threading.enumerate() if not thread.name.startswith("asyncio_")),
        "tasks": len(asyncio.all_tasks()),
        "processes": len(" ".join(children).split()) + len(agents.running()),
    }


async def _is_within(agents: Agents, before: dict[str, int]) -> bool:
    held = _held(agents)
    return all(held[kind] <= count for kind, count in before.items())
