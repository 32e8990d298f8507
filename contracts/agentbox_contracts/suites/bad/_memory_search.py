"""Known-bad memories: searches that find too much, too little, or in another order."""

from __future__ import annotations

import re
from typing import Any

import attrs

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.memory import Match
from agentbox_contracts.suites._memory_model import passes
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._memory_common import Everything, Remembers, Rescores, invented, place

Call = dict[str, Any]


@known_bad(caught_by="memory.search.vector")
class RanksBackwards(Rescores):
    """Gives the least alike first."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return found[::-1]


@known_bad(caught_by="memory.search.vector")
class ScoresDistances(Rescores):
    """Tells a distance where the likeness belongs."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return [attrs.evolve(match, score=1 - match.score) for match in found]


@known_bad(caught_by="memory.search.text")
class FindsWhatHasNoWord(Everything):
    """Finds by text whatever there is."""

    async def search(self, **call: Any) -> Any:
        found = await super().search(**call)
        known = {match.record.key for match in found}
        rest = [match for match in await self.everything(call["namespace"]) if match.record.key not in known]
        return found + rest


@known_bad(caught_by="memory.search.text")
class ScoresWithoutEnd(Rescores):
    """Gives relevance that has no upper bound."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return [attrs.evolve(match, score=match.score + 1) for match in found]


@known_bad(caught_by="memory.search.case")
class MindsCase(Rescores):
    """Finds words only as they were written."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return [match for match in found if str(call["query"]).strip("?") in str(match.record.value)]


@known_bad(caught_by="memory.search.hybrid")
class IgnoresTheText(Base):
    """Searches by vector alone where both are asked for."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "mode": "vector" if call["embedding"] else call["mode"]})


@known_bad(caught_by="memory.search.hybrid-default")
class SearchesByTextAlone(Base):
    """Searches by text alone where the embedder should help."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "mode": "text" if call["query"] else call["mode"]})


@known_bad(caught_by="memory.search.embedding-only")
class FusesOneRanking(Rescores):
    """Fuses a ranking by vector with none."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        if call["mode"] != "hybrid":
            return found
        return [attrs.evolve(match, score=0.5 / rank) for rank, match in enumerate(found, start=1)]


@known_bad(caught_by="memory.search.nothing")
class FindsSomethingInNothing(Rescores):
    """Finds something where there is nothing."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        made = dict.fromkeys(("source", "session_id", "bead_id"))
        record = invented({"key": "phantom", "value": 1, "metadata": {}, "namespace": call["namespace"], **made})
        return found or [Match(record=record, score=0.1)]


@known_bad(caught_by="memory.search.limit")
class GivesMoreThanAsked(Base):
    """Gives more than was asked for."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "limit": call["limit"] + 1})


@known_bad(caught_by="memory.search.limit")
class GivesFewer(Rescores):
    """Gives fewer than there are."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return found[:5]


@known_bad(caught_by="memory.search.min-score")
class IgnoresTheLowestScore(Base):
    """Gives whatever its score is."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "min_score": None})


@known_bad(caught_by="memory.search.min-score")
class WantsMoreThanTheLowestScore(Rescores):
    """Leaves out what has just the score that was asked for."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        return [match for match in found if call["min_score"] is None or match.score > call["min_score"]]


@known_bad(caught_by="memory.search.stable")
class OrdersEqualsByAccident(Rescores):
    """Gives what is equally good in any order."""

    def rescored(self, found: list[Match], call: Call) -> list[Match]:
        found.reverse()
        return sorted(found, key=lambda match: -match.score)


@known_bad(caught_by="memory.search.unasked")
class SearchesForNothing(Base):
    """Finds nothing where nothing was looked for."""

    async def search(self, **call: Any) -> Any:
        try:
            return await super().search(**call)
        except InvalidInput:
            return []


@known_bad(caught_by="memory.search.bounds")
class FindsNothingByLongQueries(Base):
    """Finds nothing where the query is long."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**call) if len(call["query"] or "") < 1000 else []


@known_bad(caught_by="memory.embedding.not-numbers")
class FindsNothingByLongVectors(Base):
    """Finds nothing where the vector is long."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**call) if len(call["embedding"] or ()) <= 2000 else []


@known_bad(caught_by="memory.text.syntax")
class StumblesOverSigns(Base):
    """Finds nothing where a query has more than words in it."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**call) if re.fullmatch(r"[\w ]*", call["query"] or "") else []


@known_bad(caught_by="memory.text.no-words")
class FindsAllByNoWord(Everything):
    """Finds all there is where a query has no word."""

    async def search(self, **call: Any) -> Any:
        if re.search(r"\w", call["query"] or "x"):
            return await super().search(**call)
        return await self.everything(call["namespace"])


@known_bad(caught_by="memory.text.nested")
class ReadsOnlyTheTop(Base):
    """Finds a value only if it is text itself."""

    async def store(self, **call: Any) -> Any:
        text = call["text"] if call["text"] is not None or isinstance(call["value"], str) else ""
        return await super().store(**{**call, "text": text})


@known_bad(caught_by="memory.text.given")
class IgnoresGivenText(Base):
    """Finds a record by its value, whatever text was given."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "text": None})


