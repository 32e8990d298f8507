"""How agents look on the command line, whoever tells of them, and the exit codes that stand for them."""

from __future__ import annotations

import io
import signal
from datetime import UTC, datetime
from typing import cast

import attrs
import pytest
from rich.console import Console

from agentbox.cli import _agents_view as view
from agentbox_contracts.orchestrator import Agent, AgentEvent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGENT = Agent(id="ag-1", status="running", command="true", cwd="/", created_at=NOW)


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
