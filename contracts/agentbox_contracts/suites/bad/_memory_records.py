"""Known-bad memories: what was stored comes back otherwise, or stays when it should be gone."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar

import attrs

from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Match, Record
from agentbox_contracts.suites._memory_common import cosine
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import AltersRecords, Remembers, Rescores, place


@known_bad(caught_by="memory.store.kept")
class LosesMetadata(AltersRecords):
    """Retrieves records without their metadata."""

    def altered(self, record: Record) -> Record:
        return attrs.evolve(record, metadata={})


@known_bad(caught_by="memory.store.kept")
class TellsAnotherNamespace(Base):
    """Says that a record is in the default namespace, wherever it is."""

    async def store(self, **call: Any) -> Any:
        return attrs.evolve(await super().store(**call), namespace="default")


@known_bad(caught_by="memory.store.times")
class ForgetsTheTimeToLive(Base):
    """Does not say when a record expires."""

    async def store(self, **call: Any) -> Any:
        return attrs.evolve(await super().store(**call), expires_at=None)


@known_bad(caught_by="memory.store.times")
class CreatesAnew(Base):
    """Makes a new record of each update."""

    async def store(self, **call: Any) -> Any:
        with suppress(NotFound):
            await super().delete(key=call["key"], namespace=call["namespace"])
        return await super().store(**call)


@known_bad(caught_by="memory.store.provenance")
class ForgetsWhence(Base):
    """Does not keep the session."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "session_id": None})


@known_bad(caught_by="memory.store.provenance")
class KeepsOldProvenance(Remembers):
    """Keeps where an earlier record came from."""

    async def store(self, **call: Any) -> Any:
        bead = call["bead_id"] or self.memory.get(place(call))
        self.memory[place(call)] = bead
        return await super().store(**{**call, "bead_id": bead})


@known_bad(caught_by="memory.store.values-exact")
class MakesWholeNumbers(AltersRecords):
    """Makes whole numbers of floats that could be."""

    def altered(self, record: Record) -> Record:
        return attrs.evolve(record, value=_whole(record.value))


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 1e6 else value


@known_bad(caught_by="memory.store.values-exact")
class ForgetsNulls(AltersRecords):
    """Takes metadata that is null for none."""

    def altered(self, record: Record) -> Record:
        kept = {name: value for name, value in record.metadata.items() if value is not None}
        return attrs.evolve(record, metadata=kept)


@known_bad(caught_by="memory.store.found-exact")
class FindsWithoutMetadata(Rescores):
    """Finds records without their metadata."""

    def rescored(self, found: list[Match], call: dict[str, Any]) -> list[Match]:
        return [attrs.evolve(match, record=attrs.evolve(match.record, metadata={})) for match in found]


@known_bad(caught_by="memory.store.replaced")
class MergesValues(Remembers):
    """Merges a new object into the old one."""

    async def store(self, **call: Any) -> Any:
        if isinstance(call["value"], dict):
            call = {**call, "value": {**self.memory.get(place(call), {}), **call["value"]}}
            self.memory[place(call)] = call["value"]
        return await super().store(**call)


@known_bad(caught_by="memory.store.old-vector-gone")
class KeepsOldVectors(Remembers):
    """Finds a record by every vector that it ever had."""

    async def store(self, **call: Any) -> Any:
        if call["embedding"]:
            self.memory.setdefault(place(call), []).append(call["embedding"])
        return await super().store(**call)

    async def search(self, **call: Any) -> Any:
        found = await super().search(**call)
        return [attrs.evolve(match, score=self._best(match, call)) for match in found]

    def _best(self, match: Match, call: dict[str, Any]) -> float:
        vectors = self.memory.get((call["namespace"], match.record.key), [])
        return max((cosine(call["embedding"], vector) for vector in vectors), default=match.score)


@known_bad(caught_by="memory.store.old-text-gone")
class KeepsOldText(Remembers):
    """Finds a record by every text that it ever had."""

    async def store(self, **call: Any) -> Any:
        text = call["text"] if call["text"] is not None else str(call["value"])
        self.memory[place(call)] = f"{self.memory.get(place(call), '')} {text}"
        return await super().store(**{**call, "text": self.memory[place(call)]})


@known_bad(caught_by="memory.retrieve.missing")
class RetrievesTheNearest(Base):
    """Gives another record where there is none of that key."""

    async def retrieve(self, **call: Any) -> Any:
        try:
            return await super().retrieve(**call)
        except NotFound:
            page = await super().list_keys(namespace=call["namespace"], prefix="", limit=1, after=None)
            if not page.items:
                raise
            return await super().retrieve(key=page.items[0], namespace=call["namespace"])


