"""Known-bad memories: names that are taken for one another, and lists that are not what they say."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import Any

import attrs

from agentbox_contracts.contract import Page
from agentbox_contracts.memory import Match
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import MapsNames, PhantomKeys, Remembers, Rescores


@known_bad(caught_by="memory.isolation.names")
class FoldsNamespaces(MapsNames):
    """Takes namespaces for the same that differ only in case."""

    def mapped(self, name: str) -> str:
        return name.casefold()


@known_bad(caught_by="memory.isolation.names")
class NormalizesNamespaces(MapsNames):
    """Takes namespaces for the same that look alike."""

    def mapped(self, name: str) -> str:
        return unicodedata.normalize("NFKC", name)


@known_bad(caught_by="memory.isolation.names")
class TrimsNamespaces(MapsNames):
    """Takes white space from the ends of namespaces."""

    def mapped(self, name: str) -> str:
        return name.strip()


@known_bad(caught_by="memory.isolation.names")
class NamesNoNamespaces(Base):
    """Lists no namespace that has a slash in it."""

    async def list_namespaces(self, **call: Any) -> Any:
        page = await super().list_namespaces(**call)
        return Page(items=[name for name in page.items if "/" not in name], next=page.next)


@known_bad(caught_by="memory.isolation.whole-names")
class WalksNamespaces(MapsNames):
    """Takes a namespace for a path."""

    def mapped(self, name: str) -> str:
        return posixpath.normpath(name)


@known_bad(caught_by="memory.isolation.random-names")
class SlugsNamespaces(MapsNames):
    """Makes one character of all that are neither letters nor digits."""

    def mapped(self, name: str) -> str:
        return re.sub(r"\W", "_", name)


@known_bad(caught_by="memory.isolation.keys")
class FoldsNamesOfRecords(Base):
    """Takes keys for the same that differ only in case."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "key": call["key"].casefold()})

    async def retrieve(self, **call: Any) -> Any:
        return await super().retrieve(**{**call, "key": call["key"].casefold()})

    async def delete(self, **call: Any) -> Any:
        return await super().delete(**{**call, "key": call["key"].casefold()})


@known_bad(caught_by="memory.isolation.dimensions")
class SearchesOneLength(Remembers):
    """Finds nothing by vectors that are not as long as the first it ever saw."""

    async def search(self, **call: Any) -> Any:
        first = self.memory.setdefault("length", len(call["embedding"] or ()))
        return await super().search(**call) if len(call["embedding"] or ()) == first else []


@known_bad(caught_by="memory.isolation.scores")
class CountsOthersTexts(Remembers):
    """Weighs a word by all texts that it holds, in whatever namespace."""

    async def store(self, **call: Any) -> Any:
        self.memory["texts"] = self.memory.get("texts", 0) + 1
        return await super().store(**call)

    async def search(self, **call: Any) -> Any:
        count = self.memory.get("texts", 0)
        return [attrs.evolve(match, score=match.score / count) for match in await super().search(**call)]


@known_bad(caught_by="memory.isolation.refused")
class ListsAPhantom(PhantomKeys):
    """Lists a key where nothing was stored."""


@known_bad(caught_by="memory.isolation.longest")
class CutsNamespaces(MapsNames):
    """Cuts namespaces at 150 characters."""

    def mapped(self, name: str) -> str:
        return name[:150]


@known_bad(caught_by="memory.keys.order")
class OrdersLikeADictionary(Base):
    """Orders keys without regard to their case."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=sorted(page.items, key=lambda key: (key.casefold(), key)), next=page.next)


@known_bad(caught_by="memory.keys.pages")
class AlwaysPromisesMore(Base):
    """Says after the last page that there is another."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=page.items, next=page.items[-1] if page.items else None)


@known_bad(caught_by="memory.keys.pages")
class LosesKeysBetweenPages(Base):
    """Leaves a key out between two pages."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=page.items[1:] if call["after"] else page.items, next=page.next)


@known_bad(caught_by="memory.keys.after")
class BeginsOnlyBehindItsKeys(Base):
    """Gives nothing behind a key that is not there."""

    async def list_keys(self, **call: Any) -> Any:
        if call["after"]:
            everything = await super().list_keys(**{**call, "after": None, "limit": 1000})
            if call["after"] not in everything.items:
                return Page(items=[])
        return await super().list_keys(**call)


@known_bad(caught_by="memory.keys.prefix")
class TakesPrefixesForPatterns(Base):
    """Takes a prefix for a pattern."""

    async def list_keys(self, **call: Any) -> Any:
        pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in call["prefix"])
        page = await super().list_keys(**{**call, "prefix": "", "limit": 1000})
        return Page(items=[key for key in page.items if re.match(pattern, key, re.DOTALL)])


@known_bad(caught_by="memory.keys.empty")
class FindsKeysInNothing(PhantomKeys):
    """Lists a key of a namespace that holds nothing."""


@known_bad(caught_by="memory.namespaces.order")
class OrdersNamespacesByCase(Base):
    """Orders namespaces without regard to their case."""

    async def list_namespaces(self, **call: Any) -> Any:
        page = await super().list_namespaces(**call)
        return Page(items=sorted(page.items, key=str.casefold, reverse=True), next=page.next)


@known_bad(caught_by="memory.namespaces.order")
class ListsNamespacesTwice(Base):
    """Lists a namespace once for each of its records."""

    async def list_namespaces(self, **call: Any) -> Any:
        page = await super().list_namespaces(**call)
        return Page(items=[name for name in page.items for _ in range(2)], next=page.next)


@known_bad(caught_by="memory.namespaces.empty")
class RemembersNamespaces(Remembers):
    """Lists every namespace that there ever was."""

    async def store(self, **call: Any) -> Any:
        self.memory[call["namespace"]] = True
        return await super().store(**call)

    async def list_namespaces(self, **call: Any) -> Any:
        page = await super().list_namespaces(**call)
        return page if page.next else Page(items=sorted({*page.items, *self.memory}))


@known_bad(caught_by="memory.lists.refused")
class GivesNoLargePages(Base):
    """Gives nothing where very much is asked for."""

    async def list_keys(self, **call: Any) -> Any:
        page = await super().list_keys(**call)
        return Page(items=[]) if call["limit"] == 1000 else page


@known_bad(caught_by="memory.search.prefix")
class TakesSearchedPrefixesForPatterns(Base):
    """Takes the prefix of a search for a pattern."""

    async def search(self, **call: Any) -> Any:
        pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in call["prefix"])
        found = await super().search(**{**call, "prefix": "", "limit": 1000})
        return [match for match in found if re.match(pattern, match.record.key)][: call["limit"]]


@known_bad(caught_by="memory.search.prefix")
class CutsBeforeThePrefix(Rescores):
    """Cuts the ranking, and then looks at the prefix."""

    async def search(self, **call: Any) -> Any:
        found: list[Match] = await super().search(**{**call, "prefix": ""})
        return [match for match in found if match.record.key.startswith(call["prefix"])]
