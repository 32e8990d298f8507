"""Known-bad memories: fine alone, and wrong with several callers, several processes, or a crash."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

from agentbox_contracts.errors import AgentboxError, NotFound
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import Remembers, invented, place
from agentbox_contracts.suites.bad._memory_records import KeepsOldText


@known_bad(caught_by="memory.sharing.together")
class LosesWhatComesTogether(Remembers):
    """Says that it has stored what came while it stored something else, and has not."""

    async def store(self, **call: Any) -> Any:
        if self.memory.get("busy"):
            return invented(call)
        self.memory["busy"] = True
        try:
            await asyncio.sleep(0)
            return await super().store(**call)
        finally:
            self.memory["busy"] = False


@known_bad(caught_by="memory.sharing.one-wins")
class MixesStores(KeepsOldText):
    """Finds a record by the texts of all who stored it."""


@known_bad(caught_by="memory.sharing.processes")
class CachesRecords(Remembers):
    """Retrieves a record as it was when it was retrieved first, or stored by itself."""

    async def store(self, **call: Any) -> Any:
        self.memory.pop(place(call), None)
        return await super().store(**call)

    async def delete(self, **call: Any) -> Any:
        self.memory.pop(place(call), None)
        await super().delete(**call)

    async def retrieve(self, **call: Any) -> Any:
        if place(call) not in self.memory:
            self.memory[place(call)] = await super().retrieve(**call)
        return self.memory[place(call)]


@known_bad(caught_by="memory.sharing.processes")
class CachesSearches(Remembers):
    """Finds what it found when it was asked the same before, unless it has written itself."""

    async def store(self, **call: Any) -> Any:
        self.memory.clear()
        return await super().store(**call)

    async def delete(self, **call: Any) -> Any:
        self.memory.clear()
        await super().delete(**call)

    async def search(self, **call: Any) -> Any:
        if repr(call) not in self.memory:
            self.memory[repr(call)] = await super().search(**call)
        return self.memory[repr(call)]


@known_bad(caught_by="memory.sharing.processes-together")
class FindsOnlyItsOwn(Remembers):
    """Finds only what its own process has stored."""

    async def store(self, **call: Any) -> Any:
        self.memory[place(call)] = True
        return await super().store(**call)

    async def search(self, **call: Any) -> Any:
        found = await super().search(**call)
        return [match for match in found if (match.record.namespace, match.record.key) in self.memory]


@known_bad(caught_by="memory.sharing.leaves-nothing")
class LeaksWithEachSearch(Base):
    """Leaves a descriptor open with each search."""

    async def search(self, **call: Any) -> Any:
        os.open(os.devnull, os.O_RDONLY)
        return await super().search(**call)


class WritesLater(Remembers):
    """Says that it has stored, and stores a little later."""

    pause = 0.3

    async def store(self, **call: Any) -> Any:
        self.memory[place(call)] = asyncio.create_task(self._later(super().store, call))
        return invented(call)

    async def _later(self, store: Any, call: dict[str, Any]) -> None:
        await asyncio.sleep(self.pause)
        with suppress(AgentboxError):
            await store(**call)

    async def disconnect(self) -> None:
        await asyncio.gather(*self.memory.values())
        await super().disconnect()


@known_bad(caught_by="memory.crash.reopened")
class LosesWhatItSaid(WritesLater):
    """Says that it has stored, and a kill shows that it has not."""

    async def delete(self, **call: Any) -> Any:
        self.memory.pop(place(call)).cancel()


@known_bad(caught_by="memory.crash.acknowledged")
class AcknowledgesTooEarly(WritesLater):
    """Says that it has stored before it has."""

    pause = 0.8


@known_bad(caught_by="memory.crash.points")
class DiesBeforeItStores(WritesLater):
    """Dies after it said that it has stored, and before it has."""


@known_bad(caught_by="memory.cancel.all-or-nothing")
class StopsBetweenTwoSteps(Base):
    """Deletes what is there first, and has nothing when the call is cancelled between two steps."""

    async def store(self, **call: Any) -> Any:
        with suppress(NotFound):
            await super().delete(key=call["key"], namespace=call["namespace"])
        await asyncio.sleep(0.02)
        return await super().store(**call)


@known_bad(caught_by="memory.sharing.deleted-once")
class DeletesTogether(Base):
    """Tells everyone who deletes at the same time that they did."""

    async def delete(self, **call: Any) -> Any:
        with suppress(NotFound):
            await super().delete(**call)
