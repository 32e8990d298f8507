"""Known-bad memories that know no time: what expires stays, or goes too early."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Match, Record
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import Remembers, place


@known_bad(caught_by="memory.expiry.retrieve")
class NeverForgets(Base):
    """Keeps everything for ever."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "ttl_seconds": None})


@known_bad(caught_by="memory.expiry.retrieve")
class ForgetsEarly(Base):
    """Lets everything expire at once that can."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "ttl_seconds": call["ttl_seconds"] and 1e-6})


class RemembersTheBrief(Remembers):
    """Remembers what was to expire."""

    async def store(self, **call: Any) -> Any:
        record = await super().store(**call)
        if call["ttl_seconds"]:
            self.memory[place(call)] = record
        return record

    def brief(self, namespace: str) -> list[Record]:
        """What was to expire in a namespace."""
        return [record for (name, _), record in self.memory.items() if name == namespace]


@known_bad(caught_by="memory.expiry.search")
class FindsTheExpired(RemembersTheBrief):
    """Finds what has expired and was not yet swept."""

    async def search(self, **call: Any) -> Any:
        found = await super().search(**call)
        known = {match.record.key for match in found}
        brief = [record for record in self.brief(call["namespace"]) if record.key not in known]
        return [*(Match(record=record, score=1) for record in brief), *found][: call["limit"]]


@known_bad(caught_by="memory.expiry.search")
class LetsTheExpiredTakeAPlace(RemembersTheBrief):
    """Leaves out what has expired after the ranking was cut."""

    async def search(self, **call: Any) -> Any:
        gone = len(self.brief(call["namespace"]))
        return (await super().search(**call))[: max(0, call["limit"] - gone)]


@known_bad(caught_by="memory.expiry.lists")
class ListsTheExpired(RemembersTheBrief):
    """Lists what has expired and was not yet swept."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=sorted({*page.items, *(record.key for record in self.brief(call["namespace"]))}))


@known_bad(caught_by="memory.expiry.lists")
class ListsExpiredNamespaces(RemembersTheBrief):
    """Lists namespaces in which all have expired."""

    async def list_namespaces(self, **call: Any) -> Any:
        page = await super().list_namespaces(**call)
        return page if page.next else Page(items=sorted({*page.items, *(name for name, _ in self.memory)}))


@known_bad(caught_by="memory.expiry.delete")
class DeletesTheExpired(RemembersTheBrief):
    """Deletes what has expired as if it were there."""

    async def delete(self, **call: Any) -> Any:
        try:
            await super().delete(**call)
        except NotFound:
            if place(call) not in self.memory:
                raise


@known_bad(caught_by="memory.expiry.anew")
class UpdatesTheExpired(RemembersTheBrief):
    """Takes what is stored under an expired key for an update."""

    async def store(self, **call: Any) -> Any:
        old = self.memory.get(place(call))
        record = await super().store(**call)
        return attrs.evolve(record, created_at=old.created_at) if old else record


@known_bad(caught_by="memory.expiry.replaced")
class KeepsTheTimeToLive(Remembers):
    """Keeps the time to live that a record had first."""

    async def store(self, **call: Any) -> Any:
        first = self.memory.setdefault(place(call), call["ttl_seconds"])
        return await super().store(**{**call, "ttl_seconds": first})
