"""How agents end: what is known of it, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentbox_contracts.errors import NotFound
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, is_alive, output, pids_of, started
from agentbox_contracts.suites.clauses import clause

__all__ = ["EndingClauses"]

# A tree that does what it can to survive: a grandchild in a session of its own, double-forked, deaf to SIGTERM.
HOSTILE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        break
os.write(1, b"%d\\n" % os.getpid())
time.sleep(60)
"""
DEAF = "trap '' TERM; echo $$; while :; do sleep 0.01; done"
POLITE = "trap 'sleep 0.1; echo bye; exit 7' TERM; echo $$; while :; do sleep 0.01; done"
# The command waits for a child that has something left to do when it is told to end.
FAMILY = """trap : TERM
(trap 'sleep 0.1; echo bye; exit 0' TERM; echo $$; while :; do sleep 0.01; done) &
wait; wait; exit 7"""
LEAVING = "setsid sleep 60 & sleep 60 & echo $!; exit 5"


class EndingClauses:
    """Status and terminate."""

    @clause("orchestrator.status.running")
    async def test_an_agent_that_runs_is_running(self, adapter: Orchestrator, agents: Agents) -> None:
        """The status of an agent that runs is `running`, with its pid and its start."""
        agent = await adapter.status((await started(adapter, agents.sleep())).id)

        assert agent.status == "running"
        assert {agent.pid} == agents.running()
        assert agent.started_at is not None

    @clause("orchestrator.status.exit-code")
    async def test_the_exit_code_is_known(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that ended by itself has its exit code."""
        ended = []
        for code in (0, 3, 255):
            agent = await adapter.spawn(agents.shell(f"exit {code}"))
            await events_of(adapter, agent.id)
            ended.append(await adapter.status(agent.id))

        assert [(agent.status, agent.exit_code, agent.signal) for agent in ended] == [
            ("exited", 0, None),
            ("exited", 3, None),
            ("exited", 255, None),
        ]

    @clause("orchestrator.status.signal")
    async def test_the_signal_is_known(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that a signal ended has the signal's name and no exit code."""
        ended = []
        for name in ("KILL", "SEGV", "USR1"):
            agent = await adapter.spawn(agents.shell(f"kill -{name} $$"))
            await events_of(adapter, agent.id)
            ended.append(await adapter.status(agent.id))

        assert [(agent.status, agent.exit_code, agent.signal) for agent in ended] == [
            ("exited", None, "SIGKILL"),
            ("exited", None, "SIGSEGV"),
            ("exited", None, "SIGUSR1"),
        ]

    @clause("orchestrator.status.times")
    async def test_the_times_are_in_order(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent was created before it started, and started before it ended."""
        agent = await adapter.spawn(agents.shell("sleep 0.05"))
        await events_of(adapter, agent.id)
        ended = await adapter.status(agent.id)

        assert ended.started_at is not None
        assert ended.ended_at is not None
        assert ended.created_at <= ended.started_at < ended.ended_at

    @clause("orchestrator.status.exited-is-over")
    async def test_an_exited_agent_has_left_nothing(self, adapter: Orchestrator, agents: Agents) -> None:
        """`exited` means that the command and every process it started are gone."""
        agent = await adapter.spawn(agents.shell(LEAVING))
        events = await events_of(adapter, agent.id)

        assert (events[-1].exit_code, agents.running()) == (5, set())

    @clause("orchestrator.status.not-found")
    async def test_the_status_of_nobody_is_not_found(self, adapter: Orchestrator) -> None:
        """The status of an agent that is not there is NotFound."""
        for agent_id in ("ag-none", "../../etc"):
            with pytest.raises(NotFound):
                await adapter.status(agent_id)

    @clause("orchestrator.terminate.whole-tree")
    async def test_terminate_leaves_no_descendant(self, adapter: Orchestrator, agents: Agents) -> None:
        """When terminate returns no descendant is alive, in whatever session, however it forked, deaf or not."""
        agent = await adapter.spawn(agents.python(HOSTILE))
        pids = await pids_of(adapter, agent.id, 3)
        await adapter.terminate(agent.id, grace_seconds=0.1)

        assert [pid for pid in pids if is_alive(pid)] == []

    @clause("orchestrator.terminate.answer")
    async def test_terminate_tells_how_it_ended(self, adapter: Orchestrator, agents: Agents) -> None:
        """Terminate returns the agent as it ended, the same as its status from then on."""
        agent = await started(adapter, agents.sleep())
        ended = await adapter.terminate(agent.id)

        assert (ended.status, ended.exit_code, ended.signal) == ("exited", None, "SIGTERM")
        assert await adapter.status(agent.id) == ended

    @clause("orchestrator.terminate.grace")
    async def test_an_agent_gets_to_finish(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that handles SIGTERM gets the grace to finish in its own way."""
        agent = await adapter.spawn(agents.shell(POLITE))
        await pids_of(adapter, agent.id, 1)
        ended = await adapter.terminate(agent.id, grace_seconds=20)

        assert ended.exit_code == 7
        assert output(await events_of(adapter, agent.id)).endswith(b"\nbye\n")

    @clause("orchestrator.terminate.group")
    async def test_its_children_get_to_finish_too(self, adapter: Orchestrator, agents: Agents) -> None:
        """The agent's children are told to end as well, and get the grace too."""
        agent = await adapter.spawn(agents.shell(FAMILY))
        await pids_of(adapter, agent.id, 1)
        await adapter.terminate(agent.id, grace_seconds=20)

        assert output(await events_of(adapter, agent.id)).endswith(b"\nbye\n")

    @clause("orchestrator.terminate.kills")
    async def test_what_is_deaf_is_killed(self, adapter: Orchestrator, agents: Agents) -> None:
        """What does not end within the grace is killed."""
        agent = await adapter.spawn(agents.shell(DEAF))
        await pids_of(adapter, agent.id, 1)
        ended = await adapter.terminate(agent.id, grace_seconds=0.1)

        assert (ended.signal, agents.running()) == ("SIGKILL", set())

    @clause("orchestrator.terminate.in-time")
    async def test_the_grace_is_what_was_given(self, adapter: Orchestrator, agents: Agents) -> None:
        """The grace is as long as the caller says, and no longer."""
        agent = await adapter.spawn(agents.shell(DEAF))
        await pids_of(adapter, agent.id, 1)
        began = time.monotonic()
        await adapter.terminate(agent.id, grace_seconds=0.5)

        assert 0.5 <= time.monotonic() - began < 3

    @clause("orchestrator.terminate.others-live")
    async def test_other_agents_live_on(self, adapter: Orchestrator, agents: Agents) -> None:
        """Terminate ends the one agent and no other."""
        one, other = [await started(adapter, agents.sleep()) for _ in range(2)]
        await adapter.terminate(one.id)

        assert agents.running() == {other.pid}

    @clause("orchestrator.terminate.again")
    async def test_ending_what_has_ended_changes_nothing(self, adapter: Orchestrator, agents: Agents) -> None:
        """Ending an agent that has ended changes nothing."""
        agent = await adapter.spawn(agents.shell("exit 9"))
        await events_of(adapter, agent.id)
        before = await adapter.status(agent.id)

        assert await adapter.terminate(agent.id) == before
        assert await adapter.status(agent.id) == before

    @clause("orchestrator.terminate.together")
    async def test_several_may_end_it_at_once(self, adapter: Orchestrator, agents: Agents) -> None:
        """Several who end an agent at once all hear the same."""
        agent = await started(adapter, agents.sleep())
        answers = await asyncio.gather(*(adapter.terminate(agent.id) for _ in range(4)))

        assert answers == [await adapter.status(agent.id)] * 4

    @clause("orchestrator.terminate.not-found")
    async def test_ending_nobody_is_not_found(self, adapter: Orchestrator) -> None:
        """Ending an agent that is not there is NotFound."""
        for agent_id in ("ag-none", "../../etc"):
            with pytest.raises(NotFound):
                await adapter.terminate(agent_id)
