"""A call of each method of the orchestrator, for a network in trouble, and a stream that runs through it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import Any

import attrs

from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.orchestrator import AgentEvent, Orchestrator
from agentbox_contracts.suites._network_troubles import Trouble
from agentbox_contracts.suites._network_watch import PATIENCE, Network, Sample
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, output
from agentbox_contracts.suites.faults import Proxy

__all__ = ["Followed", "followed", "samples"]

PAGE = 5
TROUBLED_SECONDS = 0.4
TALK = "i=0; while [ $i -lt 30 ]; do echo $i; i=$((i+1)); sleep 0.03; done"
TOLD = ["started", *map(str, range(30)), "exited"]
MIDDLE = 5


@attrs.frozen
class Scene:
    """A word, and an agent where one is needed."""

    word: str
    agent: str = ""


def samples(agents: Agents) -> dict[str, Sample]:
    """One of each method that is no stream."""

    async def nobody(adapter: Orchestrator, word: str) -> Scene:
        return Scene(word)

    async def sleeper(adapter: Orchestrator, word: str) -> Scene:
        return Scene(word, (await adapter.spawn(agents.sleep())).id)

    async def listener(adapter: Orchestrator, word: str) -> Scene:
        return Scene(word, (await adapter.spawn(agents.cat())).id)

    return {
        "spawn": Sample(
            arrange=nobody,
            call=lambda adapter, scene, key: adapter.spawn(agents.spec("true", name=scene.word), key=key),
            is_right=lambda agent, scene: bool(agent.name == scene.word),
            effects=_spawned,
        ),
        "send": Sample(
            arrange=listener,
            call=lambda adapter, scene, key: adapter.send(scene.agent, f"{scene.word}\n".encode(), key=key),
            is_right=lambda answer, scene: answer is None,
            effects=_heard,
            needs="send",
        ),
        "status": Sample(
            arrange=sleeper,
            call=lambda adapter, scene, key: adapter.status(scene.agent),
            is_right=lambda agent, scene: agent.id == scene.agent and agent.is_alive,
        ),
        "list_agents": Sample(
            arrange=sleeper,
            call=lambda adapter, scene, key: adapter.list_agents(limit=PAGE),
            is_right=lambda page, scene: len({agent.id for agent in page.items}) == PAGE,
        ),
        "terminate": Sample(
            arrange=sleeper,
            call=lambda adapter, scene, key: adapter.terminate(scene.agent, grace_seconds=0),
            is_right=lambda agent, scene: agent.id == scene.agent and not agent.is_alive,
            effects=_ended,
        ),
    }


async def _spawned(adapter: Orchestrator, scene: Scene) -> int:
    return sum(agent.name == scene.word for agent in (await adapter.list_agents(limit=1000)).items)


async def _heard(adapter: Orchestrator, scene: Scene) -> int:
    await adapter.send(scene.agent, end=True)
    return output(await events_of(adapter, scene.agent)).count(scene.word.encode())


async def _ended(adapter: Orchestrator, scene: Scene) -> int:
    return int(not (await adapter.status(scene.agent)).is_alive)


@attrs.frozen(kw_only=True)
class Followed:
    """What became of a stream in one trouble: what came, what did not or came twice, and the errors between."""

    name: str
    came: list[str]
    errors: list[Exception]
    told: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether everything came, once and in order."""
        return self.came == self.told


async def followed(network: Network, agents: Agents, trouble: Trouble) -> Followed:
    """An agent's stream, with *trouble* for a while in its middle. After an error it is asked for from its cursor."""
    async with AsyncExitStack() as stack:
        async with network.gate:
            proxy, adapter = await stack.enter_async_context(network.proxied())
            agent = await network.direct.spawn(agents.shell(TALK))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        heard = _Follower(adapter, agent.id)
        troubled = tasks.create_task(_troubled(proxy, trouble, heard))
        try:
            async with asyncio.timeout(PATIENCE):
                while not await heard.follow():
                    await troubled
        except TimeoutError as error:
            heard.errors.append(error)
        troubled.cancel()
    came = [event.text.strip() or event.type for event in heard.events]
    return Followed(name=trouble.name, came=came, errors=heard.errors, told=TOLD)


async def _troubled(proxy: Proxy, trouble: Trouble, heard: _Follower) -> None:
    await heard.middle.wait()
    await trouble.strike(proxy)
    await asyncio.sleep(TROUBLED_SECONDS)
    await proxy.heal()


class _Follower:
    """Who reads a stream, and asks for it again when it breaks."""

    def __init__(self, adapter: Any, agent_id: str) -> None:
        self.events: list[AgentEvent] = []
        self.errors: list[Exception] = []
        self.middle = asyncio.Event()
        self._adapter = adapter
        self._agent_id = agent_id

    async def follow(self) -> bool:
        """Read on behind the last event. Whether the stream came to its end."""
        after = self.events[-1].cursor if self.events else None
        try:
            async with aclosing(self._adapter.stream(self._agent_id, after=after)) as events:
                async for event in events:
                    self._keep(event)
        except AgentboxError as error:
            self.errors.append(error)
            return False
        return True

    def _keep(self, event: AgentEvent) -> None:
        if event.type != "heartbeat":
            self.events.append(event)
        if len(self.events) == MIDDLE:
            self.middle.set()
