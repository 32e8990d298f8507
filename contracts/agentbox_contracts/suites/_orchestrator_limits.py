"""Limits: each holds for all processes of an agent, whoever is there to see it, and says so when it ends one."""

from __future__ import annotations

from pathlib import Path

import attrs

from agentbox_contracts.errors import AdapterDisabled, SpawnError
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec, Limits, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, eventually, output
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenProcess

__all__ = ["LimitsClauses"]

MEGABYTE = 1 << 20
FLOOD = "while :; do head -c 100000 /dev/zero; done"
# Each process stays below the limit; together they do not.
HOARD = "import os, time\nfor _ in range(2): os.fork()\nheld = bytearray(os.urandom(30 << 20))\ntime.sleep(60)"
SPIN = "import os\nfor _ in range(2): os.fork()\nwhile True: pass"
BOMB = "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(60)"
OPEN = """
import os
files = []
try:
    while len(files) < 100: files.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
print(files[-1] + 1)
"""


class LimitsClauses:
    """Limits, and the honesty of declaring them."""

    @clause("orchestrator.limits.wall", needs=("limits",))
    async def test_an_agent_ends_when_its_time_is_over(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that runs for longer than its `wall_seconds` is ended, with all that it started."""
        agent, _ = await _ended(adapter, agents.shell("setsid sleep 60 & sleep 60"), Limits(wall_seconds=0.3))

        assert (agent.limit, agents.running()) == ("wall_seconds", set())

    @clause("orchestrator.limits.idle", needs=("limits",))
    async def test_a_silent_agent_ends(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that has been silent for its `idle_seconds` is ended, and one that speaks is not."""
        spec = agents.shell("for n in 1 2 3 4; do sleep 0.2; echo $n; done; sleep 60")
        agent, events = await _ended(adapter, spec, Limits(idle_seconds=0.6))

        assert (agent.limit, output(events)) == ("idle_seconds", b"1\n2\n3\n4\n")

    @clause("orchestrator.limits.output", needs=("limits",))
    async def test_a_flood_ends(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that writes more than its `output_bytes` is ended."""
        agent, _ = await _ended(adapter, agents.shell(FLOOD), Limits(output_bytes=MEGABYTE))

        assert agent.limit == "output_bytes"

    @clause("orchestrator.limits.memory", needs=("limits",))
    async def test_memory_is_that_of_all_processes(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent whose processes together take more than its `memory_bytes` is ended, though none of them does."""
        agent, _ = await _ended(adapter, agents.python(HOARD), Limits(memory_bytes=80 * MEGABYTE))

        assert (agent.limit, agents.running()) == ("memory_bytes", set())

    @clause("orchestrator.limits.cpu", needs=("limits",))
    async def test_cpu_time_is_that_of_all_processes(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent whose processes together use more than its `cpu_seconds` is ended."""
        agent, _ = await _ended(adapter, agents.python(SPIN), Limits(cpu_seconds=0.4))

        assert (agent.limit, agents.running()) == ("cpu_seconds", set())

    @clause("orchestrator.limits.processes", needs=("limits",))
    async def test_a_bomb_of_forks_ends(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that has more than its `processes` at once is ended, with all of them."""
        agent, _ = await _ended(adapter, agents.python(BOMB), Limits(processes=8))

        assert (agent.limit, agents.running()) == ("processes", set())

    @clause("orchestrator.limits.open-files", needs=("limits",))
    async def test_no_more_files_can_be_opened(self, adapter: Orchestrator, agents: Agents) -> None:
        """A process of an agent cannot have more than `open_files` open."""
        _, events = await _ended(adapter, agents.python(OPEN), Limits(open_files=16))

        assert output(events) == b"16\n"

    @clause("orchestrator.limits.told", needs=("limits",))
    async def test_the_limit_is_told(self, adapter: Orchestrator, agents: Agents) -> None:
        """The status and the `exited` event of an agent that a limit ended say which, and by how much."""
        agent, events = await _ended(adapter, agents.sleep(), Limits(wall_seconds=0.25))

        assert agent.limit == "wall_seconds"
        assert events[-1].reason == agent.reason
        assert "wall_seconds" in agent.reason
        assert "0.25" in agent.reason

    @clause("orchestrator.limits.within", needs=("limits",))
    async def test_within_its_limits_an_agent_is_left_alone(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that stays within its limits ends as it would without them."""
        limits = Limits(
            wall_seconds=20,
            idle_seconds=20,
            output_bytes=10,
            memory_bytes=200 * MEGABYTE,
            cpu_seconds=20,
            open_files=100,
            processes=2,
        )
        agent, events = await _ended(adapter, agents.shell("echo 123456789; sleep 0.3; exit 3"), limits)

        assert (agent.exit_code, agent.limit, agent.reason, output(events)) == (3, None, "", b"123456789\n")

    @clause("orchestrator.limits.dead-host", needs=("limits",))
    async def test_a_limit_outlives_who_set_it(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """A limit holds also when the process that started the agent is dead."""
        async with open_process(manifest) as dying:
            agent = await dying.spawn(attrs.evolve(agents.sleep(), limits=Limits(wall_seconds=0.5)))
            await dying.kill()

        async def is_over() -> bool:
            return (await adapter.status(agent.id)).limit == "wall_seconds"

        assert await eventually(is_over, seconds=5)
        assert agents.running() == set()

    @clause("orchestrator.capabilities.limits")
    async def test_limits_that_are_not_declared_are_refused(self, adapter: Orchestrator, agents: Agents) -> None:
        """Limits are refused with AdapterDisabled by an adapter without `limits`, and by no other."""
        try:
            await adapter.spawn(attrs.evolve(agents.spec("true"), limits=Limits(wall_seconds=60)))
            refused = False
        except AdapterDisabled:
            refused = True

        assert refused is ("limits" not in adapter.capabilities)

    @clause("orchestrator.sandbox.never-left-out")
    async def test_a_sandbox_is_there_or_refused(self, adapter: Orchestrator, agents: Agents, tmp_path: Path) -> None:
        """An agent is in its sandbox or is refused: with SpawnError where it cannot be had, else AdapterDisabled."""
        outside, workspace = tmp_path / "outside", tmp_path / "workspace"
        workspace.mkdir()
        spec = agents.shell('touch "$1" inside', str(outside), cwd=str(workspace))
        refusal = SpawnError if "sandbox" in adapter.capabilities else AdapterDisabled
        try:
            agent = await adapter.spawn(attrs.evolve(spec, sandbox="bubblewrap"))
        except refusal:
            assert agents.running() == set()
            return
        await events_of(adapter, agent.id)

        assert ((workspace / "inside").exists(), outside.exists()) == (True, False)


async def _ended(adapter: Orchestrator, spec: AgentSpec, limits: Limits) -> tuple[Agent, list[AgentEvent]]:
    """The agent that *spec* with *limits* became, once it is over, and its events."""
    agent = await adapter.spawn(attrs.evolve(spec, limits=limits))
    events = await events_of(adapter, agent.id)
    return await adapter.status(agent.id), events
