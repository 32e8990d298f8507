"""Service levels of real adapters: one that is slow, does too little or fails is told which it is."""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_asyncio

from agentbox.testing import open_slot
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import BaseAdapter
from agentbox_contracts.errors import AdapterDisabled, AdapterFailed, AdapterUnavailable, InvalidInput
from agentbox_contracts.suites import _slo_beads
from agentbox_contracts.suites.slo import LEVELS, LOADS, Level, Measured, duration, measure

ROOT = Path(__file__).parents[2]
WRITES = ("create_child", "claim", "close")


# The table


def test_every_slot_has_levels_of_methods_that_its_port_has() -> None:
    assert tuple(LEVELS) == SLOTS
    for slot, levels in LEVELS.items():
        for level in levels:
            assert level.id.startswith(f"{slot}.")
            assert set(level.methods) <= set(contract_of(slot).methods)


def test_the_documentation_has_the_same_table() -> None:
    rows = re.findall(r"^\| `.*\|$", (ROOT / "docs" / "service-levels.md").read_text("utf-8"), re.M)
    assert rows == [documented(level) for levels in LEVELS.values() for level in levels]


def documented(level: Level) -> str:
    methods = ", ".join(f"`{name}`" for name in level.methods)
    rate = f"{level.per_second:g}/s" if level.per_second else "any"
    return f"| `{level.id}` | {methods} | {duration(level.p95_seconds)} | {rate} | {100 * level.error_rate:g} % |"


# What cannot be measured


class Switched(BaseAdapter):
    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled


@pytest.mark.parametrize(
    ("slot", "seconds", "sentence"),
    [
        ("pods", 1, "pods: its load is not written yet; there is one for beads, events, memory, orchestrator"),
        ("beds", 1, "there is no slot called 'beds'; known: beads, pods, memory, events, orchestrator"),
        ("beads", 0, "0 seconds of load"),
        ("beads", float("nan"), "nan seconds of load"),
        ("beads", float("inf"), "inf seconds of load"),
    ],
)
async def test_nonsense_is_refused_in_a_sentence(slot: str, seconds: float, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(sentence)):
        await measure(Switched(enabled=True), slot, seconds=seconds)


async def test_what_is_off_is_refused() -> None:
    with pytest.raises(AdapterDisabled, match="beads is switched off"):
        await measure(Switched(enabled=False), "beads")


# The real adapters, and what is wrong with those that are wrong


@attrs.define
class Wrapped:
    """An adapter whose methods *around* may change."""

    adapter: Any
    around: dict[str, Callable[..., Any]]
    capabilities: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.adapter, name)
        return functools.partial(self.around[name], method) if name in self.around else method


@pytest_asyncio.fixture
async def beads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(_slo_beads, "BEADS", 30)
    async with open_slot("", "beads", folder=tmp_path) as adapter:
        yield adapter


@pytest_asyncio.fixture
async def orchestrator(tmp_path: Path) -> AsyncIterator[Any]:
    text = "[orchestrator.local-process-manager]\nkeeper_idle_seconds = 0.2\n"
    async with open_slot(text, "orchestrator", folder=tmp_path) as adapter:
        yield adapter


async def test_every_load_has_all_levels_of_its_slot() -> None:
    for slot, load in LOADS.items():
        async with load(Nothing()) as offers:
            assert list(offers) == [level.id for level in LEVELS[slot]]


class Nothing:
    """Answers anything at once, and with nothing to work on."""

    capabilities: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        async def answer(*arguments: Any, **named: Any) -> Any:
            return self

        return self if name in ("id", "items") else None if name == "next" else answer

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


async def test_beads_hold_and_nothing_is_left_open(beads: Any) -> None:
    turns: list[str] = []
    write, read = await measure(beads, "beads", seconds=1, before=lambda level: turns.append(level.id))

    assert (write.problem, read.problem) == ("", "")
    assert (write.offered, read.offered, write.impl, write.seconds) == (50, 200, "local-sqlite", 1)
    assert 0 < read.p50_seconds <= read.p95_seconds <= read.p99_seconds
    assert turns == ["beads.write", "beads.read"]
    assert await beads.get_ready() == []


async def test_the_store_is_as_full_as_it_should_be(beads: Any) -> None:
    async with LOADS["beads"](beads) as offers:
        made = len(await beads.get_ready(limit=1000))
        assert await offers["beads.read"](50, 0.1) != []

    assert made == 30


