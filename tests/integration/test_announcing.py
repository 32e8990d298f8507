"""One fact is one event: whoever is killed, however many carry, and however long the log is away."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import attrs
import jsonschema  # type: ignore[import-untyped]
import pytest

import agentbox
from agentbox import _announcing_beads, context, recovery
from agentbox._announcing_agents import Agents
from agentbox._announcing_delivery import Delivery
from agentbox.adapters.beads import _outbox
from agentbox.adapters.beads._facts import Caller
from agentbox.app import App
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AdapterUnavailable, AlreadyClaimed, InvalidInput
from agentbox_contracts.events import Event
from agentbox_contracts.orchestrator import Agent, AgentSpec
from agentbox_contracts.schema import vocabulary_schema
from agentbox_contracts.vocabulary import VOCABULARY, BeadDeleted
from tests.servers.host import host
from tests.servers.nats import Server as Nats
from tests.servers.nats import nats_fixture  # noqa: F401 - used by its name, nats_server
from tests.servers.postgres import Server as Postgres
from tests.servers.postgres import postgres_fixture  # noqa: F401 - used by its name, postgres

PATIENCE = 20.0
LOCAL = '[adapters]\nbeads = "local-sqlite"\npods = "off"\nmemory = "off"\nevents = "local-jsonl"\n'
KILLED = 3

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a manifest whose state is beside it."""

    def written(text: str) -> Path:
        path = tmp_path / "agentbox.toml"
        path.write_text(text)
        return path

    return written


@pytest.fixture(params=["local-sqlite", "external-pg"])
def manifest(request: pytest.FixtureRequest, write: Write) -> Path:
    """Beads in SQLite or in Postgres, events in files."""
    if request.param == "local-sqlite":
        return write(LOCAL)
    postgres: Postgres = request.getfixturevalue("postgres")
    return write(postgres.manifest().replace("[adapters]", '[adapters]\nevents = "local-jsonl"'))


async def log_of(app: App, *types: str) -> list[Event]:
    return await app.adapters.events.read(limit=10_000, types=types)


async def until(app: App, count: int, *types: str) -> list[Event]:
    """The log, once it has *count* events of *types*."""
    async with asyncio.timeout(PATIENCE):
        while len(found := await log_of(app, *types)) < count:
            await asyncio.sleep(0.02)
    return found


def words(events: list[Event]) -> list[str]:
    return [event.type.rpartition(".")[2] for event in events]


async def everything(app: App) -> str:
    """One of everything that can be done to a bead. The id of the bead that it was done to."""
    beads = app.adapters.beads
    epic = await beads.create_epic(title="Ship it", actor="ada")
    first = await beads.create_child(parent_id=epic.id, title="first")
    second = await beads.create_child(parent_id=epic.id, title="second")
    await beads.add_dependency(second.id, blocker_id=first.id)
    await beads.add_dependency(second.id, blocker_id=first.id)
    held = await beads.claim(first.id, actor="ada", lease_seconds=60)
    await beads.claim(first.id, actor="ada", lease_seconds=60)
    await beads.renew(first.id, lease_seconds=90, fence=held.fence)
    await beads.release(first.id, fence=held.fence)
    await beads.release(first.id)
    again = await beads.claim_ready(actor="grace", key="once")
    assert again == await beads.claim_ready(actor="grace", key="once")
    await beads.close(first.id, reason="it works", actor="grace")
    await beads.close(first.id)
    return first.id


