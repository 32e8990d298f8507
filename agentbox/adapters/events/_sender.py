"""Sending what waits in a spool: in order, for as long as it takes, past what nobody wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agentbox.adapters._watch import Watch
from agentbox.adapters.events._spool import Batch, Spool
from agentbox_contracts.errors import AgentboxError, ContractMismatch, InvalidInput

__all__ = ["Deliver", "Sender"]

Deliver = Callable[[list[bytes]], Awaitable[None]]
"""
Sends events, given as JSON objects, all or none.

It raises InvalidInput for what will never be taken, and any other error of the contract for what may be later.
"""

MOST_EVENTS = 512
SEND_SECONDS = 30.0
TURN_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 1.0


class Sender:
    """
    Drains *spool* whenever it is this process's turn.

    Where the other side is out of reach the same events are sent again, ever more slowly, and nothing overtakes them.
    A batch that is refused is sent in ever smaller parts until the one event is found, which is set aside.
    """

    def __init__(self, spool: Spool, deliver: Deliver, *, pause: Callable[[int], float]) -> None:
        self._spool = spool
        self._deliver = deliver
        self._pause = pause
        self._most = MOST_EVENTS
        self._failures = 0
        self.failure = ""
        """Why nothing can be sent just now."""
        self.fatal: AgentboxError | None = None
        """Why nothing can be sent any more."""
        self.has_turn = False

    async def run(self, watch: Watch) -> None:
        """Send until cancelled."""
        while not await asyncio.to_thread(self._spool.take_turn):  # noqa: ASYNC110 - whoever has it tells nobody
            await asyncio.sleep(TURN_SECONDS)
        self.has_turn = True
        try:
            while self.fatal is None:
                try:
                    await self._step(watch)
                except Exception as error:
                    # A sender that ends in silence would let events wait for ever while all seems well.
                    await self._failed(f"{type(error).__name__}: {error}")
        finally:
            self.has_turn = False
            self._spool.give_turn()

    async def _step(self, watch: Watch) -> None:
        with watch.on(self._spool.head) as change:
            batch = await asyncio.to_thread(self._spool.next, self._most)
            if batch is None:
                await change.wait(LOOK_AGAIN_SECONDS)
                return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._deliver(batch.bodies)
        except InvalidInput as error:
            await self._refused(batch, error)
        except ContractMismatch as error:
            self.fatal, self.failure = error, error.message
        except AgentboxError as error:
            await self._failed(error.message)
        except TimeoutError:
            await self._failed(f"there was no answer within {SEND_SECONDS:g} s")
        else:
            await self._done(batch)
            self._most = min(MOST_EVENTS, self._most * 2)

    async def _refused(self, batch: Batch, error: InvalidInput) -> None:
        if len(batch.bodies) > 1:
            self._most = len(batch.bodies) // 2
            return
        await asyncio.to_thread(self._spool.set_aside, batch.bodies[0], error.message)
        await self._done(batch)

    async def _done(self, batch: Batch) -> None:
        self._failures, self.failure = 0, ""
        await asyncio.to_thread(self._spool.delivered, batch.last)

    async def _failed(self, reason: str) -> None:
        self.failure = reason
        self._failures += 1
        await asyncio.sleep(self._pause(self._failures))
