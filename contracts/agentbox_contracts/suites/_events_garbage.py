"""Clauses of events: hostile events are refused with nothing kept, or kept exactly; so is what is not declared."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime
from typing import Any

import pytest

from agentbox_contracts.errors import AdapterDisabled, InvalidInput
from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._beads_garbage import NAMES, deep
from agentbox_contracts.suites._events_common import corner_of
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.wire import encode

__all__ = ["CapabilityClauses", "GarbageClauses"]

REFUSED: tuple[dict[str, Any], ...] = (
    {"type": ""},
    {"type": None},
    {"type": 7},
    {"type": "x" * 201},
    {"type": "nul\0"},
    {"type": "\ud800"},
    {"source": ""},
    {"source": None},
    {"source": "x" * 501},
    {"id": ""},
    {"id": "x" * 201},
    {"id": 7},
    {"subject": ""},
    {"subject": "x" * 501},
    {"time": "2026-01-01T00:00:00Z and more"},
    {"time": datetime(2026, 1, 1)},
    {"session_id": ""},
    {"execution_id": "x" * 201},
    {"data": float("nan")},
    {"data": {"n": [float("-inf")]}},
    {"data": object()},
    {"data": b"x"},
    {"data": {1: "x"}},
    {"data": {"n": "\udfff"}},
    {"data": "nul\0"},
    {"data": {"n\0": 1}},
    {"data": "x" * 20_000_000},
    {"data": {"big": "x" * 1_048_576}},
    {"data": deep(65)},
    {"data": deep(200)},
    {"hash": "0" * 64},
)

OWN: tuple[dict[str, Any], ...] = (
    {"seq": 1},
    {"seq": 0},
    {"prev_hash": "0" * 64},
    {"hash": "0" * 64},
    {"hash": ""},
    {"seq": 1 << 70},
)

EXTREMES: tuple[dict[str, Any], ...] = (
    {"type": "t" * 200},
    {"source": "s" * 500},
    {"id": "🜁" * 200},
    {"subject": "ü" * 500},
    {"data": deep(64)},
    {"data": "x" * 1_000_000},
    {"data": ""},
    {"data": 0},
    {"data": False},
    {"data": []},
    {"data": {}},
    {"data": [0, -1, 2**53, 2**63 - 1, -(2**63), 0.1, 1e308, 5e-324, -1.5e-7, True, None, "", [], {}]},
    {"data": [1 << 64, -(1 << 80)]},
    {"data": {"": "", "a.b": 1, "seq": 7, "hash": "x", "prev_hash": None, "specversion": "0.3"}},
)


class GarbageClauses:
    """What nobody should send, and somebody will."""

    @clause("events.garbage.refused")
    async def test_bad_input_is_refused_and_nothing_is_kept(self, adapter: Events) -> None:
        """What the contract does not allow is InvalidInput, which names the call, and nothing is kept."""
        corner = await corner_of(adapter)
        for bad in REFUSED:
            with pytest.raises(InvalidInput) as caught:
                await adapter.dispatch(corner.event(**bad))
            assert (caught.value.slot, caught.value.method, caught.value.code) == (
                "events",
                "dispatch",
                "invalid_input",
            )
            with pytest.raises(InvalidInput):
                await adapter.dispatch_many([corner.event(), corner.event(**bad)])

        assert await corner.settled() == []

    @clause("events.garbage.own-chain")
    async def test_nobody_brings_a_place_in_the_chain(self, adapter: Events) -> None:
        """An event that brings a seq or a hash of its own is InvalidInput, and nothing is kept."""
        corner = await corner_of(adapter)
        for own in OWN:
            with pytest.raises(InvalidInput):
                await adapter.dispatch(corner.event(**own))
            with pytest.raises(InvalidInput):
                await adapter.dispatch_many([corner.event(**own), corner.event()])

        assert await corner.settled() == []

    @clause("events.garbage.names-kept")
    async def test_hostile_names_are_names(self, adapter: Events) -> None:
        """A hostile name is a name: ids, subjects, sources, sessions and data come back exactly."""
        corner = await corner_of(adapter)
        told = []
        for number, name in enumerate(NAMES):
            fields: dict[str, Any] = {
                "id": f"{number}{name}",
                "subject": name,
                "session_id": name,
                "data": {name: name},
            }
            told.append(corner.event(**fields, source=f"{corner.name}{name}"))
            await adapter.dispatch(told[-1])
        found = await corner.settled()

        assert [_named(event) for event in found] == [_named(event) for event in told]

    @clause("events.garbage.extremes-kept")
    async def test_the_most_that_is_allowed_is_kept_exactly(self, adapter: Events) -> None:
        """The most that is allowed comes back exactly."""
        corner = await corner_of(adapter)
        for fields in EXTREMES:
            event = corner.event(**fields)
            receipt = await adapter.dispatch(event)
            after = receipt.seq - 1 if receipt.seq else corner.start
            await corner.settled()
            found = [each for each in await adapter.read(after=after) if each.id == event.id]

            assert len(found) == 1
            kept = {name: getattr(found[0], name) for name in fields}
            assert encode(kept) == encode(fields), "a value or its type changed"


class CapabilityClauses:
    """That what is declared works is shown by the clauses that need it."""

    @clause("events.capability.subscribe")
    async def test_subscribe_is_declared_or_refused(self, adapter: Events) -> None:
        """An adapter that does not declare subscribe refuses it with AdapterDisabled."""
        await corner_of(adapter)
        if "subscribe" in adapter.capabilities:
            return
        with pytest.raises(AdapterDisabled):
            async with aclosing(_any(adapter.subscribe())) as stream:
                await anext(stream, None)

    @clause("events.capability.ack")
    async def test_ack_is_declared_or_refused(self, adapter: Events) -> None:
        """An adapter that does not declare ack refuses it with AdapterDisabled, and names too."""
        await corner_of(adapter)
        if "ack" in adapter.capabilities:
            return
        with pytest.raises(AdapterDisabled):
            await adapter.ack("name", 0)
        with pytest.raises(AdapterDisabled):
            async with aclosing(_any(adapter.subscribe(name="name"))) as stream:
                await anext(stream, None)

    @clause("events.capability.verify")
    async def test_verify_is_declared_or_refused(self, adapter: Events) -> None:
        """An adapter that does not declare verify refuses it with AdapterDisabled."""
        await corner_of(adapter)
        if "verify" in adapter.capabilities:
            return
        with pytest.raises(AdapterDisabled):
            await adapter.verify()


def _named(event: Event) -> tuple[Any, ...]:
    return event.id, event.subject, event.session_id, event.source, event.data


def _any(stream: Any) -> Any:
    return stream