class TestBeads:
    async def test_each_change_is_told_once_and_in_order(self, manifest: Path) -> None:
        async with agentbox.open_app(manifest) as app:
            with context.bound(session="s1", execution="e1"):
                bead_id = await everything(app)
            events = await until(app, 9, "agentbox.bead.*")

        of_the_bead = [event for event in events if event.subject == bead_id]
        assert words(of_the_bead) == ["created", "claimed", "renewed", "released", "claimed", "closed"]
        assert sorted(words(events)) == sorted([*words(of_the_bead), "created", "created", "dependency_added"])
        assert {(event.source, event.session_id, event.execution_id) for event in events} == {
            ("/agentbox/beads", "s1", "e1")
        }
        assert of_the_bead[-1].data == {
            "actor": "grace",
            "bead_id": bead_id,
            "fence": 2,
            "outcome": "done",
            "reason": "it works",
            "uid": of_the_bead[0].data["uid"],
        }

    async def test_what_is_told_is_the_vocabulary(self, manifest: Path) -> None:
        async with agentbox.open_app(manifest) as app:
            await everything(app)
            events = await until(app, 10, "agentbox.*")

        document = vocabulary_schema()
        for event in events:
            assert event.source == document["types"][event.type]["source"]
            schema = {**document["types"][event.type]["data"], "$defs": document["$defs"]}
            jsonschema.validate(event.data, schema, cls=jsonschema.Draft202012Validator)
            assert set(event.data) == {field.name for field in attrs.fields(VOCABULARY[event.type])}

    async def test_a_change_that_was_refused_is_not_told(self, manifest: Path) -> None:
        async with agentbox.open_app(manifest) as app:
            epic = await app.adapters.beads.create_epic(title="Ship it")
            await app.adapters.beads.claim(epic.id, actor="ada")
            for actor in ("grace", "joan"):
                with pytest.raises(AlreadyClaimed):
                    await app.adapters.beads.claim(epic.id, actor=actor)
            await app.adapters.beads.close(epic.id)
            events = await until(app, 3, "agentbox.bead.*")

        assert words(events) == ["created", "claimed", "closed"]

    async def test_a_sync_tells_what_it_brought_and_what_it_removed(self, manifest: Path, tmp_path: Path) -> None:
        file = tmp_path / "beads.jsonl"
        file.write_text(
            '{"id":"bd-aaaa","title":"from elsewhere","status":"open","priority":1,"issue_type":"task",'
            '"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}\n'
        )
        async with agentbox.open_app(manifest) as app:
            await app.adapters.beads.sync(str(file))
            await until(app, 1, "agentbox.bead.imported")
            gone = file.read_text().replace('"status":"open"', '"status":"tombstone"')
            file.write_text(gone)
            await app.adapters.beads.sync(str(file))
            events = await until(app, 2, "agentbox.bead.*")

        assert [(event.subject, word) for event, word in zip(events, words(events), strict=True)] == [
            ("bd-aaaa", "imported"),
            ("bd-aaaa", "deleted"),
        ]

    async def test_two_apps_on_one_store_tell_each_fact_once(self, manifest: Path) -> None:
        async with agentbox.open_app(manifest) as one, agentbox.open_app(manifest) as other:
            made = [await app.adapters.beads.create_epic(title="Ship it") for app in (one, other) for _ in range(25)]
            events = await until(one, 50, "agentbox.bead.created")

        assert sorted(str(event.subject) for event in events) == sorted(bead.id for bead in made)

    async def test_times_are_told_in_utc_whatever_the_servers_zone_is(self, postgres: Postgres, write: Write) -> None:
        db: Any = await asyncpg.connect(postgres.dsn)
        role = f"ROLE {postgres.user} IN DATABASE postgres"
        await db.execute(f"ALTER {role} SET timezone = 'Asia/Kolkata'")
        try:
            path = write(postgres.manifest().replace("[adapters]", '[adapters]\nevents = "local-jsonl"'))
            async with agentbox.open_app(path) as app:
                epic = await app.adapters.beads.create_epic(title="Ship it")
                held = await app.adapters.beads.claim(epic.id, actor="ada", lease_seconds=60)
                (told,) = await until(app, 1, "agentbox.bead.claimed")
        finally:
            await db.execute(f"ALTER {role} RESET timezone")
            await db.close()

        assert held.lease_expires_at is not None
        assert told.data["lease_expires_at"] == held.lease_expires_at.isoformat().replace("+00:00", "Z")

    @pytest.mark.parametrize("strange", ["s" * 201, "\ud800"])
    async def test_a_strange_session_fails_no_call_and_hides_no_fact(self, manifest: Path, strange: str) -> None:
        async with agentbox.open_app(manifest) as app:
            with context.bound(session=strange):
                epic = await app.adapters.beads.create_epic(title="Ship it")
            (told,) = await until(app, 1, "agentbox.bead.*")

        assert (told.subject, told.session_id) == (epic.id, None)

    async def test_an_app_whose_log_is_away_lets_another_carry(
        self, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        empty = _announcing_beads.Carrier.empty
        monkeypatch.setattr(_announcing_beads.Carrier, "empty", _nothing)
        async with agentbox.open_app(manifest) as app:
            await app.adapters.beads.create_epic(title="Ship it")
            slot: Any = SimpleNamespace(adapter=app.adapters.beads)
            away: Any = _Moody()
            lame = _announcing_beads.Carrier(slot, Delivery(away), name="lame")

            assert not await empty(lame)
            assert len(await slot.adapter.adapter.outbox_next(carrier="well")) == 1

    async def test_a_clock_that_went_back_keeps_no_outbox_shut(
        self, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_announcing_beads.Carrier, "empty", _nothing)
        async with agentbox.open_app(manifest) as app:
            await app.adapters.beads.create_epic(title="Ship it")
            beads: Any = app.adapters.beads
            if beads.adapter.impl == "local-sqlite":
                far = int(time.time() + 86_400) * 1_000_000
                await beads.adapter._db.write(
                    lambda db: db.execute("INSERT INTO carrier VALUES (1, 'gone', ?)", (far,))
                )
            else:
                take = "INSERT INTO carrier (name, until) VALUES ('gone', now() + interval '1 day')"
                await beads.adapter._db.write(lambda db: db.execute(take))

            assert len(await beads.adapter.outbox_next(carrier="next")) == 1

    async def test_with_events_off_nothing_is_written_down(self, write: Write, tmp_path: Path) -> None:
        for text in (LOCAL.replace("local-jsonl", "off"), LOCAL + "[adapters_policy]\nannounce = false\n"):
            async with agentbox.open_app(write(text)) as app:
                await everything(app)
            with sqlite3.connect(tmp_path / ".agentbox" / "beads.db") as db:
                assert db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)

    async def test_what_was_not_told_when_an_app_closed_is_told_by_the_next(
        self, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_announcing_beads.Carrier, "empty", _nothing)
        async with agentbox.open_app(manifest) as app:
            await everything(app)
        monkeypatch.undo()
        async with agentbox.open_app(manifest) as app:
            assert len(await until(app, 9, "agentbox.bead.*")) == 9


