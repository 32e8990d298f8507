"""A thousand deaths: whoever starts agents is killed at random moments, over and over."""

from __future__ import annotations

import pytest

from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, WithAgents
from agentbox_contracts.suites._orchestrator_crash import crash_at_random
from agentbox_contracts.suites._orchestrator_hostile import flood
from agentbox_contracts.suites.lifecycle import Suite
from agentbox_contracts.suites.opening import OpenProcess

SEEDS = 1000
BATCH = 50
GIGABYTE = 1 << 30


@pytest.mark.soak
class TestSoakLocalProcessManager(WithAgents, Suite):
    slot = "orchestrator"

    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\norchestrator = "local-process-manager"\n'

    @pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
    async def test_every_agent_is_accounted_for(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents, first: int
    ) -> None:
        for seed in range(first, first + BATCH):
            await crash_at_random(seed, adapter, open_process, manifest, agents)

    async def test_a_gigabyte_arrives_whole(self, adapter: Orchestrator, agents: Agents) -> None:
        await flood(adapter, agents, GIGABYTE)
