"""An embedding application may run on another loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop

import agentbox
from agentbox_contracts.orchestrator import AgentSpec


async def work(state: Path) -> tuple[object, list[object]]:
    async with agentbox.open_app(overrides={"state": {"path": str(state)}}) as app:
        epic = await app.adapters.beads.create_epic(title="Ship it")
        await app.adapters.beads.claim(epic.id, actor="ada")
        agent = await app.adapters.orchestrator.spawn(AgentSpec(command="echo", args=("hello",)))
        events: list[object] = [event.type async for event in app.adapters.orchestrator.stream(agent.id)]
        return (await app.adapters.beads.close(epic.id, actor="ada")).outcome, events


def test_the_app_works_on_uvloop(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work(tmp_path)) == ("done", ["started", "stdout", "exited"])
