"""Clauses of events: reading from any place, page by page, all or some types; and the verdict on the whole."""

from __future__ import annotations

from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._events_common import Corner, corner_of, everything, ids
from agentbox_contracts.suites.clauses import clause

__all__ = ["ReadClauses", "VerifyClauses"]

HOSTILE_TYPES = ("a", "a.b", "a.b.c", "A.b", "a_b", "axb", "a%b", "a*b", "a>b", "a b", "ü", "a..b", "a.b.", "*", ">")


async def written(corner: Corner, kinds: tuple[str, ...]) -> list[Event]:
    """An event of each kind, in the log."""
    for number, kind in enumerate(kinds):
        await corner.adapter.dispatch(corner.event(kind, data=number))
    return await corner.settled()


async def chosen(corner: Corner, *kinds: str, limit: int = 1000) -> list[str]:
    """The kinds of the events that are read when types are chosen."""
    types = tuple(f"{corner.name}.{kind}" for kind in kinds)
    found = await corner.adapter.read(after=corner.start, types=types, limit=limit)
    return [event.type.removeprefix(f"{corner.name}.") for event in found]


class ReadClauses:
    """`read` gives a page."""

    @clause("events.read.pages")
    async def test_pages_have_no_gaps(self, adapter: Events) -> None:
        """Page by page behind the last seq, every event is read once and in order, whatever the size of a page."""
        corner = await corner_of(adapter)
        await adapter.dispatch_many(corner.events(23))
        every = await corner.settled()
        for limit in (1, 2, 7, 23, 10_000):
            after, found = corner.start, list[Event]()
            for _ in range(60):
                page = await adapter.read(after=after, limit=limit)
                found += [event for event in page if corner.owns(event)]
                after = max((event.seq or 0 for event in page), default=after)
                if not page:
                    break

            assert found == every, f"with pages of {limit}"

    @clause("events.read.limit")
    async def test_a_page_is_full_unless_the_log_ends(self, adapter: Events) -> None:
        """A page has at most `limit` events, and fewer only at the end of the log."""
        corner = await corner_of(adapter)
        await adapter.dispatch_many(corner.events(12))
        await corner.settled()
        sizes = [len(await adapter.read(after=corner.start, limit=limit)) for limit in (1, 5, 12)]
        rest = len(await everything(adapter, corner.start))

        assert sizes == [1, 5, 12]
        assert len(await adapter.read(after=corner.start, limit=10_000)) == rest

    @clause("events.read.any-cursor")
    async def test_reading_begins_behind_any_event(self, adapter: Events) -> None:
        """Reading behind any event gives all that came after it, and not itself; behind the last it gives nothing."""
        corner = await corner_of(adapter)
        await adapter.dispatch_many(corner.events(8))
        await corner.settled()
        every = await everything(adapter, corner.start)
        for number, event in enumerate(every, 1):
            assert await adapter.read(after=event.seq) == every[number:]

        assert await adapter.read(after=(every[-1].seq or 0) + 1000) == []

    @clause("events.read.start")
    async def test_without_a_cursor_reading_begins_at_the_start(self, adapter: Events) -> None:
        """Without a cursor, and behind 0, reading begins with the first event there is."""
        corner = await corner_of(adapter)
        await corner.told(2)
        await corner.settled()
        first = await adapter.read(limit=3)

        assert [event.seq for event in first] == sorted(event.seq or 0 for event in first)
        assert first
        assert (first[0].seq or 0) <= corner.start
        assert await adapter.read(after=0, limit=3) == first
        assert await adapter.read(after=first[0].seq, limit=2) == first[1:]

    @clause("events.read.types")
    async def test_types_are_compared_exactly(self, adapter: Events) -> None:
        """A type chooses the events of exactly that type, whatever it is made of; several choose all of theirs."""
        corner = await corner_of(adapter)
        await written(corner, HOSTILE_TYPES)
        for kind in HOSTILE_TYPES:
            if kind != "*":
                assert await chosen(corner, kind) == [kind]

        assert await chosen(corner, "A.b", "none", "a") == ["a", "A.b"]
        assert await chosen(corner, "none") == []

    @clause("events.read.prefix")
    async def test_a_name_and_a_star_choose_what_begins_with_it(self, adapter: Events) -> None:
        """`name.*` chooses the types that begin with the name and a dot, at any depth, and not the name itself."""
        corner = await corner_of(adapter)
        kinds = ("one", "one.two", "one.two.three", "oneself", "One.two", "o_e.two", "one.*", "two.one.two")
        await written(corner, kinds)

        assert await chosen(corner, "one.*") == ["one.two", "one.two.three", "one.*"]
        assert await chosen(corner, "one.two.*") == ["one.two.three"]
        assert await chosen(corner, "o_e.*") == ["o_e.two"]
        assert await chosen(corner, "two.*", "oneself") == ["oneself", "two.one.two"]

    @clause("events.read.rare")
    async def test_types_are_chosen_before_the_page_is_cut(self, adapter: Events) -> None:
        """A page of chosen types is full although others lie between, and pages of them have no gaps."""
        corner = await corner_of(adapter)
        events = [corner.event("rare" if n % 40 == 39 else "common", data=n) for n in range(240)]
        await adapter.dispatch_many(events)
        await corner.settled()
        after, found = corner.start, list[Event]()
        for _ in range(6):
            page = await adapter.read(after=after, limit=2, types=(f"{corner.name}.rare",))
            found += page
            after = max((event.seq or 0 for event in page), default=after)

        assert ids(found) == ids([event for event in events if event.type.endswith(".rare")])


class VerifyClauses:
    """The whole chain."""

    @clause("events.verify.ok", needs=("verify",))
    async def test_what_was_written_verifies(self, adapter: Events) -> None:
        """A log that nobody has touched is verified from its first event to its last."""
        corner = await corner_of(adapter)
        await corner.told(7)
        await corner.settled()
        verdict = await adapter.verify()
        every = await everything(adapter, 0)

        assert (verdict.ok, verdict.place, verdict.reason) == (True, None, "")
        assert (verdict.first_seq, verdict.last_seq, verdict.verified) == (every[0].seq, every[-1].seq, len(every))
