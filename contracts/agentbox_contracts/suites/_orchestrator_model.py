"""The orchestrator against a model of it in plain Python, in whatever order Hypothesis thinks of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from agentbox_contracts.errors import Conflict
from agentbox_contracts.orchestrator import AgentSpec, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, output
from agentbox_contracts.suites.clauses import clause

__all__ = ["ModelClauses"]

T = TypeVar("T")

SETTINGS = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


@attrs.define
class Modelled:
    """What an agent should be."""

    takes_input: bool
    is_alive: bool = True
    sent: bytes = b""
    exit_code: int | None = None
    signal: str | None = None

    @property
    def expected(self) -> tuple[str, int | None, str | None]:
        """Its status, exit code and signal."""
        return "running" if self.is_alive else "exited", self.exit_code, self.signal


class ModelClauses:
    """One clause."""

    @clause("orchestrator.model.agrees", needs=("send",))
    async def test_it_does_as_the_model_does(self, adapter: Orchestrator, agents: Agents) -> None:
        """Whatever is done in whatever order, agents are as a model in plain Python says they are."""
        members = {"adapter": adapter, "agents": agents, "loop": asyncio.get_running_loop()}
        machine = type("Machine", (OrchestratorMachine,), members)
        try:
            await asyncio.to_thread(run_state_machine_as_test, machine, settings=SETTINGS)
        except Flaky as error:
            pytest.fail(f"it did not do the same each time: {error}")


class OrchestratorMachine(RuleBasedStateMachine):
    """Agents that sleep, say what they are sent, or end at once; and what is done to them."""

    adapter: Orchestrator
    agents: Agents
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, Modelled] = {}

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """What *call* gives in the loop of the adapter."""
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(30)

    def pick(self, data: st.DataObject) -> str:
        """One of the agents."""
        return data.draw(st.sampled_from([*self.model]))

    def spawn(self, spec: AgentSpec) -> str:
        """A new agent, newer than all before it."""
        agent = self.run(self.adapter.spawn(spec))
        assert agent.id not in self.model
        self.model[agent.id] = Modelled(spec.stdin == "pipe")
        return agent.id

    @rule()
    def spawn_one_that_stays(self) -> None:
        self.spawn(self.agents.sleep())

    @rule()
    def spawn_one_that_listens(self) -> None:
        self.spawn(self.agents.cat())

    @rule(code=st.integers(0, 255))
    def spawn_one_that_ends(self, code: int) -> None:
        agent_id = self.spawn(self.agents.shell(f"exit {code}"))
        self.run(events_of(self.adapter, agent_id))
        self.model[agent_id].is_alive, self.model[agent_id].exit_code = False, code

    @precondition(lambda self: self.model)
    @rule(data=st.data(), piece=st.binary(min_size=1, max_size=20))
    def send(self, data: st.DataObject, piece: bytes) -> None:
        agent_id = self.pick(data)
        model = self.model[agent_id]
        if model.is_alive and model.takes_input:
            self.run(self.adapter.send(agent_id, piece))
            model.sent += piece
        else:
            self.refused(agent_id, piece)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def end_input(self, data: st.DataObject) -> None:
        agent_id = self.pick(data)
        model = self.model[agent_id]
        if model.is_alive and model.takes_input:
            self.finish(agent_id, model)
        else:
            self.refused(agent_id, b"")

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        agent_id = self.pick(data)
        model = self.model[agent_id]
        if model.is_alive:
            model.is_alive, model.signal = False, "SIGTERM"
        ended = self.run(self.adapter.terminate(agent_id))
        assert (ended.status, ended.exit_code, ended.signal) == model.expected

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def status(self, data: st.DataObject) -> None:
        agent_id = self.pick(data)
        agent = self.run(self.adapter.status(agent_id))
        assert (agent.status, agent.exit_code, agent.signal) == self.model[agent_id].expected

    @rule()
    def list(self) -> None:
        listed = [agent for agent in self.run(self.agents.listed(self.adapter)) if agent.id in self.model]
        assert [agent.id for agent in listed] == [*self.model][::-1]
        assert [(agent.status, agent.exit_code, agent.signal) for agent in listed] == [
            model.expected for model in [*self.model.values()][::-1]
        ]

    def finish(self, agent_id: str, model: Modelled) -> None:
        """End the input of an agent that listens, and see that it has said all that it was sent."""
        self.run(self.adapter.send(agent_id, end=True))
        assert output(self.run(events_of(self.adapter, agent_id))) == model.sent
        model.is_alive, model.exit_code = False, 0

    def refused(self, agent_id: str, piece: bytes) -> None:
        """See that input is refused."""
        with pytest.raises(Conflict):
            self.run(self.adapter.send(agent_id, piece, end=True))

    def teardown(self) -> None:
        for agent_id, model in self.model.items():
            if model.is_alive and model.takes_input:
                self.finish(agent_id, model)
            elif model.is_alive:
                self.run(self.adapter.terminate(agent_id, grace_seconds=0))
