"""Known-bad memories that count the same content wrongly."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.memory import Match
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import Remembers, Rescores, place

Call = dict[str, Any]


@known_bad(caught_by="memory.duplicate.reported")
class NeverReports(Base):
    """Never says that content was there already."""

    async def store(self, **call: Any) -> Any:
        return attrs.evolve(await super().store(**call), duplicate_of=None)


@known_bad(caught_by="memory.duplicate.reported")
class DropsDuplicates(Base):
    """Does not keep what was there already."""

    async def store(self, **call: Any) -> Any:
        record = await super().store(**call)
        if record.duplicate_of is not None:
            await super().delete(key=call["key"], namespace=call["namespace"])
            await super().store(**{**call, "value": "see the other"})
        return record


@known_bad(caught_by="memory.duplicate.not-itself")
class IsItsOwnDuplicate(Remembers):
    """Takes an update with the same content for a duplicate of itself."""

    async def store(self, **call: Any) -> Any:
        is_same = self.memory.get(place(call)) == call["value"]
        self.memory[place(call)] = call["value"]
        record = await super().store(**call)
        return attrs.evolve(record, duplicate_of=call["key"]) if is_same else record


class ReportsFromMemory(Remembers):
    """Reports as a duplicate whatever it remembers under the same `mark`."""

    def mark(self, call: Call) -> Any:
        """What is the same for the same content."""
        return call["namespace"], repr(call["value"])

    async def store(self, **call: Any) -> Any:
        first = self.memory.setdefault(self.mark(call), call["key"])
        record = await super().store(**call)
        return attrs.evolve(record, duplicate_of=first if first != call["key"] else None)


@known_bad(caught_by="memory.duplicate.only-exact")
class TakesAlikeForTheSame(ReportsFromMemory):
    """Takes content for the same that differs only in case."""

    def mark(self, call: Call) -> Any:
        return call["namespace"], repr(call["value"]).casefold()


@known_bad(caught_by="memory.duplicate.only-exact")
class ReportsOtherNamespaces(ReportsFromMemory):
    """Reports what another namespace holds."""

    def mark(self, call: Call) -> Any:
        return repr(call["value"])


@known_bad(caught_by="memory.duplicate.gone")
class ReportsWhatIsGone(ReportsFromMemory):
    """Reports as the first what is no longer there."""


@known_bad(caught_by="memory.duplicate.found-once")
class FindsDuplicates(Base):
    """Finds the same content again and again."""

    async def search(self, **call: Any) -> Any:
        found = []
        for match in await super().search(**call):
            found.append(attrs.evolve(match, duplicates=()))
            for key in match.duplicates:
                record = await super().retrieve(key=key, namespace=call["namespace"])
                found.append(attrs.evolve(match, record=record, duplicates=()))
        return found[: call["limit"]]


@known_bad(caught_by="memory.duplicate.found-once")
class HidesDuplicates(Rescores):
    """Does not tell which keys have the same content."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return [attrs.evolve(match, duplicates=()) for match in found]


@known_bad(caught_by="memory.duplicate.filtered")
class TellsHiddenDuplicates(Remembers):
    """Tells of duplicates that the filter does not let through."""

    async def store(self, **call: Any) -> Any:
        self.memory.setdefault((call["namespace"], repr(call["value"])), []).append(call["key"])
        return await super().store(**call)

    async def search(self, **call: Any) -> Any:
        return [attrs.evolve(match, duplicates=self._all(match)) for match in await super().search(**call)]

    def _all(self, match: Match) -> tuple[str, ...]:
        keys = self.memory[match.record.namespace, repr(match.record.value)]
        return tuple(key for key in sorted(keys) if key != match.record.key)


@known_bad(caught_by="memory.duplicate.outlives")
class DeletesTheFirstWithAll(Remembers):
    """Does not find what is left when the first of several was deleted."""

    async def store(self, **call: Any) -> Any:
        record = await super().store(**call)
        self.memory[place(call)] = record.duplicate_of
        return record

    async def search(self, **call: Any) -> Any:
        found = await super().search(**call)
        return [match for match in found if not self.memory.get((match.record.namespace, match.record.key))]
