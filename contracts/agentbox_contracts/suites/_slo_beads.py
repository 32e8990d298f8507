"""The load on beads: one epic with some thousand children that are made, claimed, closed and read."""

from __future__ import annotations

import asyncio
import functools
import itertools
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.suites._slo_load import Offer, offered

__all__ = ["load"]

BEADS = 2000
SETUP_SECONDS = 5.0
AT_ONCE = 32
PAGE = 1000
STRIDE = 7919

ACTOR = "agentbox-bench"
LEASE_SECONDS = 600.0
# The least urgent: on a store that others work on, theirs come first.
PRIORITY = 9

T = TypeVar("T")


@asynccontextmanager
async def load(adapter: Beads) -> AsyncIterator[Mapping[str, Offer]]:
    """A store with BEADS beads, or as many as the adapter makes in SETUP_SECONDS. Afterwards all of them are closed."""
    epic = await adapter.create_epic(title="Service levels", priority=PRIORITY, tags=(ACTOR,), actor=ACTOR)
    work = _Work(adapter, epic)
    try:
        await work.fill()
        yield {
            "beads.write": functools.partial(offered, work.write),
            "beads.read": functools.partial(offered, work.read),
        }
    finally:
        await work.tidy()


class _Work:
    """The beads of one load, and what can be done with them next."""

    def __init__(self, adapter: Beads, epic: Bead) -> None:
        self._adapter = adapter
        self._epic = epic
        self._ids = [epic.id]
        self._open: deque[str] = deque()
        self._held: deque[Bead] = deque()

    async def fill(self) -> None:
        """Make the children. One that fails is not made; the levels will show it."""
        now = asyncio.get_running_loop().time
        until = now() + SETUP_SECONDS
        numbers = itertools.takewhile(lambda _: now() < until, range(BEADS))
        await _shared(numbers, lambda _: self._create())

    async def write(self, number: int) -> None:
        """Create, claim and close in turn. Where there is nothing to close yet it claims, or else creates."""
        if number % 3 == 2 and self._held:
            bead = self._held.popleft()
            await self._adapter.close(bead.id, actor=ACTOR, fence=bead.fence)
        elif number % 3 and self._open:
            self._held.append(await self._adapter.claim(self._open.popleft(), actor=ACTOR, **self._lease()))
        else:
            await self._create()

    async def read(self, number: int) -> None:
        """What is ready, as who gives no limit asks for it, and one bead of all in turn."""
        if number % 2:
            await self._adapter.get_ready()
        else:
            await self._adapter.show(self._ids[number * STRIDE % len(self._ids)])

    async def tidy(self) -> None:
        """Close whatever is open, also beads whose creation was not answered; an adapter that refuses is left alone."""
        with suppress(AgentboxError):
            await _shared([bead async for bead in self._children() if bead.status != "closed"], self._cancel)
            await self._adapter.close(self._epic.id, outcome="cancelled", actor=ACTOR)

    async def _create(self) -> None:
        key: dict[str, Any] = {"key": uuid.uuid4().hex} if "keys" in self._adapter.capabilities else {}
        bead = await self._adapter.create_child(
            parent_id=self._epic.id, title="One of many", priority=PRIORITY, tags=(ACTOR,), actor=ACTOR, **key
        )
        self._ids.append(bead.id)
        self._open.append(bead.id)

    def _lease(self) -> dict[str, Any]:
        return {"lease_seconds": LEASE_SECONDS} if "leases" in self._adapter.capabilities else {}

    async def _cancel(self, bead: Bead) -> None:
        await self._adapter.close(bead.id, outcome="cancelled", fence=bead.fence)

    async def _children(self) -> AsyncIterator[Bead]:
        after = None
        while True:
            page = await self._adapter.children(self._epic.id, limit=PAGE, after=after)
            for bead in page.items:
                yield bead
            if (after := page.next) is None:
                return


async def _shared(items: Iterable[T], call: Callable[[T], Awaitable[object]]) -> None:
    """*call* for each item, AT_ONCE at a time. A call that fails with a contract's error is left at that."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            with suppress(AgentboxError):
                await call(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
