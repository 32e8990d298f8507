"""What becomes of agents when whoever started them dies, stands still, or changes its mind."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest

from agentbox_contracts.errors import Conflict
from agentbox_contracts.orchestrator import Agent, AgentSpec, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, dies_in, events_of, eventually, output, started
from agentbox_contracts.suites._orchestrator_keys import POINTS
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenProcess

__all__ = ["CrashClauses", "crash_at_random"]

SEEDS = range(5)


class CrashClauses:
    """Processes that are killed, stopped and resumed, and calls that are cancelled."""

    @clause("orchestrator.crash.none-unknown")
    async def test_nothing_runs_that_is_not_listed(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Wherever a process dies while it starts an agent, nothing runs that is not listed."""
        for point in POINTS:
            async with open_process(manifest, crash=Crash(point, "spawn")) as dying:
                await dies_in(dying, dying.spawn(agents.sleep()))

        await _all_listed(adapter, agents)

    @clause("orchestrator.crash.acknowledged")
    async def test_what_was_answered_for_is_known(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """An agent that spawn has answered for is known, also when the process dies at once."""
        async with open_process(manifest) as dying:
            agent = await dying.spawn(agents.sleep())
            await dying.kill()

        assert [known.id for known in await agents.listed(adapter)] == [agent.id]

    @clause("orchestrator.crash.adopted")
    async def test_agents_of_the_dead_can_be_ended(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """The agents of a process that died are known as they are, and can be ended."""
        async with open_process(manifest) as dying:
            agent = await dying.spawn(agents.sleep())
            await dying.kill()
        found = await adapter.status(agent.id)

        assert (found.status == "running") is bool(agents.running())
        assert (await adapter.terminate(agent.id)).status == "exited"
        assert agents.running() == set()

    @clause("orchestrator.crash.output")
    async def test_output_and_exit_are_known(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """The output and the exit of an agent are known, also when whoever started it died meanwhile."""
        async with open_process(manifest) as dying:
            agent = await dying.spawn(agents.shell("echo one; sleep 0.2; echo two; exit 6"))
            await dying.kill()
        events = await events_of(adapter, agent.id)

        assert (output(events), events[-1].exit_code) == (b"one\ntwo\n", 6)

    @clause("orchestrator.crash.terminate")
    async def test_an_ending_cut_short_can_be_repeated(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Wherever a process dies while it ends an agent, another can end it."""
        for point in POINTS:
            agent = await started(adapter, agents.sleep())
            async with open_process(manifest, crash=Crash(point, "terminate")) as dying:
                await dies_in(dying, dying.terminate(agent.id))
            assert (await adapter.terminate(agent.id)).signal == "SIGTERM"
            assert agents.running() == set()

    @clause("orchestrator.crash.any-moment")
    async def test_a_process_may_die_at_any_moment(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """A process may die at any moment, and every agent is accounted for."""
        for seed in SEEDS:
            await crash_at_random(seed, adapter, open_process, manifest, agents)

    @clause("orchestrator.stale.status")
    async def test_who_was_stopped_sees_the_end(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """A process that stood still while its agent was ended sees that it has ended."""
        async with open_process(manifest) as sleeper:
            ended, (answer,) = await _ended_meanwhile(adapter, sleeper, agents, "status")

        assert answer == ended

    @clause("orchestrator.stale.terminate")
    async def test_who_was_stopped_ends_nothing_twice(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """A process that stood still while its agent was ended, and ends it too, changes nothing."""
        async with open_process(manifest) as sleeper:
            ended, (answer,) = await _ended_meanwhile(adapter, sleeper, agents, "terminate")

        assert answer == ended
        assert await adapter.status(ended.id) == ended

    @clause("orchestrator.stale.input", needs=("send",))
    async def test_who_was_stopped_sends_nothing(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """A process that stood still while its agent was ended cannot send to it: Conflict."""
        async with open_process(manifest) as sleeper:
            with pytest.raises(Conflict):
                await _ended_meanwhile(adapter, sleeper, agents, "send")

    @clause("orchestrator.cancel.spawn")
    async def test_a_cancelled_spawn_is_one_agent_or_none(self, adapter: Orchestrator, agents: Agents) -> None:
        """A cancelled spawn leaves one whole agent in the list or none, and nothing runs that is not listed."""
        for turns in range(16):
            # Told apart by what they run: what was begun may still appear while the next is on its way.
            spawning = asyncio.ensure_future(adapter.spawn(agents.spec("sleep", f"6{turns:02d}")))
            for _ in range(turns):
                await asyncio.sleep(0.0005 if turns > 8 else 0)
            spawning.cancel()
            await asyncio.wait([spawning])

        assert await eventually(lambda: _are_whole(adapter, agents))
        started = Counter(agent.args for agent in await agents.listed(adapter))
        assert max(started.values(), default=0) <= 1


async def crash_at_random(
    seed: int, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
) -> None:
    """Kill a process at a random moment while it starts agents, and see that every agent is accounted for."""
    agents = Agents(f"{agents.mark}-{seed}")
    try:
        async with open_process(manifest) as dying:
            answered = await _spawn_and_die(dying, random.Random(seed), agents)
        await _accounted(adapter, agents, answered)
        await _all_listed(adapter, agents)
    finally:
        agents.end()


async def _spawn_and_die(dying: Any, chance: random.Random, agents: Agents) -> list[Agent]:
    """Agents that *dying* has answered for before it died, which was a little after some number of answers."""
    count = chance.randint(1, 6)
    enough = asyncio.Semaphore(0)
    answered: list[Agent] = []

    async def spawn(spec: AgentSpec) -> None:
        with contextlib.suppress(ConnectionError):
            answered.append(await dying.spawn(spec))
        enough.release()

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            short = agents.shell("echo $1; exit $1", str(number))
            tasks.create_task(spawn(agents.sleep() if chance.random() < 0.3 else short))
        for _ in range(chance.randint(0, count)):
            await enough.acquire()
        await asyncio.sleep(chance.uniform(0, 0.01))
        await dying.kill()
    return answered


async def _accounted(adapter: Orchestrator, agents: Agents, answered: list[Agent]) -> None:
    """See that what was answered for is listed, and that of all that was started the output and the exit are known."""
    listed = {agent.id: agent for agent in await agents.listed(adapter)}
    assert {agent.id for agent in answered} <= listed.keys()
    for agent in listed.values():
        if agent.pid is not None and agent.command != "sleep":
            events = await events_of(adapter, agent.id)
            assert (output(events).decode(), events[-1].exit_code) == (f"{agent.args[-1]}\n", int(agent.args[-1]))


async def _all_listed(adapter: Orchestrator, agents: Agents) -> None:
    """See that every process that runs is a listed agent's, and end them all."""
    for _ in range(10):
        running = agents.running()  # before the list: what starts meanwhile has its record before its process
        listed = await agents.listed(adapter)
        assert running <= {agent.pid for agent in listed}
        live = {agent.pid: agent.id for agent in listed if agent.status == "running"}
        if not live:
            return
        for agent_id in live.values():
            await adapter.terminate(agent_id, grace_seconds=0)
        assert not agents.running() & live.keys()


async def _ended_meanwhile(
    adapter: Orchestrator, sleeper: Any, agents: Agents, method: str
) -> tuple[Agent, tuple[Any, ...]]:
    """End an agent of *sleeper* while it stands still with a call of *method* before it. How it ended, its answers."""
    agent = await sleeper.spawn(agents.sleep())
    await sleeper.status(agent.id)
    sleeper.stop()
    try:
        call = asyncio.ensure_future(getattr(sleeper, method)(agent.id))
        await asyncio.sleep(0)
        ended = await adapter.terminate(agent.id)
    finally:
        sleeper.resume()
    return ended, (await call,)


async def _are_whole(adapter: Orchestrator, agents: Agents) -> bool:
    """Whether every listed agent runs, and nothing else does."""
    return {agent.pid for agent in await agents.listed(adapter)} == agents.running()