async def test_all_writes_of_the_level_are_made_in_equal_parts(beads: Any) -> None:
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        async def call(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return await method(*arguments, **named)

        return call

    wrapped = Wrapped(beads, {name: counting(name) for name in WRITES}, beads.capabilities)
    async with LOADS["beads"](wrapped) as offers:
        calls.clear()
        await offers["beads.write"](10, 0.9)
        assert {name: calls.count(name) for name in WRITES} == dict.fromkeys(WRITES, 3)


async def test_an_adapter_that_is_too_slow_is_caught(beads: Any) -> None:
    async def slow(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(0.3)
        return await method(*arguments, **named)

    write, read = await measure(Wrapped(beads, {"claim": slow, "show": slow}), "beads", seconds=1)

    assert re.fullmatch(r"beads\.write: p95 was \d+ ms where 200 ms is the floor", write.problem)
    assert re.fullmatch(r"beads\.read: p95 was \d+ ms where 100 ms is the floor", read.problem)


async def test_an_adapter_that_does_too_little_is_caught(beads: Any) -> None:
    lock = asyncio.Lock()

    async def narrow(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async with lock:
            await asyncio.sleep(0.04)
            return await method(*arguments, **named)

    write, read = await measure(Wrapped(beads, dict.fromkeys(WRITES, narrow)), "beads", seconds=1)

    assert re.match(r"beads\.write: [12]\d(\.\d)?/s were done where 50/s were offered; p95 was ", write.problem)
    assert read.holds


async def test_an_adapter_that_fails_in_two_of_a_hundred_calls_is_caught(beads: Any) -> None:
    numbers = itertools.count(1)

    async def fails(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if next(numbers) % 50 == 0:
            raise AdapterUnavailable("not today")
        return await method(*arguments, **named)

    write, read = await measure(
        Wrapped(beads, dict.fromkeys((*WRITES, "show", "get_ready"), fails)), "beads", seconds=2
    )

    assert "2 % of 100 failed where 0.5 % may, first with AdapterUnavailable: not today" in write.problem
    assert "2 % of 400 failed where 0.5 % may, first with AdapterUnavailable: not today" in read.problem


async def test_keys_and_leases_are_used_only_where_they_are_declared(beads: Any) -> None:
    given: set[str] = set()

    async def note(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        given.update(named)
        return await method(*arguments, **named)

    for capabilities, expected in ((frozenset[str](), set[str]()), (beads.capabilities, {"key", "lease_seconds"})):
        given.clear()
        measured = await measure(Wrapped(beads, dict.fromkeys(WRITES, note), capabilities), "beads", seconds=0.2)
        assert [level.errors for level in measured] == [0, 0]
        assert given & {"key", "lease_seconds"} == expected


async def test_an_orchestrator_is_measured_and_no_agent_is_left(orchestrator: Any) -> None:
    spawn, stream = await measure(orchestrator, "orchestrator", seconds=1)

    assert (spawn.problem, spawn.offered) == ("", 2)
    assert (stream.offered, stream.errors) == (50, 0)
    assert 0 <= stream.p50_seconds <= stream.p99_seconds
    agents = (await orchestrator.list_agents()).items
    assert [agent.status for agent in agents] == ["exited"] * 3


async def streamed(orchestrator: Any, change: Callable[[Any, int], Awaitable[Any]]) -> Measured:
    """How the stream's level is held when *change* makes another of each event, or None."""

    async def changed(method: Callable[..., Any], *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        numbers = itertools.count()
        async for event in method(*arguments, **named):
            if event.type != "stdout" or (event := await change(event, next(numbers))) is not None:
                yield event

    return (await measure(Wrapped(orchestrator, {"stream": changed}), "orchestrator", seconds=1))[1]


async def test_events_that_come_late_are_caught(orchestrator: Any) -> None:
    async def late(event: Any, number: int) -> Any:
        await asyncio.sleep(0.1 if number % 10 == 0 else 0)
        return event

    assert "p95 was" in (await streamed(orchestrator, late)).problem


async def test_events_that_do_not_come_are_caught(orchestrator: Any) -> None:
    async def lossy(event: Any, number: int) -> Any:
        return event if number % 25 else None

    sentence = "4 % of 50 failed where 0.5 % may, first with its line did not arrive"
    assert sentence in (await streamed(orchestrator, lossy)).problem


async def test_a_stream_that_breaks_is_caught(orchestrator: Any) -> None:
    async def breaks(event: Any, number: int) -> Any:
        if number == 40:
            raise AdapterUnavailable("the line is cut")
        return event

    sentence = "20 % of 50 failed where 0.5 % may, first with AdapterUnavailable: the line is cut"
    assert sentence in (await streamed(orchestrator, breaks)).problem


async def test_another_clock_is_not_taken_for_speed(orchestrator: Any) -> None:
    async def ahead(event: Any, number: int) -> Any:
        return attrs.evolve(event, data=b"%d %d\n" % (number, time.time_ns() + 5_000_000_000))

    with pytest.raises(AdapterFailed, match="the agents' machine has another clock"):
        await streamed(orchestrator, ahead)
