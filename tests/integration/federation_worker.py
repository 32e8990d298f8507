"""
One of several processes that create, claim and close the beads of a host, whatever happens to the host.

Everything that was acknowledged is a line of the file named on the command line. An error that says it may pass is
answered by the same call again, with the same key; any other that the contract does not promise ends the process.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

import agentbox
from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import AgentboxError, Conflict, StaleClaim

LANES = 4
HUNG = 45.0
"""Seconds after which a call has hung: the deadline of every call is 30."""
PATIENCE = 120.0
RETURNED = 0.05
"""How many of the first claims are given back."""

Call = Callable[[], Awaitable[Any]]


class Lane:
    """One actor: it does one thing after another."""

    def __init__(self, beads: Beads, actor: str, epics: list[str], creates: int, file: TextIO, chance: random.Random):
        self._beads = beads
        self._actor = actor
        self._epics = set(epics)
        self._creates = creates
        self._file = file
        self._chance = chance
        self._calls = 0

    async def run(self) -> None:
        """Work until nothing is ready below any epic."""
        turn = 0
        while self._epics:
            turn += 1
            epic = self._chance.choice(sorted(self._epics))
            if self._creates:
                await self._create(epic)
            bead = await (self._choose(epic) if self._chance.random() < 0.5 else self._race(epic))
            if bead is not None:
                await self._end(bead, epic)

    async def _create(self, epic: str) -> None:
        self._creates -= 1
        key = self._key()
        made = await self._tried(lambda: self._beads.create_child(parent_id=epic, title=key, key=key))
        self._say("made", made)

    async def _choose(self, epic: str) -> Bead | None:
        """Take whatever is first."""
        key = self._key()
        bead = await self._tried(lambda: self._beads.claim_ready(actor=self._actor, parent_id=epic, key=key))
        if bead is not None:
            self._say("won", bead)
        elif not self._creates:
            self._epics.discard(epic)
        return bead  # type: ignore[no-any-return]

    async def _race(self, epic: str) -> Bead | None:
        """Go for one of the first few by its id, as others do."""
        ready = await self._tried(lambda: self._beads.get_ready(parent_id=epic, limit=8))
        if not ready:
            return None
        wanted = self._chance.choice(ready).id
        lease = self._chance.choice((None, 600.0))
        try:
            bead: Bead = await self._tried(lambda: self._beads.claim(wanted, actor=self._actor, lease_seconds=lease))
        except Conflict as error:
            self._note("lost", wanted, error.code)
            return None
        self._say("won", bead)
        return bead

    async def _end(self, bead: Bead, epic: str) -> None:
        if bead.fence == 1 and self._chance.random() < RETURNED:
            self._epics.add(epic)
            try:
                await self._tried(lambda: self._beads.release(bead.id, actor=self._actor, fence=bead.fence))
            except StaleClaim:  # it was released, the answer was lost, and another has claimed it since
                self._note("late", bead.id, bead.fence)
            self._say("returned", bead)
            return
        done = await self._tried(lambda: self._beads.close(bead.id, actor=self._actor, fence=bead.fence))
        assert (done.holder, done.fence, done.closed_by) == (self._actor, bead.fence, self._actor), done
        self._say("closed", done)

    async def _tried(self, call: Call) -> Any:
        """The result of *call*, repeated as long as its errors say that they may pass."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                async with asyncio.timeout(HUNG):
                    return await call()
            except AgentboxError as error:
                if not error.retryable or time.monotonic() > until:
                    raise
                self._note("again", error.code, error.message[:100])
            await asyncio.sleep(self._chance.uniform(0.01, 0.2))

    def _key(self) -> str:
        self._calls += 1
        return f"{self._actor} {self._calls}"

    def _say(self, what: str, bead: Bead) -> None:
        self._note(what, bead.id, bead.fence)

    def _note(self, what: str, *told: Any) -> None:
        self._file.write(json.dumps([what, self._actor, *told]) + "\n")
        self._file.flush()


async def main(name: str, seed: int, creates: int, epics: list[str], path: Path) -> None:
    """Work in the folder that one stands in, whose manifest says where the beads are."""
    async with agentbox.open_app() as app:
        with path.open("a") as file:
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            async with asyncio.TaskGroup() as tasks:
                for number in range(LANES):
                    actor = f"{name}.{number}"
                    share = creates // LANES + (number < creates % LANES)
                    chance = random.Random(f"{seed} {actor}")
                    tasks.create_task(Lane(app.adapters.beads, actor, epics, share, file, chance).run())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(main(given["name"], given["seed"], given["creates"], given["epics"], Path(given["file"])))