@known_bad(caught_by="memory.text.given")
class StoresTheText(Base):
    """Takes the text for the value."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "value": call["text"] or call["value"]})


@known_bad(caught_by="memory.text.long")
class ReadsOnlyTheBeginning(Base):
    """Finds a long text by its beginning alone."""

    async def store(self, **call: Any) -> Any:
        text = call["text"] if call["text"] is not None else str(call["value"])
        return await super().store(**{**call, "text": text[:2000]})


@known_bad(caught_by="memory.text.whole-words")
class FindsPartsOfWords(Everything):
    """Finds what has the query anywhere within a word."""

    async def search(self, **call: Any) -> Any:
        everything = await self.everything(call["namespace"])
        return [match for match in everything if call["query"] in str(match.record.value)]


@known_bad(caught_by="memory.text.beside-vectors")
class ForgetsTextBesideVectors(Base):
    """Does not find text that came with a vector."""

    async def store(self, **call: Any) -> Any:
        return await super().store(**{**call, "text": "" if call["embedding"] else call["text"]})


@known_bad(caught_by="memory.filter.before-cut")
class CutsBeforeTheFilter(Base):
    """Cuts the ranking, and then looks at the filter."""

    async def search(self, **call: Any) -> Any:
        found = await super().search(**{**call, "filter": None})
        return [match for match in found if passes(call["filter"] or {}, match.record.metadata)]


class Refilters(Base):
    """Searches with another filter than it was given, which `refiltered` says."""

    def refiltered(self, filter: Call) -> Call | None:
        """The filter that is used instead."""
        return filter

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "filter": call["filter"] and self.refiltered(call["filter"])})


@known_bad(caught_by="memory.filter.kinds")
class TakesTrueForOne(Refilters):
    """Takes true for the number one."""

    def refiltered(self, filter: Call) -> Call:
        return {name: {"in": [1, True]} if wanted is True else wanted for name, wanted in filter.items()}


@known_bad(caught_by="memory.filter.kinds")
class TakesMissingForNull(Refilters):
    """Takes what is missing for null."""

    def refiltered(self, filter: Call) -> Call:
        return filter if filter != {"n": None} else {"or": [filter, {"n": {"exists": False}}]}


@known_bad(caught_by="memory.filter.numbers")
class ComparesFloats(Refilters):
    """Takes a large integer for the float that is nearest to it."""

    def refiltered(self, filter: Call) -> Call:
        wanted = filter["n"]
        if isinstance(wanted, dict):
            return {"n": {how: float(value) if how != "in" else value for how, value in wanted.items()}}
        return {"n": float(wanted)}


@known_bad(caught_by="memory.filter.code-points")
class ComparesLikeADictionary(Base):
    """Compares text without regard to its case."""

    async def search(self, **call: Any) -> Any:
        found = await super().search(**{**call, "filter": None})
        bound = call["filter"]["t"]["lt"].casefold()
        return [match for match in found if match.record.metadata["t"].casefold() < bound]


@known_bad(caught_by="memory.filter.brute-force")
class IgnoresNot(Refilters):
    """Takes what should not hold for what should."""

    def refiltered(self, filter: Call) -> Call:
        return dict(filter.get("not", filter))


@known_bad(caught_by="memory.filter.brute-force")
class TakesOrForAnd(Refilters):
    """Lets pass only what fulfils all of several filters, where one would do."""

    def refiltered(self, filter: Call) -> Call:
        return {"and" if name == "or" else name: wanted for name, wanted in filter.items()}


@known_bad(caught_by="memory.filter.text-too")
class FiltersVectorsAlone(Base):
    """Forgets the filter when it searches by text."""

    async def search(self, **call: Any) -> Any:
        return await super().search(**{**call, "filter": None if call["mode"] == "text" else call["filter"]})


@known_bad(caught_by="memory.filter.refused")
class AcceptsAnyFilter(Base):
    """Finds nothing by what is no filter."""

    async def search(self, **call: Any) -> Any:
        try:
            return await super().search(**call)
        except InvalidInput:
            return []


class MergesMetadata(Remembers):
    """Adds new metadata to the old."""

    async def store(self, **call: Any) -> Any:
        self.memory[place(call)] = {**self.memory.get(place(call), {}), **call["metadata"]}
        record = await super().store(**{**call, "metadata": self.memory[place(call)]})
        return attrs.evolve(record, metadata=call["metadata"])


@known_bad(caught_by="memory.filter.fresh")
class FiltersByOldMetadata(MergesMetadata):
    """Lets pass what once had such metadata."""


@known_bad(caught_by="memory.model.same")
class AddsUpMetadata(MergesMetadata):
    """Has the metadata of all updates, and says that it has the last."""
