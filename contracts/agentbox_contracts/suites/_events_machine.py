"""Clause of events: whatever is done in whatever order, the adapter and a list of events say the same."""

from __future__ import annotations

import time
from typing import Any, ClassVar
from uuid import uuid4

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentbox_contracts.errors import InvalidInput
from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._events_common import MOMENT, PATIENCE, Corner, corner_of, taken
from agentbox_contracts.suites._machines import Ask, Effort, answer_of, apart
from agentbox_contracts.suites.clauses import clause

__all__ = ["ModelClauses"]

KINDS = st.sampled_from(("a", "a.b", "a.b.c", "b"))
CHOICES = st.sampled_from(((), ("a",), ("a.*",), ("a.b.*", "b"), ("c",)))
NUMBERS = st.integers(0, 9)
"""Ids are drawn from few, so that some come twice."""
NAMES = st.sampled_from(("one", "other"))

EFFORT = Effort(examples=60, steps=20, seconds=6.0)
CALLS, CALLS_A_STEP = 10, 2


class Model:
    """A log in plain Python: events in order, the same id once, and the place of each name."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.places: dict[str, int] = {}

    def dispatch(self, event: Event) -> bool:
        """Whether the log had it already."""
        if any(event.id == known.id for known in self.events):
            return True
        self.events.append(event)
        return False

    def chosen(self, types: tuple[str, ...], after: int = 0) -> list[str | None]:
        """The ids behind the place *after* of this log, of some types or of all."""
        return [event.id for event in self.events[after:] if not types or any(_is_of(event, each) for each in types)]

    def ack(self, name: str, place: int) -> None:
        """Places never go backwards, and never beyond the end."""
        if place > len(self.events):
            raise InvalidInput(name)
        self.places[name] = max(self.places.get(name, 0), place)


class Machine(RuleBasedStateMachine):
    """The same calls to an adapter and to the model, in a corner of the log of their own."""

    def __init__(self, ask: Ask, capabilities: frozenset[str]) -> None:
        super().__init__()
        self.ask = ask
        self.capabilities = capabilities
        self.corner: Corner = ask(corner_of)
        self.model = Model()
        self.seqs: list[int] = []
        self.is_spooled = False

    def event(self, number: int, kind: str) -> Event:
        """An event whose id is of few; without dedupe, of many."""
        known = f"{self.corner.name} {number}" if "dedupe" in self.capabilities else uuid4().hex
        return self.corner.event(kind, id=known, data=number)

    @rule(number=NUMBERS, kind=KINDS)
    def dispatch(self, number: int, kind: str) -> None:
        event = self.event(number, kind)
        self._same([event], [self.ask("dispatch", event)])

    @rule(parts=st.lists(st.tuples(NUMBERS, KINDS), max_size=4))
    def dispatch_many(self, parts: list[tuple[int, str]]) -> None:
        events = [self.event(number, kind) for number, kind in parts]
        self._same(events, self.ask("dispatch_many", events))

    @rule(number=NUMBERS)
    def refused(self, number: int) -> None:
        wrong = attrs.evolve(self.event(number, "a"), seq=number)
        assert answer_of(self.ask, "dispatch_many", [self.event(number, "b"), wrong]) == "InvalidInput"

    @rule(place=NUMBERS, types=CHOICES, limit=st.integers(1, 5))
    def read(self, place: int, types: tuple[str, ...], limit: int) -> None:
        place = min(place, len(self.seqs))
        after = self.seqs[place - 1] if place else self.corner.start
        found = self.ask("read", after=after, limit=limit, types=self._types(types))
        assert [event.id for event in found] == self.model.chosen(types, place)[:limit]

    @rule(place=NUMBERS, name=NAMES)
    def ack(self, place: int, name: str) -> None:
        if "ack" not in self.capabilities or "subscribe" not in self.capabilities:
            return
        if place > len(self.seqs):
            seq = (self.seqs[-1] if self.seqs else self.corner.start) + 1000
        else:
            seq = self.seqs[place - 1] if place else 0
        expected = answer_of(self.model.ack, name, place)
        assert answer_of(self.ask, "ack", f"{self.corner.name} {name}", seq) == expected

    @rule(name=NAMES, types=CHOICES)
    def subscribe(self, name: str, types: tuple[str, ...]) -> None:
        if "ack" not in self.capabilities or "subscribe" not in self.capabilities:
            return
        expected = self.model.chosen(types, self.model.places.get(name, 0))
        if expected and len(self.seqs) == len(self.model.events):
            how = {"name": f"{self.corner.name} {name}", "types": self._types(types)}
            found = self.ask(_first, len(expected), how)
            assert [event.id for event in found] == expected

    @invariant()
    def the_log_is_the_same(self) -> None:
        """All of it, each with a higher seq."""
        found = self._arrived()
        assert [event.id for event in found] == [event.id for event in self.model.events]
        self.seqs = [event.seq or 0 for event in found]
        assert self.seqs == sorted(set(self.seqs))

    def _same(self, events: list[Event], receipts: list[Any]) -> None:
        known = [self.model.dispatch(event) for event in events]
        self.is_spooled = self.is_spooled or any(receipt.seq is None for receipt in receipts)
        assert [receipt.id for receipt in receipts] == [event.id for event in events]
        assert [receipt.duplicate for receipt in receipts if receipt.seq is not None] in (known, [])

    def _types(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{self.corner.name}.{kind}" for kind in kinds or ("*",))

    def _arrived(self) -> list[Event]:
        """The log; where events are spooled, once as many are there as there should be, or a while has passed."""
        found: list[Event] = []
        for _ in range(round(PATIENCE / MOMENT) if self.is_spooled else 1):
            found = self.ask("read", after=self.corner.start, types=self.corner.types)
            if len(found) >= len(self.model.events):
                break
            time.sleep(MOMENT)
        return found


async def _first(adapter: Events, count: int, how: dict[str, Any]) -> list[Event]:
    return await taken(adapter.subscribe(**how), count)


def _is_of(event: Event, kind: str) -> bool:
    own = event.type.split(".", 2)[2]
    return own.startswith(kind[:-1]) if kind.endswith(".*") else own == kind


class ModelClauses:
    """The model is the port's promises once more, to be read."""

    known_bad: ClassVar[str | None]

    @clause("events.model.same")
    async def test_the_adapter_does_what_the_model_does(self, adapter: Events) -> None:
        """Whatever is done in whatever order, the adapter keeps, refuses and finds the same events as the model."""
        failure = await apart(
            adapter,
            lambda ask: Machine(ask, adapter.capabilities),
            EFFORT,
            step_seconds=await _step_seconds(adapter),
            is_bad=self.known_bad is not None,
        )

        assert failure is None, failure


async def _step_seconds(adapter: Events) -> float:
    corner = await corner_of(adapter)
    began = time.perf_counter()
    for _ in range(CALLS):
        await corner.told(1)
        await adapter.read(after=corner.start, limit=1)
    return CALLS_A_STEP * (time.perf_counter() - began) / CALLS
