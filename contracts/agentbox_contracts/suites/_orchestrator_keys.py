"""Keys: one agent and one input, whoever asks, however often, and whoever died meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentbox_contracts.errors import Conflict
from agentbox_contracts.orchestrator import AgentSpec, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, dies_in, events_of, output, started
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Point

__all__ = ["POINTS", "KeysClauses"]

POINTS: tuple[Point, ...] = ("received", "begun", "done")


class KeysClauses:
    """The same key, the same result."""

    @clause("orchestrator.keys.same-agent", needs=("keys",))
    async def test_the_same_key_is_the_same_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """The same key again is the same agent, and starts no other."""
        made = [await adapter.spawn(agents.sleep(), key=agents.mark) for _ in range(3)]

        assert {agent.id for agent in made} == {made[0].id}
        assert len(agents.running()) == 1

    @clause("orchestrator.keys.after-exit", needs=("keys",))
    async def test_a_key_outlives_its_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """The key of an agent that has ended is still that agent's."""
        agent = await adapter.spawn(agents.spec("true"), key=agents.mark)
        await events_of(adapter, agent.id)

        assert await adapter.spawn(agents.spec("true"), key=agents.mark) == await adapter.status(agent.id)

    @clause("orchestrator.keys.other-key", needs=("keys",))
    async def test_another_key_is_another_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """Another key is another agent."""
        keys = (agents.mark, f"{agents.mark} ", agents.mark.upper(), f"../{agents.mark}", f"{agents.mark}é")
        made = [await adapter.spawn(agents.spec("true"), key=key) for key in keys]

        assert len({agent.id for agent in made}) == len(keys)

    @clause("orchestrator.keys.other-spec", needs=("keys",))
    async def test_the_same_key_for_another_spec_is_a_conflict(self, adapter: Orchestrator, agents: Agents) -> None:
        """A key that was used for another spec is a Conflict."""
        await adapter.spawn(agents.spec("true"), key=agents.mark)
        for spec in (agents.spec("false"), agents.spec("true", "x"), agents.spec("true", bead_id="bd-1")):
            with pytest.raises(Conflict):
                await adapter.spawn(spec, key=agents.mark)

    @clause("orchestrator.keys.together", needs=("keys",))
    async def test_many_at_once_start_one(self, open_adapter: OpenAdapter, manifest: str, agents: Agents) -> None:
        """Of many who use one key at once, all get the one agent."""
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            made = await asyncio.gather(*((one, other)[n % 2].spawn(agents.sleep(), key=agents.mark) for n in range(8)))

        assert {agent.id for agent in made} == {made[0].id}
        assert len(agents.running()) == 1

    @clause("orchestrator.keys.processes", needs=("keys",))
    async def test_two_processes_start_one(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents, tmp_path: Path
    ) -> None:
        """Of two processes that use one key at once, both get the one agent."""
        spec, starts = _counting(agents, tmp_path)
        async with open_process(manifest) as other:
            made = await asyncio.gather(
                *((adapter, other)[n % 2].spawn(spec, key=f"{agents.mark}-{n // 2}") for n in range(8))
            )
        for agent in made:
            await events_of(adapter, agent.id)

        assert [agent.id for agent in made[::2]] == [agent.id for agent in made[1::2]]
        assert len(starts.read_text().splitlines()) == 4

    @clause("orchestrator.keys.crash", needs=("keys",))
    async def test_a_key_outlives_a_crash(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents, tmp_path: Path
    ) -> None:
        """A key that was used by a process that died, wherever it died, is still one agent."""
        spec, starts = _counting(agents, tmp_path)
        for point in POINTS:
            key = f"{agents.mark}-{point}"
            async with open_process(manifest, crash=Crash(point, "spawn")) as dying:
                await dies_in(dying, dying.spawn(spec, key=key))
            await events_of(adapter, (await adapter.spawn(spec, key=key)).id)

        assert len(await agents.listed(adapter)) == len(POINTS)
        assert len(starts.read_text().splitlines()) == len(POINTS)

    @clause("orchestrator.keys.input-once", needs=("keys", "send"))
    async def test_the_same_key_writes_once(self, adapter: Orchestrator, agents: Agents) -> None:
        """Input with the same key is written once."""
        agent = await adapter.spawn(agents.cat())
        for _ in range(3):
            await adapter.send(agent.id, b"once\n", key="a")
        await adapter.send(agent.id, b"twice\n", end=True, key="b")

        assert output(await events_of(adapter, agent.id)) == b"once\ntwice\n"

    @clause("orchestrator.keys.input-after-exit", needs=("keys", "send"))
    async def test_taken_input_stays_taken(self, adapter: Orchestrator, agents: Agents) -> None:
        """Input that an agent had taken is taken, also when the agent has ended meanwhile."""
        agent = await adapter.spawn(agents.cat())
        await adapter.send(agent.id, b"last\n", end=True, key="a")
        await events_of(adapter, agent.id)
        try:
            await adapter.send(agent.id, b"last\n", end=True, key="a")
        except Conflict as error:
            pytest.fail(f"it was refused: {error.message}")

    @clause("orchestrator.keys.input-crash", needs=("keys", "send"))
    async def test_input_is_written_once_over_a_crash(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Input whose sender died, wherever it died, is written once when it is sent again with its key."""
        agent = await started(adapter, agents.cat())
        for point in POINTS:
            async with open_process(manifest, crash=Crash(point, "send")) as dying:
                await dies_in(dying, dying.send(agent.id, f"{point}\n".encode(), key=point))
            await adapter.send(agent.id, f"{point}\n".encode(), key=point)
        await adapter.send(agent.id, end=True)

        assert output(await events_of(adapter, agent.id)).decode().split() == list(POINTS)

    @clause("orchestrator.keys.input-processes", needs=("keys", "send"))
    async def test_two_processes_write_once(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Input that two processes send with one key is written once."""
        agent = await started(adapter, agents.cat())
        async with open_process(manifest) as other:
            await asyncio.gather(*((adapter, other)[n % 2].send(agent.id, b"x\n", key=f"k{n // 2}") for n in range(8)))
        await adapter.send(agent.id, end=True)

        assert output(await events_of(adapter, agent.id)) == b"x\n" * 4


def _counting(agents: Agents, folder: Path) -> tuple[AgentSpec, Path]:
    """An agent that leaves a line in a file each time it starts, and the file."""
    starts = folder / "starts"
    return agents.shell('echo $$ >> "$1"', str(starts)), starts
