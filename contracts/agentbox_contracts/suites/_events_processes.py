"""Clauses of events: several processes write one log, and a killed one leaves all it was told is kept."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import attrs
import pytest

from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._beads_common import seeded
from agentbox_contracts.suites._events_common import Corner, corner_of, everything, ids
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Point

__all__ = ["CrashClauses", "Killed", "ProcessClauses", "killed_writers"]

PROCESSES = 3
POINTS: tuple[Point, ...] = ("received", "begun", "done")
MOMENT = 0.03


@attrs.frozen
class Killed:
    """What came of the events of writers that were killed meanwhile."""

    acknowledged: frozenset[str]
    counts: Counter[str]
    """How often each event is in the log."""
    batches: tuple[int, ...]
    """Of each batch that nobody acknowledged, how many events are in the log."""
    size: int
    """How many events a batch has."""

    @property
    def is_sound(self) -> bool:
        """Acknowledged exactly once, the rest at most once, and a batch whole or not at all."""
        once = all(count == 1 for count in self.counts.values())
        return once and self.acknowledged <= {*self.counts} and {*self.batches} <= {0, self.size}


async def killed_writers(
    here: Events, open_process: OpenProcess, manifest: str, chance: random.Random, *, writers: int = 2, each: int = 40
) -> tuple[Killed, list[Event], Corner]:
    """Let *writers* processes dispatch as fast as they can, one by one and in batches, and kill them meanwhile."""
    corner = await corner_of(here)
    size = 5
    singles = [corner.events(each) for _ in range(writers)]
    batches = [[corner.events(size, kind="batch") for _ in range(each // size)] for _ in range(writers)]
    acknowledged: set[str] = set()
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(open_process(manifest)) for _ in range(writers)]
        calls = []
        for side, own, many in zip(sides, singles, batches, strict=True):
            calls += [asyncio.ensure_future(_noted(acknowledged, [event], side.dispatch(event))) for event in own]
            calls += [asyncio.ensure_future(_noted(acknowledged, batch, side.dispatch_many(batch))) for batch in many]
        await _answered(calls, chance.randrange(len(calls) + 1))
        await asyncio.sleep(MOMENT * chance.random() ** 2)
        await asyncio.gather(*(side.kill() for side in sides))
        await asyncio.gather(*calls)
    counts = Counter(str(event.id) for event in await corner.settled())
    told = [batch for many in batches for batch in many]
    unheard = [batch for batch in told if str(batch[0].id) not in acknowledged]
    parts = tuple(sum(str(event.id) in counts for event in batch) for batch in unheard)
    every = [event for own in singles for event in own] + [event for batch in told for event in batch]
    return Killed(frozenset(acknowledged), counts, parts, size), every, corner


async def _noted(acknowledged: set[str], events: list[Event], call: Any) -> None:
    """Note *events* when the call is answered; that its process died before is what is being tested."""
    try:
        await call
    except ConnectionError:
        return
    acknowledged |= {str(event.id) for event in events}


async def _answered(calls: Iterable[asyncio.Future[Any]], count: int) -> None:
    """Wait until so many of *calls* are over: on a slow machine too, some crashes come early and some late."""
    waiting = set(calls)
    fewest = len(waiting) - count
    while len(waiting) > fewest:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


class ProcessClauses:
    """Several processes, one log."""

    @clause("events.process.one-log")
    async def test_several_processes_write_one_log(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """What several processes dispatch at the same time is one log: each once, each one's in order, no gaps."""
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(open_adapter(manifest))
            sides = [here, *[await stack.enter_async_context(open_process(manifest)) for _ in range(PROCESSES - 1)]]
            corner = await corner_of(here)
            told = [corner.events(30, kind=f"k{number}") for number in range(PROCESSES)]
            await asyncio.gather(*(_tell(side, events) for side, events in zip(sides, told, strict=True)))
            found = await corner.settled()
            every = [event.seq for event in await everything(here, corner.start)]

            assert len(found) == 30 * PROCESSES
            for events in told:
                assert ids([event for event in found if event.type == events[0].type]) == ids(events)
            assert every == list(range(corner.start + 1, corner.start + 1 + len(every)))

    @clause("events.process.one-chain", needs=("verify",))
    async def test_several_processes_write_one_chain(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """The chain that several processes have written verifies, in each of them."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            corner = await corner_of(here)
            await asyncio.gather(*(_tell(side, corner.events(20)) for side in (here, there)))
            await corner.settled()
            verdicts = [await side.verify() for side in (here, there)]

            assert [(verdict.ok, verdict.reason) for verdict in verdicts] == [(True, "")] * 2

    @clause("events.process.seen")
    async def test_what_another_process_wrote_is_seen(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """What one process was given a seq for, every other reads at once; what is spooled, it reads soon."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            corner = await corner_of(here)
            for side, other in ((there, here), (here, there), (there, here)):
                event = corner.event()
                receipt = await side.dispatch(event)
                until = event.id if receipt.seq is None else None
                found = await everything(other, corner.start, until=until)

                assert event.id in ids(found)


class CrashClauses:
    """Acknowledged is there once; the rest at most once."""

    @clause("events.crash.reopened")
    async def test_what_was_acknowledged_is_there_after_reopening(
        self, open_adapter: OpenAdapter, manifest: str
    ) -> None:
        """What was acknowledged before the adapter was closed is there when it is opened again."""
        async with open_adapter(manifest) as adapter:
            corner = await corner_of(adapter)
            events = corner.events(40)
            await asyncio.gather(*(adapter.dispatch(event) for event in events[:20]))
            await adapter.dispatch_many(events[20:])
        async with open_adapter(manifest) as adapter:
            found = await Corner(adapter, corner.name, corner.start).settled()

        assert sorted(map(str, ids(found))) == sorted(map(str, ids(events)))

    @clause("events.crash.points")
    async def test_a_crash_at_a_named_point_leaves_all_or_nothing(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Killed before a call nothing of it is there, killed after it all is, killed meanwhile all or nothing."""
        async with open_adapter(manifest) as here:
            for method in ("dispatch", "dispatch_many"):
                for point in POINTS:
                    corner = await corner_of(here)
                    events = corner.events(5 if method == "dispatch_many" else 1)
                    async with open_process(manifest, crash=Crash(point, method)) as there:
                        with pytest.raises(ConnectionError):
                            await getattr(there, method)(events if method == "dispatch_many" else events[0])
                        await there.ended()
                    found = ids(await corner.settled())

                    whole = ids(events)
                    outcomes: dict[Point, list[Any]] = {"received": [[]], "begun": [[], whole], "done": [whole]}
                    assert found in outcomes[point], f"{method} killed at {point}"

    @clause("events.crash.moments")
    async def test_a_crash_at_any_moment_loses_nothing(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """When writers are killed at any moment, what was acknowledged is there once, of the rest all or nothing."""
        chance = seeded()
        async with open_adapter(manifest) as here:
            for _ in range(3):
                killed, _, _ = await killed_writers(here, open_process, manifest, chance)

                assert killed.is_sound, killed

    @clause("events.crash.again", needs=("dedupe",))
    async def test_what_is_told_again_after_a_crash_is_there_once(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """When everything is told again after a crash, each event is there once."""
        async with open_adapter(manifest) as here:
            _, events, corner = await killed_writers(here, open_process, manifest, seeded())
            await here.dispatch_many(events)
            counts = Counter(ids(await corner.settled()))

            assert counts == Counter(ids(events))

    @clause("events.crash.verifies", needs=("verify",))
    async def test_the_chain_verifies_after_a_crash(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """After a crash the chain verifies and `seq` has no gaps."""
        async with open_adapter(manifest) as here:
            _, _, corner = await killed_writers(here, open_process, manifest, seeded(), writers=1)
            verdict = await here.verify()
            every = [event.seq for event in await everything(here, corner.start)]

            assert (verdict.ok, verdict.place, verdict.reason) == (True, None, "")
            assert every == list(range(corner.start + 1, corner.start + 1 + len(every)))


async def _tell(side: Any, events: list[Event]) -> None:
    for event in events:
        await side.dispatch(event)
