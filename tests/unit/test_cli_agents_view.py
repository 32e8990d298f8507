"""How agents look on the command line, whoever tells of them, and the exit codes that stand for them."""

from __future__ import annotations

import argparse
import io
import signal
from datetime import UTC, datetime
from typing import Any, cast

import attrs
import pytest
from rich.console import Console

from agentbox.cli import _agents_view as view
from agentbox.cli.agents import _look_again
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import NotFound
from agentbox_contracts.orchestrator import Agent, AgentEvent, Orchestrator

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGENT = Agent(id="ag-1", status="running", command="true", cwd="/", created_at=NOW)
WANTED = argparse.Namespace(all=False, status=None, name=None, bead=None)


class Changing:
    """Agents that are there, and those alone."""

    def __init__(self, *agents: Agent) -> None:
        self.agents = {agent.id: agent for agent in agents}

    async def status(self, agent_id: str) -> Agent:
        if agent_id not in self.agents:
            raise NotFound(f"there is no agent {agent_id!r}")
        return self.agents[agent_id]

    async def list_agents(self, *, status: str, **_: Any) -> Page[Agent]:
        return Page(items=[agent for agent in self.agents.values() if agent.status == status])


async def test_a_watch_goes_on_when_an_agent_it_saw_was_withdrawn() -> None:
    there, seen = Changing(attrs.evolve(AGENT, status="starting")), dict[str, Agent]()
    await _look_again(cast("Orchestrator", there), WANTED, seen)
    there.agents = {"ag-2": attrs.evolve(AGENT, id="ag-2")}
    await _look_again(cast("Orchestrator", there), WANTED, seen)
    assert list(seen) == ["ag-2"]


async def test_a_watch_keeps_those_that_ended_meanwhile() -> None:
    there, seen = Changing(AGENT), dict[str, Agent]()
    await _look_again(cast("Orchestrator", there), WANTED, seen)
    there.agents = {"ag-1": attrs.evolve(AGENT, status="exited", exit_code=3)}
    for _ in range(2):
        await _look_again(cast("Orchestrator", there), WANTED, seen)
        assert seen["ag-1"].exit_code == 3
        there.agents = {}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SIGTERM", 128 + signal.SIGTERM),
        ("SIGRTMIN", 128 + signal.SIGRTMIN),
        ("SIGRTMIN+3", 128 + signal.SIGRTMIN + 3),
        ("SIGNOTHING", 1),
    ],
)
def test_a_signal_is_a_code_as_shells_have_it(name: str, code: int) -> None:
    event = AgentEvent(type="exited", agent_id="ag-1", cursor="c", at=NOW, signal=name)
    assert view.exit_code(event) == code


def test_nothing_in_the_live_table_steers_the_terminal() -> None:
    forged = "\x1b[2J\x1b]0;owned\x07\r\n"
    agent = attrs.evolve(
        AGENT, id=f"ag-{forged}", status="exited", command=forged, args=(forged,), name=forged, signal=forged
    )
    screen = Console(file=io.StringIO(), width=300, color_system=None, force_terminal=True)
    screen.print(view.live_table([agent], now=NOW))
    shown = cast("io.StringIO", screen.file).getvalue()
    assert shown.count("\n") == 3
    assert not {"\x1b", "\x07", "\r"} & set(shown)
