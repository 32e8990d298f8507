"""
An application that knows only the port: it opens what the manifest of its folder says and tells what came of it.

What it prints is the same for every implementation. Ids of epics are drawn by the store, so they are named in the order
of their creation; a time is told as how it stands to another.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

import agentbox
from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AgentboxError

MARKS = {"tabs": "\t", "quotes": "\"'`", "script": "日本語 ﷽ 🧵", "lines": "a\nb\r\nc"}
STRANGE_IDS = ("bd-none", "bd-none.1", "ready", "epics", "sync", ".", "..", "a/b", "a%2Fb", "x?y=1#z", " ", "bd-日本")
TIMES = ("created_at", "updated_at", "claimed_at", "lease_expires_at", "closed_at")
ROOT = re.compile(r"bd-[2-9a-hjkmnp-z]{4,12}(?![0-9a-z-])")

RACERS = re.compile(r"racer \d")


class Story:
    """What was done and what came of it, step by step."""

    def __init__(self, folder: Path) -> None:
        self.steps: list[dict[str, Any]] = []
        self._folder = folder
        self._names: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    async def tell(self, step: str, call: Awaitable[Any]) -> Any:
        """Await *call* and note its result or its error. Gives the result, None after an error."""
        try:
            result = await call
        except AgentboxError as error:
            self.note(step, error=self.error(error))
            return None
        self.note(step, result=self.plain(result))
        return result

    def note(self, step: str, **told: Any) -> None:
        self.steps.append({"step": step, **told})

    def plain(self, value: Any) -> Any:
        """*value* as JSON can hold it, without what every store draws for itself."""
        if isinstance(value, Bead):
            return self._bead(value)
        if isinstance(value, Page):
            return {"items": [self.plain(item) for item in value.items], "next": self.plain(value.next)}
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        return json.loads(self.text(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, sort_keys=True)))

    def _bead(self, bead: Bead) -> dict[str, Any]:
        self._names.setdefault(bead.id.partition(".")[0], f"<epic {len(self._names) + 1}>")
        self._uids.setdefault(bead.uid, f"<uid {len(self._uids) + 1} of version {UUID(bead.uid).version}>")
        fields: dict[str, Any] = msgspec.to_builtins(bead)
        fields |= {name: getattr(bead, name) is not None and "a time" for name in TIMES}
        fields["in order"] = bead.created_at <= bead.updated_at
        if bead.claimed_at and bead.lease_expires_at:
            fields["lease"] = round((bead.lease_expires_at - bead.updated_at).total_seconds(), 3)
        named: dict[str, Any] = json.loads(self.text(json.dumps(fields, ensure_ascii=False, sort_keys=True)))
        return named

    def error(self, error: AgentboxError) -> dict[str, Any]:
        """What a program and a person are told, without who told it."""
        told = {name: getattr(error, name) for name in ("resource", "id", "actor", "slot", "method")}
        told |= {"class": type(error).__name__, "code": error.code, "status": error.status}
        told |= {"retryable": error.retryable, "message": error.message}
        return {name: self.text(value) if isinstance(value, str) else value for name, value in told.items()}

    def text(self, text: str) -> str:
        for uid, name in self._uids.items():
            text = text.replace(uid, name)
        text = RACERS.sub("one of them", text)
        text = ROOT.sub(lambda found: self._names.get(found[0], found[0]), text)
        return text.replace(str(self._folder), "<folder>")


async def main() -> None:
    story = Story(Path.cwd())
    async with agentbox.open_app() as app:
        beads = app.adapters.beads
        facts = {"contract": beads.contract_version, "enabled": beads.enabled, "durability": beads.durability}
        story.note("the slot", **facts, capabilities=sorted(beads.capabilities))
        await story.tell("the store is made again", beads.init())
        await story.tell("nothing is ready", beads.get_ready())
        for part in (creating, waiting, claiming, leasing, closing, paging, repeating, refused, lost, exchanging):
            story.note(f"-- {part.__name__}")
            await part(beads, story)
    print(json.dumps(story.steps, ensure_ascii=False, indent=1))


async def family(beads: Beads, story: Story, title: str, children: int) -> tuple[str, list[str]]:
    """An epic and its children, by their ids."""
    epic = await beads.create_epic(title=title)
    made = [await beads.create_child(parent_id=epic.id, title=f"{title} {n}") for n in range(children)]
    story.note(title, epic=story.plain(epic), made=story.plain(made))
    return epic.id, [bead.id for bead in made]


async def creating(beads: Beads, story: Story) -> None:
    epic = await story.tell("a plain epic", beads.create_epic(title="Ship it"))
    rich = {"n": 1e3, "big": 2**60, "none": None, "deep": [[{"a": [True, 0.1]}]], **MARKS}
    full = await story.tell(
        "an epic with everything",
        beads.create_epic(
            title="All of it",
            description="\n".join(MARKS.values()),
            priority=0,
            tags=("b", "a", "日本"),
            metadata=rich,
            actor="ada lovelace",
        ),
    )
    for number, priority in enumerate((5, 0, 5)):
        child = beads.create_child(parent_id=epic.id, title=f"part {number}", priority=priority, tags=("x",))
        await story.tell(f"child {number}", child)
    below = f"{epic.id}.1"
    for level in range(9):
        made = await story.tell(f"level {level}", beads.create_child(parent_id=below, title="deeper"))
        below = made.id if made else below
    await story.tell("as it stands", beads.show(full.id))
    await story.tell("the parent", beads.show(epic.id))
    await story.tell("ready, most urgent first", beads.get_ready())
    await story.tell("ready, two", beads.get_ready(limit=2))
    await story.tell("ready below", beads.get_ready(parent_id=epic.id))
    await story.tell("ready below nothing", beads.get_ready(parent_id="bd-none"))


async def waiting(beads: Beads, story: Story) -> None:
    epic, (one, two, three) = await family(beads, story, "Wait", 3)
    await story.tell("two waits", beads.add_dependency(two, blocker_id=one))
    await story.tell("and again", beads.add_dependency(two, blocker_id=one))
    await story.tell("three waits for both", beads.add_dependency(three, blocker_id=one))
    await story.tell("three waits for both", beads.add_dependency(three, blocker_id=two))
    await story.tell("a circle", beads.add_dependency(one, blocker_id=three))
    await story.tell("itself", beads.add_dependency(one, blocker_id=one))
    await story.tell("its own epic", beads.add_dependency(one, blocker_id=epic))
    await story.tell("none", beads.add_dependency(one, blocker_id="bd-none"))
    await story.tell("of none", beads.add_dependency("bd-none", blocker_id=one))
    await story.tell("blocked", beads.claim(three, actor="ada"))
    await story.tell("ready", beads.get_ready(parent_id=epic))
    await story.tell("failed does not unblock", beads.close(one, outcome="failed", reason="no luck"))
    await story.tell("still blocked", beads.claim(two, actor="ada"))
    await story.tell("closed waits for nothing", beads.add_dependency(one, blocker_id=two))
    await story.tell("closed has it already", beads.add_dependency(two, blocker_id=one))
    await story.tell("closed in a circle", beads.add_dependency(one, blocker_id=three))
    _, (done, free) = await family(beads, story, "Free", 2)
    await beads.add_dependency(free, blocker_id=done)
    await story.tell("done", beads.close(done))
    await story.tell("unblocks", beads.claim(free, actor="ada"))
    await story.tell("a blocker that is done", beads.add_dependency(free, blocker_id=done))


async def claiming(beads: Beads, story: Story) -> None:
    epic, ids = await family(beads, story, "Claim", 4)
    await story.tell("ada wins", beads.claim(ids[0], actor="ada"))
    await story.tell("ada again", beads.claim(ids[0], actor="ada"))
    await story.tell("grace loses", beads.claim(ids[0], actor="grace"))
    await story.tell("grace may not release", beads.release(ids[0], actor="grace"))
    await story.tell("nor with another fence", beads.release(ids[0], fence=7))
    await story.tell("ada gives it back", beads.release(ids[0], actor="ada", fence=1))
    await story.tell("twice", beads.release(ids[0], actor="ada", fence=1))
    await story.tell("grace wins", beads.claim(ids[0], actor="grace"))
    await story.tell("ada is late", beads.close(ids[0], actor="ada", fence=1))
    tried = [beads.claim(ids[1], actor=f"racer {number}") for number in range(8)]
    came = Counter(type(answer).__name__ for answer in await asyncio.gather(*tried, return_exceptions=True))
    story.note("eight at once", came=dict(sorted(came.items())), fence=(await beads.show(ids[1])).fence)
    chosen = [beads.claim_ready(actor=f"racer {number}", parent_id=epic) for number in range(5)]
    given = [bead and bead.id for bead in await asyncio.gather(*chosen)]
    story.note("five choose of two", given=story.plain(sorted(given, key=str)))
    await story.tell("an epic is claimed like a task", beads.claim(epic, actor="ada"))


async def leasing(beads: Beads, story: Story) -> None:
    epic, ids = await family(beads, story, "Lease", 2)
    await story.tell("for a minute", beads.claim(ids[0], actor="ada", lease_seconds=60))
    await story.tell("renewed without a fence", beads.renew(ids[0], lease_seconds=5))
    await story.tell("renewed with the wrong one", beads.renew(ids[0], lease_seconds=5, fence=2))
    await story.tell("renewed", beads.renew(ids[0], lease_seconds=3600.5, fence=1))
    await story.tell("released without a fence", beads.release(ids[0], actor="ada"))
    await story.tell("closed without a fence", beads.close(ids[0], actor="ada"))
    await story.tell("nothing to renew", beads.renew(ids[1], lease_seconds=5))
    await story.tell("for a moment", beads.claim(ids[1], actor="ada", lease_seconds=0.05))
    await asyncio.sleep(0.1)
    await story.tell("expired is ready", beads.get_ready(parent_id=epic))
    await story.tell("renewed although expired", beads.renew(ids[1], lease_seconds=0.05, fence=1))
    await asyncio.sleep(0.1)
    await story.tell("grace takes it", beads.claim_ready(actor="grace", parent_id=epic, lease_seconds=60))
    await story.tell("ada woke up", beads.close(ids[1], actor="ada", fence=1))
    await story.tell("ada woke up", beads.renew(ids[1], lease_seconds=60, fence=1))
    await story.tell("grace is done", beads.close(ids[1], actor="grace", fence=2))
    await story.tell("a fence that no store holds", beads.release(ids[0], fence=1 << 70))


async def closing(beads: Beads, story: Story) -> None:
    epic, ids = await family(beads, story, "Close", 4)
    await story.tell("with open children", beads.close(epic))
    for bead_id, outcome in zip(ids, ("done", "failed", "cancelled", "needs_human"), strict=True):
        await story.tell(outcome, beads.close(bead_id, outcome=outcome, reason=f"{outcome} ✓", actor="ada"))  # type: ignore[arg-type]
    await story.tell("again", beads.close(ids[0], reason="another"))
    await story.tell("otherwise", beads.close(ids[0], outcome="failed"))
    await story.tell("claimed after that", beads.claim(ids[0], actor="ada"))
    await story.tell("released after that", beads.release(ids[0]))
    await story.tell("a child of a closed one", beads.create_child(parent_id=ids[0], title="late"))
    await story.tell("the epic is ready", beads.claim(epic, actor="ada"))
    await story.tell("and closed", beads.close(epic, actor="ada", fence=1))
    await story.tell("as it stands", beads.show(epic))


async def paging(beads: Beads, story: Story) -> None:
    epic, ids = await family(beads, story, "Page", 12)
    after: str | None = None
    for number in range(4):
        page = await beads.children(epic, limit=5, after=after)
        story.note(f"page {number}", ids=story.plain([bead.id for bead in page.items]), next=story.plain(page.next))
        after = page.next
        if after is None:
            break
    await story.tell("exactly all", beads.children(epic, limit=12))
    await story.tell("behind the last", beads.children(epic, after=ids[-1]))
    await story.tell("no children", beads.children(ids[0]))
    await story.tell("of none", beads.children("bd-none"))
    await story.tell("after a stranger", beads.children(epic, after=epic))
    await story.tell("after none", beads.children(epic, after="bd-none"))


async def repeating(beads: Beads, story: Story) -> None:
    first = await story.tell("once", beads.create_epic(title="Key", tags=("a",), key="k-1"))
    again = await story.tell("twice", beads.create_epic(title="Key", tags=("a",), key="k-1"))
    story.note("the same", same=first == again)
    await story.tell("for another call", beads.create_epic(title="Other", key="k-1"))
    await story.tell("for another method", beads.claim_ready(actor="ada", parent_id=first.id, key="k-1"))
    await story.tell("nothing is ready", beads.claim_ready(actor="ada", parent_id=first.id, key="k-2"))
    child = await story.tell("a child", beads.create_child(parent_id=first.id, title="part", key="ключ 🗝 /?"))
    await story.tell("the same child", beads.create_child(parent_id=first.id, title="part", key="ключ 🗝 /?"))
    await story.tell("now there is one", beads.claim_ready(actor="ada", parent_id=first.id, key="k-2"))
    await beads.close(child.id)
    await story.tell("given again as it was", beads.claim_ready(actor="ada", parent_id=first.id, key="k-2"))
    many = [beads.create_child(parent_id=first.id, title="many", key="k-3") for _ in range(8)]
    made = await asyncio.gather(*many)
    story.note("eight with one key", made=story.plain(made))
    await story.tell("counted once", beads.show(first.id))


async def refused(beads: Beads, story: Story) -> None:
    anything: Any = beads
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    titles: tuple[Any, ...] = ("", "x" * 501, 7, None, "a\0b", "\ud800")
    wrong: list[dict[str, Any]] = [{}, {"titel": "x"}, *({"title": title} for title in titles)]
    more = ({"priority": 10}, {"priority": -1}, {"priority": 1.5}, {"tags": ("",)}, {"tags": "abc"}, {"actor": ""})
    worse = ({"metadata": {"agentbox": 1}}, {"metadata": {"x": float("nan")}}, {"metadata": {"x": deep}}, {"key": ""})
    wrong += [{"title": "x"} | field for field in (*more, *worse)]
    for fields in wrong:
        step = f"create_epic {sorted(fields)} {str(list(fields.values())[-1:])[:20]!a}"
        await story.tell(step, anything.create_epic(**fields))
    await story.tell("too much", anything.create_epic(title="x", metadata={"x": "y" * 1_100_000}))
    epic, (bead,) = await family(beads, story, "Refused", 1)
    for lease in (0, -1, float("nan"), float("inf"), 1e9, "soon"):
        await story.tell(f"lease {lease}", anything.claim(bead, actor="ada", lease_seconds=lease))
    for limit in (0, 1001, "many", 2.5, True):
        await story.tell(f"limit {limit}", anything.get_ready(limit=limit))
    await story.tell("no actor", anything.claim(bead))
    await story.tell("a long actor", anything.claim(bead, actor="a" * 201))
    await story.tell("a fence below zero", anything.close(bead, fence=-1))
    await story.tell("no such outcome", anything.close(bead, outcome="perhaps"))
    await story.tell("too many words", anything.close(bead, "done", "because", "ada"))
    await story.tell("a long reason", anything.close(bead, reason="r" * 65_537))
    await story.tell("a long id", anything.show("b" * 121))
    await story.tell("no id", anything.show(""))
    await story.tell("no such direction", anything.sync("beads.jsonl", direction="sideways"))
    await story.tell("a key too long", anything.create_child(parent_id=epic, title="x", key="k" * 300))
    await story.tell("untouched", beads.show(bead))


async def lost(beads: Beads, story: Story) -> None:
    for strange in STRANGE_IDS:
        await story.tell(f"show {strange}", beads.show(strange))
        await story.tell(f"children {strange}", beads.children(strange))
        await story.tell(f"claim {strange}", beads.claim(strange, actor="ada"))
        await story.tell(f"renew {strange}", beads.renew(strange, lease_seconds=5))
        await story.tell(f"release {strange}", beads.release(strange))
        await story.tell(f"close {strange}", beads.close(strange))
        await story.tell(f"wait {strange}", beads.add_dependency(strange, blocker_id="bd-other"))
        await story.tell(f"create {strange}", beads.create_child(parent_id=strange, title="x"))
        await story.tell(f"ready {strange}", beads.get_ready(parent_id=strange))


async def exchanging(beads: Beads, story: Story) -> None:
    file = Path("beads.jsonl")
    await story.tell("no file", beads.sync(str(file), direction="import"))
    await story.tell("no folder", beads.sync("nowhere/beads.jsonl", direction="export"))
    await story.tell("exported", beads.sync(str(file), direction="export"))
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for line in lines:
        line |= {name: "a time" for name in TIMES if name in line}
        line["metadata"]["agentbox"] |= {name: "a time" for name in TIMES if name in line["metadata"]["agentbox"]}
    story.note("the file", lines=sorted(story.plain(lines), key=lambda line: [len(line["id"]), line["id"]]))
    await story.tell("again", beads.sync(str(file)))
    stranger = {"id": "xy-1", "title": "from elsewhere", "status": "in_progress", "assignee": "bob", "priority": 2}
    strangers = [
        stranger | {"created_at": "2020-01-02T03:04:05+02:00", "issue_type": "bug", "labels": ["l"]},
        {"id": "xy-1.1", "title": "below", "created_at": "2020-01-02T03:04:05Z",
         "dependencies": [{"issue_id": "xy-1.1", "depends_on_id": "xy-1", "type": "parent-child"}]},
        {"id": "xy-2", "title": "waits", "created_at": "2020-01-02T03:04:05Z",
         "dependencies": [{"issue_id": "xy-2", "depends_on_id": "xy-1", "type": "blocks"}]},
    ]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, strangers)), "utf-8")
    await story.tell("strangers come in", beads.sync(str(file), direction="import"))
    for bead_id in ("xy-1", "xy-1.1", "xy-2"):
        await story.tell(bead_id, beads.show(bead_id))
    other = {"id": "xy-1", "title": "another with that id", "created_at": "2021-01-02T03:04:05Z"}
    file.write_text(json.dumps(other), "utf-8")
    await story.tell("an id that is taken", beads.sync(str(file), direction="import"))
    file.write_text('{"id": "xy-2", "status": "tombstone"}\n', "utf-8")
    await story.tell("a tombstone", beads.sync(str(file), direction="import"))
    await story.tell("is gone", beads.show("xy-2"))
    for text in ("not json", '{"id": "x"}', "[]", '\n\n{"id": "q", "title": "x", "created_at": "yesterday"}'):
        file.write_text(text, "utf-8")
        await story.tell(f"a bad line {text!a}", beads.sync(str(file)))
    file.write_bytes(b"\xff\xfe")
    await story.tell("not text", beads.sync(str(file)))


if __name__ == "__main__":
    asyncio.run(main())
