"""A call of each method of events, for a network in trouble, and a subscription that runs through it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, aclosing
from typing import Any
from uuid import uuid4

import attrs

from agentbox_contracts.errors import AdapterTimeout, AgentboxError
from agentbox_contracts.events import Event, Events, Receipt
from agentbox_contracts.suites._events_common import MOMENT, taken
from agentbox_contracts.suites._network_orchestrator import Followed
from agentbox_contracts.suites._network_troubles import Trouble
from agentbox_contracts.suites._network_watch import PATIENCE, Network, Sample
from agentbox_contracts.suites.faults import Proxy

__all__ = ["followed", "samples"]

SEVERAL = 3
TOLD = [str(number) for number in range(30)]
MIDDLE = 5
PAUSE, TROUBLED_SECONDS = 0.03, 0.4
LONGEST_SECONDS = 60.0


@attrs.frozen
class Scene:
    """A word, which is the source of the scene's events, and those that are there already."""

    word: str
    seqs: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """The type of the scene's events."""
        return f"network.{self.word}"

    def event(self, id: str | None, data: Any = None) -> Event:
        """An event of the scene."""
        return Event(type=self.kind, source=self.word, id=id, data=data)


def samples() -> dict[str, Sample]:
    """One of each method that is no stream."""
    return {
        "dispatch": Sample(
            arrange=_nothing,
            call=lambda events, scene, key: events.dispatch(scene.event(key)),
            is_right=lambda receipt, scene: _is_kept([receipt], 1),
            effects=lambda events, scene: _count(events, scene, 1),
            settle=_settle,
            keyed_by="dedupe",
        ),
        "dispatch_many": Sample(
            arrange=_nothing,
            call=lambda events, scene, key: events.dispatch_many(
                [scene.event(key and f"{key} {number}") for number in range(SEVERAL)]
            ),
            is_right=lambda receipts, scene: _is_kept(receipts, SEVERAL),
            effects=lambda events, scene: _count(events, scene, SEVERAL),
            settle=_settle,
            keyed_by="dedupe",
        ),
        "read": Sample(
            arrange=_two,
            call=lambda events, scene, key: events.read(types=(scene.kind,)),
            is_right=lambda found, scene: tuple(event.seq for event in found) == scene.seqs,
        ),
        "ack": Sample(
            arrange=_two,
            call=lambda events, scene, key: events.ack(scene.word, scene.seqs[0]),
            is_right=lambda answer, scene: answer is None,
            effects=_acknowledged,
            needs="ack",
        ),
        "verify": Sample(
            arrange=_nothing,
            call=lambda events, scene, key: events.verify(),
            is_right=lambda verdict, scene: bool(verdict.ok),
            needs="verify",
        ),
    }


async def _nothing(events: Events, word: str) -> Scene:
    return Scene(word)


async def _two(events: Events, word: str) -> Scene:
    scene = Scene(word)
    await events.dispatch_many([scene.event(f"{word} {number}") for number in range(2)])
    found = await _arrived(events, scene, 2)
    return Scene(word, tuple(event.seq or 0 for event in found))


def _is_kept(receipts: list[Receipt], count: int) -> bool:
    return len(receipts) == count and all(receipt.id and receipt.durability != "none" for receipt in receipts)


async def _arrived(events: Events, scene: Scene, count: int) -> list[Event]:
    """The scene's events, once there are *count*, or a long while has passed."""
    until = time.monotonic() + LONGEST_SECONDS
    while True:
        found = await events.read(types=(scene.kind,))
        if len(found) >= count or time.monotonic() > until:
            return found
        await asyncio.sleep(MOMENT)


async def _settle(adapter: Events, direct: Events, scene: Scene) -> None:
    """
    Wait until all that *adapter* was told has come: order is promised, and so a last event comes behind the rest.

    One that is told nothing more, or never sends it, has shown what there will be.
    """
    last = Scene(f"{scene.word}.last")
    try:
        while not await _told(adapter, last.event(last.word)):
            pass
    except AgentboxError:
        return
    await _arrived(direct, last, 1)


async def _told(adapter: Events, event: Event) -> bool:
    """Whether there was an answer in time."""
    try:
        await adapter.dispatch(event)
    except AdapterTimeout:
        return False
    return True


async def _count(events: Events, scene: Scene, size: int) -> int:
    """How often what has *size* events has happened; -1 when a part of it has."""
    found = await events.read(types=(scene.kind,))
    return len(found) // size if len(found) % size == 0 else -1


async def _acknowledged(events: Events, scene: Scene) -> int:
    found = await taken(events.subscribe(name=scene.word, types=(scene.kind,)), 1)
    return int([event.seq for event in found] == [scene.seqs[1]])


async def followed(network: Network, trouble: Trouble) -> Followed:
    """A subscription, with *trouble* for a while in its middle. After an error it is made again from its cursor."""
    scene = Scene(f"stream-{uuid4().hex}")
    async with AsyncExitStack() as stack:
        async with network.gate:
            proxy, adapter = await stack.enter_async_context(network.proxied())
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        telling = tasks.create_task(_tell(network.direct, scene))
        heard = _Follower(adapter, scene)
        troubled = tasks.create_task(_troubled(proxy, trouble, heard))
        try:
            async with asyncio.timeout(2 * PATIENCE):
                while not await heard.follow():
                    await troubled
        except TimeoutError as error:
            heard.errors.append(error)
        troubled.cancel()
        await telling
    return Followed(name=trouble.name, came=heard.came, errors=heard.errors, told=TOLD)


async def _tell(direct: Events, scene: Scene) -> None:
    for number in TOLD:
        await direct.dispatch(scene.event(f"{scene.word} {number}", data=number))
        await asyncio.sleep(PAUSE)


async def _troubled(proxy: Proxy, trouble: Trouble, heard: _Follower) -> None:
    await heard.middle.wait()
    await trouble.strike(proxy)
    await asyncio.sleep(TROUBLED_SECONDS)
    await proxy.heal()


class _Follower:
    """Who reads a subscription until the last event, and asks for it again when it breaks."""

    def __init__(self, adapter: Any, scene: Scene) -> None:
        self.came: list[str] = []
        self.errors: list[Exception] = []
        self.middle = asyncio.Event()
        self._adapter = adapter
        self._scene = scene
        self._after: int | None = None

    async def follow(self) -> bool:
        """Read on behind the last event. Whether the last came, or the subscription ended by itself."""
        try:
            stream = self._adapter.subscribe(after=self._after, types=(self._scene.kind,))
            async with aclosing(stream) as events:
                async for event in events:
                    self._after = event.seq
                    self.came.append(str(event.data))
                    if len(self.came) == MIDDLE:
                        self.middle.set()
                    if event.data == TOLD[-1]:
                        break
        except AgentboxError as error:
            self.errors.append(error)
            return False
        return True
