"""Known-bad memories that do not keep odd input as it came."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.memory import Record
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import AltersRecords, PhantomKeys


@known_bad(caught_by="memory.garbage.refused")
class ListsWhatItRefused(PhantomKeys):
    """Lists what it has refused."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=[*page.items, "new"])


@known_bad(caught_by="memory.garbage.kept")
class EscapesText(AltersRecords):
    """Gives text as plain characters."""

    def altered(self, record: Record) -> Record:
        source = record.source and record.source.encode("unicode_escape").decode()
        return attrs.evolve(record, source=source)


@known_bad(caught_by="memory.garbage.kept")
class StripsKeys(AltersRecords):
    """Takes white space from the ends of keys."""

    def altered(self, record: Record) -> Record:
        return attrs.evolve(record, key=record.key.strip())


@known_bad(caught_by="memory.garbage.most")
class CutsLongText(Base):
    """Reads no more than the first 100,000 characters of a text."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "text": call["text"] and call["text"][:100_000]})
