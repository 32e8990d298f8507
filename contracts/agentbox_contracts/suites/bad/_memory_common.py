"""What known-bad memories are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.memory import Match, Record
from agentbox_contracts.suites.bad import Base
from agentbox_contracts.suites.bad._beads_common import Remembers

__all__ = ["AltersRecords", "Everything", "MapsNames", "PhantomKeys", "Remembers", "Rescores", "invented", "place"]

Call = dict[str, Any]


def place(call: Call) -> tuple[str, str]:
    """Namespace and key of a call."""
    return call["namespace"], call["key"]


def invented(call: Call) -> Record:
    """A record as a store of *call* would give it, which nobody wrote."""
    kept = {name: call[name] for name in ("key", "namespace", "value", "metadata", "source", "session_id", "bead_id")}
    now = datetime.now(UTC)
    return Record(**kept, created_at=now, updated_at=now)


class AltersRecords(Base):
    """Shows records otherwise than they are, as `altered` says."""

    def altered(self, record: Record) -> Record:
        """What is shown instead of *record*."""
        return record

    async def retrieve(self, **call: Any) -> Any:
        return self.altered(await super().retrieve(**call))


class Rescores(Base):
    """Gives other matches than there are, as `rescored` says."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        """What is given instead of *found*."""
        return found

    async def search(self, **call: Any) -> Any:
        return self.rescored(await super().search(**call), call)


class MapsNames(Base):
    """Takes namespaces for one another, as `mapped` says."""

    def mapped(self, name: str) -> str:
        """The namespace that is used instead of *name*."""
        return name

    async def store(self, **call: Any) -> Any:
        record = await super().store(**{**call, "namespace": self.mapped(call["namespace"])})
        return attrs.evolve(record, namespace=call["namespace"])

    async def retrieve(self, **call: Any) -> Any:
        record = await super().retrieve(**{**call, "namespace": self.mapped(call["namespace"])})
        return attrs.evolve(record, namespace=call["namespace"])

    async def delete(self, **call: Any) -> Any:
        return await super().delete(**{**call, "namespace": self.mapped(call["namespace"])})

    async def search(self, **call: Any) -> Any:
        found = await super().search(**{**call, "namespace": self.mapped(call["namespace"])})
        own = call["namespace"]
        return [attrs.evolve(match, record=attrs.evolve(match.record, namespace=own)) for match in found]

    async def list_keys(self, **call: Any) -> Any:
        return await super().list_keys(**{**call, "namespace": self.mapped(call["namespace"])})


class PhantomKeys(Base):
    """Lists a key that nobody stored."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return page if page.items or call["after"] else Page(items=["phantom"])


class Everything(Base):
    """Can give all there is in a namespace as matches."""

    async def everything(self, namespace: str) -> list[Match]:
        """Every record, with a score of nothing."""
        page = await super().list_keys(namespace=namespace, prefix="", limit=1000, after=None)
        found = []
        for key in page.items:
            found.append(Match(record=await super().retrieve(key=key, namespace=namespace), score=0.5))
        return found