async def _nothing(self: Any) -> bool:
    return True


class TestKilled:
    @pytest.mark.parametrize("moment", ["written", "delivered"])
    async def test_a_process_that_is_killed_loses_and_doubles_nothing(self, manifest: Path, moment: str) -> None:
        made: list[str] = []
        for _ in range(KILLED):
            made += killed(manifest, moment)
        await check_each_once(manifest, made)

    @pytest.mark.soak
    @pytest.mark.parametrize("moment", ["written", "delivered"])
    async def test_many_processes_that_are_killed(self, manifest: Path, moment: str) -> None:
        made: list[str] = []
        for _ in range(300):
            made += killed(manifest, moment)
        await check_each_once(manifest, made)


async def check_each_once(manifest: Path, acknowledged: list[str]) -> None:
    """What is in the store has one event each; and what was acknowledged is in the store."""
    async with agentbox.open_app(manifest) as app:
        made = [bead.id for bead in await app.adapters.beads.get_ready(limit=1000)]
        events = await until(app, len(made), "agentbox.bead.created")

    assert set(acknowledged) <= set(made)
    assert Counter(event.subject for event in events) == Counter(made)


def killed(manifest: Path, moment: str) -> list[str]:
    """The beads that a process has acknowledged before it was killed at *moment*."""
    done = subprocess.run(
        [sys.executable, __file__, str(manifest), moment], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.decode().split()


async def die(path: Path, moment: str) -> None:
    """Make three beads and be killed: before they are told, or once they are and nobody has noted it."""
    async with agentbox.open_app(path) as app:
        outbox: Any = app.slots["beads"].adapter.adapter
        given = outbox.outbox_next

        async def killed_after_delivery(**arguments: Any) -> Any:
            if arguments["delivered"]:
                os.kill(os.getpid(), signal.SIGKILL)
            return await given(**{**arguments, "carrier": "whoever comes"})

        if moment == "delivered":
            outbox.outbox_next = killed_after_delivery
        for _ in range(3):
            epic = await app.adapters.beads.create_epic(title="Ship it")
            os.write(1, f"{epic.id}\n".encode())
        if moment == "written":
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(PATIENCE)


class TestAway:
    async def test_while_the_log_is_away_facts_wait(self, write: Write) -> None:
        nats = Nats()
        try:
            text = nats.manifest(retry_seconds=3).replace("[adapters]", '[adapters]\npods = "off"\nmemory = "off"')
            async with agentbox.open_app(write(text)) as app:
                await app.adapters.beads.create_epic(title="before")
                await until(app, 1, "agentbox.bead.*")
                nats.kill()
                made = [await app.adapters.beads.create_epic(title="meanwhile") for _ in range(20)]
                nats.start()
                events = await until(app, 21, "agentbox.bead.*")
        finally:
            nats.remove()

        assert [event.subject for event in events[1:]] == [bead.id for bead in made]

    async def test_too_many_are_trimmed_and_that_is_told(self, write: Write, tmp_path: Path) -> None:
        path = write(LOCAL)
        async with agentbox.open_app(path):
            pass
        with sqlite3.connect(tmp_path / ".agentbox" / "beads.db") as db:
            tell = _outbox.teller(Caller(None, None))
            for number in range(50):
                tell(db, number, f"bd-{number}", BeadDeleted(bead_id=f"bd-{number}"))
            _outbox.trim(db, 50, limit=10)
        async with agentbox.open_app(path) as app:
            events = await until(app, 10, "agentbox.bead.deleted", "agentbox.outbox.*")

        assert [event.subject for event in events] == [*(f"bd-{number}" for number in range(41, 50)), "beads"]
        assert events[-1].data == {"dropped": 41}


class TestOthers:
    async def test_agents_are_told_also_when_they_ended_while_no_app_was_open(self, write: Write) -> None:
        path = write(LOCAL)
        async with agentbox.open_app(path, overrides={"adapters_policy": {"announce": False}}) as app:
            spec = AgentSpec(command="/bin/sh", args=("-c", "exit 3"), name="early")
            early = await app.adapters.orchestrator.spawn(spec)
            async for _ in app.adapters.orchestrator.stream(early.id):
                pass
        for _ in range(2):
            async with agentbox.open_app(path) as app:
                await until(app, 2, "agentbox.agent.*")
        async with agentbox.open_app(path) as app:
            late = await app.adapters.orchestrator.spawn(AgentSpec(command="/bin/true"))
            events = await until(app, 4, "agentbox.agent.*")

        assert [(event.subject, word) for event, word in zip(events, words(events), strict=True)] == [
            (early.id, "spawned"),
            (early.id, "exited"),
            (late.id, "spawned"),
            (late.id, "exited"),
        ]
        assert events[1].data == {
            "agent_id": early.id,
            "bead_id": None,
            "exit_code": 3,
            "name": "early",
            "reason": "",
            "signal": None,
        }

    async def test_agents_of_a_host_are_told_by_the_host_alone(self, write: Write, tmp_path: Path) -> None:
        (tmp_path / "host").mkdir()
        with host(tmp_path / "host", LOCAL.replace('events = "local-jsonl"', 'events = "off"')) as served:
            path = write(served.client("orchestrator").replace("[adapters]\n", LOCAL))
            async with agentbox.open_app(path) as app:
                agent = await app.adapters.orchestrator.spawn(AgentSpec(command="/bin/true"))
                async for _ in app.adapters.orchestrator.stream(agent.id):
                    pass
            async with agentbox.open_app(path) as app:
                assert words(await log_of(app)).count("closed") == 1
                assert await log_of(app, "agentbox.agent.*") == []

    async def test_what_was_told_is_known_also_behind_a_note_that_was_torn(self, write: Write, tmp_path: Path) -> None:
        path = write(LOCAL)
        notes = tmp_path / ".agentbox" / "announced-agents"
        notes.parent.mkdir()
        notes.write_text("ag-1@1:spawned\nag-1@1:exi")
        async with agentbox.open_app(path) as app:
            await app.adapters.orchestrator.spawn(AgentSpec(command="/bin/true"))
            told = await until(app, 2, "agentbox.agent.*")

        assert {event.id for event in told} <= set(notes.read_text().split("\n"))

    @pytest.mark.parametrize("strange", ["s" * 201, "a\0b", "\ud800"], ids=["long", "NUL", "surrogate"])
    async def test_agents_of_a_strange_session_are_told(self, write: Write, strange: str) -> None:
        async with agentbox.open_app(write(LOCAL)) as app:
            with context.bound(session=strange):
                agent = await app.adapters.orchestrator.spawn(AgentSpec(command="/bin/true"))
            told = await until(app, 2, "agentbox.agent.*")

        assert [(event.subject, event.session_id) for event in told] == [(agent.id, None)] * 2

    async def test_what_was_told_is_not_told_again_though_it_cannot_be_noted(self, tmp_path: Path) -> None:
        now = datetime.now(UTC)
        agent = Agent(id="ag-1", status="exited", command="/bin/true", created_at=now, started_at=now, ended_at=now)

        async def list_agents(**_: object) -> Page[Agent]:
            return Page(items=[agent], next=None)

        orchestrator = SimpleNamespace(enabled=True, impl="fake", list_agents=list_agents)
        slot: Any = SimpleNamespace(
            adapter=SimpleNamespace(adapter=orchestrator), choice=SimpleNamespace(impl="local-process-manager")
        )
        log: Any = _Moody(is_away=False)
        agents = Agents(slot, Delivery(log), tmp_path / "no folder" / "announced-agents")
        for _ in range(3):
            await agents.look()

        assert len(log.kept) == 2

    async def test_an_app_says_that_it_closes_also_when_its_beads_fail(self, write: Write) -> None:
        async def lost(**_: object) -> None:
            raise AdapterUnavailable("the store is away")

        path = write(LOCAL)
        async with agentbox.open_app(path) as app:
            await until(app, 1, "agentbox.app.opened")
            app.adapters.beads.adapter.outbox_next = lost  # type: ignore[attr-defined]
        async with agentbox.open_app(path, overrides={"adapters_policy": {"announce": False}}) as app:
            assert words(await log_of(app, "agentbox.app.*")) == ["opened", "closed"]

    async def test_nothing_overtakes_what_cannot_be_told_now(self) -> None:
        log = _Moody()
        delivery = Delivery(log)  # type: ignore[arg-type]
        letters = [Event(type="agentbox.test", source="test", id=name) for name in ("first", "too long", "last")]

        assert not await delivery.deliver(letters)
        assert log.kept == []
        assert await delivery.deliver(letters)
        assert log.kept == ["first", "last"]

    async def test_slots_and_the_app_itself_are_told(
        self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recovery, "FIRST_PAUSE", 0.1)
        monkeypatch.setattr(recovery, "LOOK_SECONDS", 0.1)
        folder = tmp_path / ".agentbox" / "store"
        folder.parent.mkdir()
        folder.write_text("in the way")
        path = write(LOCAL + '[beads.local-sqlite]\npath = "store/beads.db"\n')
        async with agentbox.open_app(path) as app:
            await until(app, 2, "agentbox.slot.*", "agentbox.app.*")
            folder.unlink()
            await until(app, 3, "agentbox.slot.*", "agentbox.app.*")
        async with agentbox.open_app(path, overrides={"adapters_policy": {"announce": False}}) as app:
            events = await log_of(app, "agentbox.slot.*", "agentbox.app.*")

        assert words(events) == ["opened", "degraded", "recovered", "closed"]
        assert len({event.data["app_id"] for event in events}) == 1
        assert events[1].data["slot"] == "beads"


class _Moody:
    """An events slot that *is_away* for the first event, and never takes the one that is too long."""

    enabled = True

    def __init__(self, *, is_away: bool = True) -> None:
        self.adapter = self
        self.kept: list[str | None] = []
        self._is_away = is_away

    async def dispatch_many(self, events: list[Event]) -> None:
        if any(event.id == "too long" for event in events):
            raise InvalidInput("too long")
        if self._is_away:
            self._is_away = False
            raise AdapterUnavailable("away for a moment")
        self.kept += [event.id for event in events]


if __name__ == "__main__":
    asyncio.run(die(Path(sys.argv[1]), sys.argv[2]))