@known_bad(caught_by="memory.retrieve.missing")
class NamesNothing(Base):
    """Does not say what it did not find."""

    async def retrieve(self, **call: Any) -> Any:
        try:
            return await super().retrieve(**call)
        except NotFound:
            raise NotFound("there is none") from None


@known_bad(caught_by="memory.delete.gone")
class DeletesOnPaper(Base):
    """Says that it has deleted, and has not."""

    async def delete(self, **call: Any) -> Any:
        await super().retrieve(**call)


@known_bad(caught_by="memory.delete.gone")
class DeletesWhatIsNotThere(Base):
    """Deletes what is not there without a word."""

    async def delete(self, **call: Any) -> Any:
        with suppress(NotFound):
            await super().delete(**call)


@known_bad(caught_by="memory.delete.only-it")
class DeletesByPattern(Base):
    """Takes a key for a pattern when it deletes."""

    async def delete(self, **call: Any) -> Any:
        pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in call["key"])
        page = await super().list_keys(namespace=call["namespace"], prefix="", limit=1000, after=None)
        for key in page.items:
            if key != call["key"] and re.fullmatch(pattern, key):
                await super().delete(key=key, namespace=call["namespace"])
        await super().delete(**call)


class Undertaker(Base):
    """Knows what was stored and is gone, in all stores of this process."""

    stored: ClassVar[dict[tuple[str, str, str], dict[str, Any]]] = {}
    gone: ClassVar[set[tuple[str, str, str]]] = set()

    async def store(self, **call: Any) -> Any:
        where = (str(self.location), *place(call))
        self.stored[where] = call
        if call["ttl_seconds"]:
            self.gone.add(where)
        return await super().store(**call)

    async def delete(self, **call: Any) -> Any:
        self.gone.add((str(self.location), *place(call)))
        await super().delete(**call)

    async def connect(self) -> None:
        await super().connect()
        for where in [where for where in self.gone if where[0] == str(self.location)]:
            self.gone.discard(where)
            if where in self.stored:
                await super().store(**{**self.stored[where], "ttl_seconds": None})


@known_bad(caught_by="memory.delete.final")
class RevivesTheDeleted(Undertaker):
    """Has what was deleted again when it is opened anew."""


@known_bad(caught_by="memory.expiry.reopened")
class RevivesTheExpired(Undertaker):
    """Has what had expired again when it is opened anew."""


@known_bad(caught_by="memory.delete.anew")
class RemembersItsBirth(Remembers):
    """Gives a record that was deleted its first birthday back."""

    async def store(self, **call: Any) -> Any:
        record = await super().store(**call)
        return attrs.evolve(record, created_at=self.memory.setdefault(place(call), record.created_at))


@known_bad(caught_by="memory.delete.anew")
class KeepsTheDeletedMetadata(Remembers):
    """Adds the metadata of what was deleted to what comes after it."""

    async def store(self, **call: Any) -> Any:
        self.memory[place(call)] = {**self.memory.get(place(call), {}), **call["metadata"]}
        return await super().store(**{**call, "metadata": self.memory[place(call)]})


@known_bad(caught_by="memory.ack.reopened")
class LosesTheLast(Remembers):
    """Loses the last write when it is closed."""

    async def store(self, **call: Any) -> Any:
        self.memory["last"] = {"namespace": call["namespace"], "key": call["key"]}
        return await super().store(**call)

    async def disconnect(self) -> None:
        if last := self.memory.pop("last", None):
            await super().delete(**last)
        await super().disconnect()


@known_bad(caught_by="memory.store.times")
class LivesTwiceAsLong(Base):
    """Says that a record lives twice as long as it was told."""

    async def store(self, **call: Any) -> Any:
        record = await super().store(**call)
        more = timedelta(seconds=call["ttl_seconds"] or 0)
        return attrs.evolve(record, expires_at=record.expires_at and record.expires_at + more)


@known_bad(caught_by="memory.embedding.extremes")
class Overflows(Rescores):
    """Cannot compare vectors that are very long or very short."""

    def rescored(self, found: list[Match], call: dict[str, Any]) -> list[Match]:
        length = math.hypot(*call["embedding"]) if call["embedding"] else 1.0
        return [attrs.evolve(match, score=match.score if 1e-9 < length < 1e9 else 0.0) for match in found]
