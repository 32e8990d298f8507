"""Where only so many agents may run at once: who waits, for how long, and who does not wait any more."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentbox_contracts.context import session_id
from agentbox_contracts.orchestrator import Agent, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

__all__ = ["BOUND", "TurnsClauses"]

BOUND = 2
FAR = ("external", "stdio-bridge")
WHILE = 0.3
"""How long to see that something does not happen."""


class TurnsClauses:
    """Spawn under a bound."""

    @pytest.fixture
    def crowded(self, manifest: str) -> str:
        """Manifest text for the adapter under test with room for two agents, in a store of its own."""
        impl = re.search(r'orchestrator\s*=\s*"([^"]+)"', manifest)
        assert impl is not None
        if impl[1] in FAR:
            pytest.skip(f"how many agents {impl[1]} may run is set at the other side: override the fixture `crowded`")
        return f'{manifest}\n[orchestrator.{impl[1]}]\npath = "crowded"\nmax_agents = {BOUND}\n'

    @clause("orchestrator.turns.bound", needs=("turns",))
    async def test_no_more_run_than_may(self, open_adapter: OpenAdapter, crowded: str, agents: Agents) -> None:
        """No more agents run at once than may; who comes too many waits, and is no agent until its turn comes."""
        async with open_adapter(crowded) as adapter, _full(adapter, agents) as running:
            late = asyncio.ensure_future(adapter.spawn(agents.sleep()))
            await asyncio.wait([late], timeout=WHILE)
            assert (late.done(), len(agents.running()), len(await agents.listed(adapter))) == (False, BOUND, BOUND)
            await adapter.terminate(running[0].id, grace_seconds=0)
            assert (await _soon(late)).id not in [agent.id for agent in running]

    @clause("orchestrator.turns.in-order", needs=("turns",))
    async def test_a_caller_s_turns_are_in_its_order(
        self, open_adapter: OpenAdapter, crowded: str, agents: Agents
    ) -> None:
        """The spawns of one caller get their turns in the order in which they were asked for."""
        async with open_adapter(crowded) as adapter:
            assert await _turns(adapter, agents, ["a1", "a2", "a3", "a4"]) == ["a1", "a2", "a3", "a4"]

    @clause("orchestrator.turns.fair", needs=("turns",))
    async def test_callers_take_turns(self, open_adapter: OpenAdapter, crowded: str, agents: Agents) -> None:
        """However many spawns of one session wait, another session's only one waits for one of them at most."""
        async with open_adapter(crowded) as adapter:
            order = await _turns(adapter, agents, [*(f"a{n}" for n in range(6)), "b0"])
            assert order.index("b0") <= 1

    @clause("orchestrator.turns.cancelled", needs=("turns",))
    async def test_who_is_cancelled_leaves_the_queue(
        self, open_adapter: OpenAdapter, crowded: str, agents: Agents
    ) -> None:
        """A spawn that is cancelled while it waits starts nothing, and takes nobody's turn."""
        async with open_adapter(crowded) as adapter, _full(adapter, agents) as running:
            first, second = (asyncio.ensure_future(adapter.spawn(agents.sleep())) for _ in range(2))
            await asyncio.wait([first], timeout=WHILE)
            first.cancel()
            await asyncio.wait([first])
            await adapter.terminate(running[0].id, grace_seconds=0)
            await _soon(second)
            await asyncio.sleep(WHILE)
            assert len(await agents.listed(adapter)) == BOUND + 1

    @clause("orchestrator.turns.dead-caller", needs=("turns",))
    async def test_the_dead_leave_the_queue(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, crowded: str, agents: Agents
    ) -> None:
        """What a process that died was waiting to start takes nobody's turn for good, and nothing runs unlisted."""
        async with open_adapter(crowded) as adapter, _full(adapter, agents) as running:
            async with open_process(crowded) as dying:
                calls = [asyncio.ensure_future(dying.spawn(agents.sleep())) for _ in range(3)]
                await asyncio.wait(calls, timeout=WHILE)
                await dying.kill()
                await asyncio.gather(*calls, return_exceptions=True)
            for agent in running:
                await adapter.terminate(agent.id, grace_seconds=0)
            await _soon(asyncio.ensure_future(_has_room(adapter, agents)))
            assert agents.running() <= {agent.pid for agent in await agents.listed(adapter)}


@asynccontextmanager
async def _full(adapter: Any, agents: Agents) -> AsyncIterator[list[Agent]]:
    """As many agents as may run; whatever runs at the end is ended."""
    try:
        yield [await adapter.spawn(agents.sleep()) for _ in range(BOUND)]
    finally:
        await _end_all(adapter, agents)


async def _end_all(adapter: Any, agents: Agents) -> None:
    for agent in await agents.listed(adapter):
        if agent.is_alive:
            await adapter.terminate(agent.id, grace_seconds=0)


async def _has_room(adapter: Any, agents: Agents) -> None:
    """Spawn until one is started, whatever a dead caller's spawns that a far side carries to their end hold up."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await adapter.spawn(agents.sleep())
                return
        await _end_all(adapter, agents)


async def _turns(adapter: Orchestrator, agents: Agents, names: list[str]) -> list[str]:
    """The order in which spawns get their turns; the letter of a name is its session, and one agent is in the way."""
    order: list[str] = []
    async with _full(adapter, agents) as running:
        spawns = []
        for name in names:
            spawns.append(asyncio.ensure_future(_spawn(adapter, agents, name)))
            await asyncio.sleep(0.05)
        await adapter.terminate(running[0].id, grace_seconds=0)
        while spawns:
            done, _ = await asyncio.wait(spawns, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            assert done, f"after {order} nobody had a turn"
            for spawn in done:
                spawns.remove(spawn)
                name, agent = spawn.result()
                order.append(name)
                await adapter.terminate(agent.id, grace_seconds=0)
    return order


async def _spawn(adapter: Orchestrator, agents: Agents, name: str) -> tuple[str, Agent]:
    token = session_id.set(f"session-{name[0]}")
    try:
        return name, await adapter.spawn(agents.sleep())
    finally:
        session_id.reset(token)


async def _soon(call: asyncio.Future[Any]) -> Any:
    await asyncio.wait([call], timeout=10)
    assert call.done(), "it did not get its turn"
    return call.result()
