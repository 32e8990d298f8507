"""Known-bad reading: pages with gaps, cursors that are off by one, types that are compared by guess."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import attrs

from agentbox_contracts.events import Event
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._events_common import Inward, Outward, Remembers


@known_bad(caught_by="events.read.pages")
class RepeatsBetweenPages(Base):
    """Begins each page with the last event of the one before."""

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        return await super().read(after=max(0, (after or 0) - 1), **call)


@known_bad(caught_by="events.read.pages")
class LosesBetweenPages(Remembers):
    """Leaves an event out between two pages."""

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        skip = 1 if after in self.memory else 0
        found = await super().read(after=(after or 0) + skip, **call)
        if len(found) == 7:
            self.memory[found[-1].seq] = True
        return found


@known_bad(caught_by="events.read.limit")
class GivesHalfPages(Base):
    """Gives fewer events than there are."""

    async def read(self, *, limit: int = 1000, **call: Any) -> Any:
        return await super().read(limit=max(1, limit // 2), **call)


@known_bad(caught_by="events.read.limit")
class GivesOneMore(Base):
    """Gives one event more than it is asked for."""

    async def read(self, *, limit: int = 1000, **call: Any) -> Any:
        return await super().read(limit=limit + 1, **call)


@known_bad(caught_by="events.read.any-cursor")
class BeginsAtTheCursor(Base):
    """Gives the event at the cursor too."""

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        return await super().read(after=after - 1 if after else None, **call)


@known_bad(caught_by="events.read.any-cursor")
class BeginsAnewBehindTheEnd(Base):
    """Begins anew when the cursor is behind the end."""

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        found = await super().read(after=after, **call)
        is_far = (after or 0) > 1000 and not await super().read(after=(after or 0) - 900, limit=1)
        return await super().read(**call) if is_far else found


@known_bad(caught_by="events.read.start")
class BeginsAtTheEnd(Base):
    """Without a cursor gives what is still to come."""

    async def read(self, *, after: int | None = None, types: Any = (), **call: Any) -> Any:
        return [] if after is None and not types else await super().read(after=after, types=types, **call)


@known_bad(caught_by="events.read.start")
class CountsFromZero(Base):
    """Takes 0 for the first event."""

    async def read(self, *, after: int | None = None, **call: Any) -> Any:
        return await super().read(after=1 if after == 0 else after, **call)


class Chooses(Base):
    """Chooses types in its own way, which `fits` says."""

    def fits(self, kind: str, asked: str) -> bool:
        """Whether an event of *kind* is given when *asked* was asked for."""
        return kind.startswith(asked[:-1]) if asked.endswith(".*") else kind == asked

    async def read(
        self, *, after: int | None = None, limit: int = 1000, types: tuple[str, ...] = (), **call: Any
    ) -> Any:
        if not types:
            return await super().read(after=after, limit=limit, **call)
        found = await super().read(after=after, limit=10_000, **call)
        return [event for event in found if any(self.fits(event.type, asked) for asked in types)][:limit]


@known_bad(caught_by="events.read.types")
class ChoosesByBeginning(Chooses):
    """Gives all types that begin like the one that was asked for."""

    def fits(self, kind: str, asked: str) -> bool:
        return kind.startswith(asked)


@known_bad(caught_by="events.read.types")
class ChoosesInAnyCase(Chooses):
    """Does not tell capitals from small letters."""

    def fits(self, kind: str, asked: str) -> bool:
        return super().fits(kind.casefold(), asked.casefold())


@known_bad(caught_by="events.read.types")
class ChoosesByPattern(Chooses):
    """Takes every star for anything."""

    def fits(self, kind: str, asked: str) -> bool:
        return fnmatchcase(kind, asked)


@known_bad(caught_by="events.read.prefix")
class StarIsOneWord(Chooses):
    """Takes the star for one word and not for more."""

    def fits(self, kind: str, asked: str) -> bool:
        return super().fits(kind, asked) and (not asked.endswith(".*") or kind.count(".") == asked.count("."))


@known_bad(caught_by="events.read.prefix")
class StarIsNothingToo(Chooses):
    """Gives the name itself as well."""

    def fits(self, kind: str, asked: str) -> bool:
        return super().fits(kind, asked) or f"{kind}.*" == asked


@known_bad(caught_by="events.read.prefix")
class StarNeedsNoDot(Chooses):
    """Gives types that only begin with the same letters."""

    def fits(self, kind: str, asked: str) -> bool:
        return kind.startswith(asked.removesuffix(".*"))


@known_bad(caught_by="events.read.prefix")
class UnderscoreIsAnything(Chooses):
    """Takes an underscore for any letter, as a database might."""

    def fits(self, kind: str, asked: str) -> bool:
        return fnmatchcase(kind, asked.replace("_", "?")) if "_" in asked else super().fits(kind, asked)


@known_bad(caught_by="events.read.rare")
class ChoosesAfterwards(Base):
    """Cuts the page first, and chooses the types then."""

    async def read(self, *, types: tuple[str, ...] = (), **call: Any) -> Any:
        return [event for event in await super().read(**call) if not types or event.type in types]


@known_bad(caught_by="events.verify.ok")
class NeverVerifies(Base):
    """Finds every chain broken."""

    async def verify(self) -> Any:
        return attrs.evolve(await super().verify(), ok=False, reason="it looks wrong")


@known_bad(caught_by="events.verify.ok")
class VerifiesAPart(Base):
    """Does not look at the last event."""

    async def verify(self) -> Any:
        verdict = await super().verify()
        return attrs.evolve(verdict, verified=verdict.verified - 1, last_seq=verdict.last_seq - 1)


@known_bad(caught_by="events.garbage.names-kept")
class StripsSubjects(Inward):
    """Takes white space from the ends of subjects."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, subject=event.subject and event.subject.strip())


@known_bad(caught_by="events.garbage.extremes-kept")
class TruncatesIds(Outward):
    """Tells the first 64 characters of an id."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, id=str(event.id)[:64])


@known_bad(caught_by="events.garbage.extremes-kept")
class EmptyIsNone(Inward):
    """Keeps empty data as none."""

    def inward(self, event: Event) -> Event:
        return attrs.evolve(event, data=event.data or None)


@known_bad(caught_by="events.garbage.extremes-kept")
class FloatsData(Outward):
    """Makes whole numbers floats."""

    def outward(self, event: Event) -> Event:
        return attrs.evolve(event, data=_floated(event.data))


def _floated(value: Any) -> Any:
    if isinstance(value, list):
        return [_floated(item) for item in value]
    return float(value) if type(value) is int and abs(value) < 1000 else value
