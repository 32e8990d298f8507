"""What `agentbox agents logs` tells where events are long on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from agentbox.cli import _agents_output as output
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentStatus, Orchestrator

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = 50
"""How often others run before the next event comes: far longer than a timeout of nothing."""


class FarAway:
    """One agent, of which each event takes its time to come."""

    def __init__(self, status: AgentStatus, lines: list[bytes]) -> None:
        self._status = status
        self._lines = lines

    async def status(self, agent_id: str) -> Agent:
        return Agent(id=agent_id, status=self._status, command="true", cwd="/", created_at=NOW)

    async def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        ended = self._status == "exited"
        for kind, data in (("started", b""), *(("stdout", line) for line in self._lines), ("exited", b"")):
            if kind == "exited" and not ended:
                await asyncio.Event().wait()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            yield AgentEvent(type=cast("Any", kind), agent_id=agent_id, cursor="c", at=NOW, data=data)


class Told:
    """In place of the printer."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def print(self, event: AgentEvent) -> None:
        self.events.append(event)

    def flush(self) -> None:
        """Nothing waits."""


async def told(far: FarAway, tail: int | None = None) -> list[AgentEvent]:
    printer = Told()
    await output.print_so_far(cast("Orchestrator", far), "ag-1", cast("output.Printer", printer), tail)
    return printer.events


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "IDLE_SECONDS", 0.0)


@pytest.mark.parametrize(("tail", "lines"), [(None, [b"one\n", b"two\n"]), (1, [b"two\n"])])
async def test_all_of_an_agent_that_has_ended_is_told_however_slowly_it_comes(
    tail: int | None, lines: list[bytes]
) -> None:
    events = await told(FarAway("exited", [b"one\n", b"two\n"]), tail)
    assert [event.data for event in events if event.type == "stdout"] == lines


async def test_the_start_of_a_living_agent_is_waited_for() -> None:
    events = await told(FarAway("running", []))
    assert [event.type for event in events] == ["started"]
