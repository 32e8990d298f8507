"""Known-bad beads: keys that are forgotten, or remembered wrongly."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from agentbox_contracts.errors import Conflict
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import Remembers


@known_bad(caught_by="beads.key.create-epic")
class ForgetsKeysOfEpics(Base):
    """Takes no notice of a key for an epic."""

    async def create_epic(self, *, key: str | None, **rest: Any) -> Any:
        return await super().create_epic(**rest)


@known_bad(caught_by="beads.key.create-child")
class ForgetsKeysOfChildren(Base):
    """Takes no notice of a key for a child."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        return await super().create_child(**rest)


@known_bad(caught_by="beads.key.create-child")
class WritesTwiceTellsOnce(Remembers):
    """Tells of the same child again, and has made another."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        child = await super().create_child(**rest)
        return self.memory.setdefault(key, child)


@known_bad(caught_by="beads.key.claim-ready")
class ForgetsKeysOfClaims(Base):
    """Takes no notice of a key for a claim."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        return await super().claim_ready(**rest)


@known_bad(caught_by="beads.key.claim-ready")
class TakesTwiceTellsOnce(Remembers):
    """Tells of the same bead again, and has taken another."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        taken = await super().claim_ready(**rest)
        return self.memory.setdefault(key, taken)


@known_bad(caught_by="beads.key.first-result")
class TellsTheLatest(Base):
    """Tells, for a key it knows, how the bead is now."""

    async def create_epic(self, **call: Any) -> Any:
        return await super().show((await super().create_epic(**call)).id)


@known_bad(caught_by="beads.key.other-arguments")
class ComparesNoArguments(Remembers):
    """Gives the result of a key whatever is asked with it."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        if key not in self.memory:
            self.memory[key] = await super().create_child(key=key, **rest)
        return self.memory[key]


@known_bad(caught_by="beads.key.other-arguments")
class WritesThenRefuses(Base):
    """Refuses a key with other arguments, after it has written."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        try:
            return await super().create_child(key=key, **rest)
        except Conflict:
            await super().create_child(**rest)
            raise


@known_bad(caught_by="beads.key.other-call")
class KeysForEachMethod(Base):
    """Keeps the keys of each method apart."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        return await super().claim_ready(key=key and f"claim {key}", **rest)


@known_bad(caught_by="beads.key.other-call")
class TakesThenRefuses(Base):
    """Refuses a key of another method, after it has claimed."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        try:
            return await super().claim_ready(key=key, **rest)
        except Conflict:
            await super().claim_ready(**rest)
            raise


@known_bad(caught_by="beads.key.none-forgotten")
class RemembersNothing(Remembers):
    """Remembers that there was nothing, and finds nothing ever after."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        if key not in self.memory:
            self.memory[key] = await super().claim_ready(key=key, **rest)
        return self.memory[key]


@known_bad(caught_by="beads.key.refusal-forgotten")
class RefusalsUseUpKeys(Remembers):
    """Refuses a key for ever once a call with it was refused."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        if key in self.memory:
            raise Conflict(f"the key {key} was used")
        try:
            return await super().create_child(key=key, **rest)
        except Conflict:
            self.memory[key] = True
            raise


class RemembersKeys(Remembers):
    """Remembers keys itself, and not in the store."""

    async def create_epic(self, *, key: str | None, **rest: Any) -> Any:
        return self.memory.get(key) or self._remembered(key, await super().create_epic(**rest))

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        return self.memory.get(key) or self._remembered(key, await super().create_child(**rest))

    def _remembered(self, key: str | None, bead: Any) -> Any:
        if key is not None:
            self.memory[key] = bead
        return bead


@known_bad(caught_by="beads.key.reopened")
class RemembersUntilClosed(RemembersKeys):
    """Remembers keys until it is closed."""


@known_bad(caught_by="beads.key.together")
class RemembersAlone(Base):
    """Remembers keys in the process, where no other finds them."""

    known: ClassVar[dict[str, Any]] = {}

    async def create_child(self, *, key: str, **rest: Any) -> Any:
        if key not in self.known:
            self.known[key] = asyncio.ensure_future(super().create_child(**rest))
        return await self.known[key]


@known_bad(caught_by="beads.key.together")
class WritesOnceMore(Base):
    """Makes one child more for each that it makes with a key."""

    async def create_child(self, *, key: str | None, **rest: Any) -> Any:
        await super().create_child(**rest)
        return await super().create_child(key=key, **rest)


@known_bad(caught_by="beads.key.crash")
class RemembersAfterwards(RemembersKeys):
    """Remembers a key after the write, and never if it is killed between."""


@known_bad(caught_by="beads.key.crash")
class ForgetsKeysOverCrashes(Base):
    """Takes no notice of keys, so that a retry is another write."""

    async def claim_ready(self, *, key: str | None, **rest: Any) -> Any:
        return await super().claim_ready(**rest)
