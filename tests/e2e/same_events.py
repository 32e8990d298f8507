"""
An application that knows only the port of events: it opens what the manifest of its folder says and tells what came.

What it prints is the same for every implementation. Numbers and hashes are the log's own, so they are told by how they
stand to each other; what a receipt promises differs, so it is told that it promises something.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import attrs

import agentbox
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.events import Event, Events

PATIENCE = 30.0
FULL = Event(
    type="story.full",
    source="the shop/ü",
    id="full",
    subject="a subject\u2028",
    time=datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC),
    data={"n": [1, 2.5, None, True, 2**60], "": {"text": 'tabs\t, "quotes", 日本語 🧵\r\n'}},
    datacontenttype="application/json",
    dataschema="https://example.org/s",
    session_id="session",
    execution_id="execution",
)
BAD: tuple[dict[str, Any], ...] = (
    {"type": ""},
    {"source": "x" * 501},
    {"data": float("nan")},
    {"data": b"bytes"},
    {"seq": 7},
    {"hash": "0" * 64},
    {"type": "agentbox.log.cut"},
    {"id": "nul\0"},
)


class Story:
    """What was done and what came of it, step by step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def note(self, step: str, **told: Any) -> None:
        self.steps.append({"step": step, **told})

    async def tell(self, step: str, call: Awaitable[Any]) -> None:
        try:
            self.note(step, result=plain(await call))
        except AgentboxError as error:
            told = {"class": type(error).__name__, "slot": error.slot, "method": error.method, "message": error.message}
            self.note(step, error=told)


def plain(value: Any) -> Any:
    """*value* as JSON can hold it, without what every log draws for itself."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Event):
        fields = attrs.asdict(value) | {"time": value.time and value.time.isoformat()}
        return fields | {name: fields[name] is not None for name in ("seq", "hash", "prev_hash")}
    return {"id": value.id, "is kept": value.durability != "none"} if value is not None else None


async def arrived(events: Events, kind: str, count: int) -> list[Event]:
    """The events of one type, once they have come to the log."""
    async with asyncio.timeout(PATIENCE):
        while len(found := await events.read(types=(kind,))) < count:
            await asyncio.sleep(0.01)
    return found


async def main() -> None:
    story = Story()
    async with agentbox.open_app() as app:
        events: Events = app.adapters.events
        story.note("the slot", contract=events.contract_version, capabilities=sorted(events.capabilities))
        for part in (telling, repeating, choosing, following, refused):
            story.note(f"-- {part.__name__}")
            await part(events, story)
    print(json.dumps(story.steps, ensure_ascii=False, indent=1, sort_keys=True))


async def telling(events: Events, story: Story) -> None:
    await story.tell("with everything", events.dispatch(FULL))
    await story.tell("as it is kept", arrived(events, FULL.type, 1))
    many = [Event(type="story.many", source="s", id=str(number), data=number) for number in range(20)]
    await story.tell("several", events.dispatch_many(many))
    await story.tell("none", events.dispatch_many([]))
    found = await arrived(events, "story.many", 20)
    numbers = [event.seq or 0 for event in found]
    story.note("in order", data=[event.data for event in found], rising=numbers == sorted(set(numbers)))


async def repeating(events: Events, story: Story) -> None:
    event = Event(type="story.again", source="s", id="again", data="first")
    for data in ("first", "second"):
        await story.tell(data, events.dispatch(attrs.evolve(event, data=data)))
    await story.tell("in a batch", events.dispatch_many([event, attrs.evolve(event, source="other"), event]))
    found = await arrived(events, "story.again", 2)
    story.note("one of each", kept=[(each.source, each.data) for each in found])


async def choosing(events: Events, story: Story) -> None:
    for kind in ("story.a", "story.a.b", "story.ab", "story.A"):
        await events.dispatch(Event(type=kind, source="s", id=kind))
    await arrived(events, "story.A", 1)
    for types in (("story.a",), ("story.a.*",), ("story.ab", "story.A"), ("story.none",)):
        story.note(f"{types}", found=[event.id for event in await events.read(types=types)])
    first, *_ = await events.read(types=("story.many",), limit=1)
    page = await events.read(after=first.seq, types=("story.many",), limit=3)
    story.note("a page", data=[event.data for event in page])


async def following(events: Events, story: Story) -> None:
    many = await events.read(types=("story.many",))
    await story.tell("acknowledged", events.ack("reader", many[4].seq or 0))
    await story.tell("backwards", events.ack("reader", 0))
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE), aclosing(_stream(events)) as stream:
        async for event in stream:
            seen.append(event.data)
            if len(seen) == 15:
                await events.dispatch(Event(type="story.many", source="s", id="live", data="live"))
            if event.data == "live":
                break
    story.note("behind what was acknowledged, then live", data=seen)
    verdict = await events.verify()
    story.note("the chain", ok=verdict.ok, reason=verdict.reason)


def _stream(events: Events) -> Any:
    return events.subscribe(name="reader", types=("story.many",))


async def refused(events: Events, story: Story) -> None:
    for wrong in BAD:
        event = attrs.evolve(Event(type="story.bad", source="s", id="bad"), **wrong)
        await story.tell(f"{wrong}"[:40], events.dispatch(event))
        await story.tell(f"{wrong}"[:40] + " in a batch", events.dispatch_many([attrs.evolve(event, **wrong)]))
    await events.dispatch(Event(type="story.end", source="s", id="end"))
    await arrived(events, "story.end", 1)
    story.note("nothing of it is kept", found=[event.id for event in await events.read(types=("story.bad",))])


if __name__ == "__main__":
    asyncio.run(main())
