"""Beads on Postgres with others at work at the same time, and with many beads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from agentbox.adapters.beads import _pg_sql
from agentbox.adapters.beads._pg_tables import SESSION
from agentbox.testing import open_slot
from agentbox_contracts.beads import Bead
from agentbox_contracts.errors import Conflict, StaleClaim
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

MANY = 50_000
WRONG_COUNTERS = """
SELECT id FROM bead
WHERE open_children <> (SELECT count(*) FROM bead AS c WHERE c.parent = bead.id AND c.status <> 'closed')
OR dependents <> (SELECT count(*) FROM dependency WHERE blocker = bead.id)
OR open_blockers <> (SELECT count(*) FROM dependency JOIN bead AS b ON b.id = blocker
    WHERE dependency.bead = bead.id AND b.outcome IS DISTINCT FROM 'done')
OR cardinality(depends_on) <> (SELECT count(*) FROM dependency WHERE dependency.bead = bead.id)
OR ready <> (status = 'open' AND open_children = 0 AND open_blockers = 0)
"""


@pytest.fixture
def manifest(postgres: Server) -> str:
    return postgres.manifest()


@pytest.fixture
async def beads(manifest: str, tmp_path: Path) -> AsyncIterator[Any]:
    async with open_slot(manifest, "beads", folder=tmp_path) as beads:
        yield beads


@pytest.fixture
async def other(manifest: str, tmp_path: Path) -> AsyncIterator[Any]:
    """Another adapter at the same store."""
    async with open_slot(manifest, "beads", folder=tmp_path) as beads:
        yield beads


@pytest.fixture
async def db(postgres: Server, manifest: str, beads: Any) -> AsyncIterator[Any]:
    """A connection past the adapter. Whatever a test did, the counters are right in the end."""
    schema = manifest.partition('schema = "')[2].partition('"')[0]
    db: Any = await asyncpg.connect(postgres.dsn, server_settings={"search_path": schema, **SESSION})
    yield db
    assert await db.fetch(WRONG_COUNTERS) == []
    await db.close()


async def tasks(beads: Any, count: int) -> tuple[Bead, list[Bead]]:
    epic = await beads.create_epic(title="Ship it")
    return epic, [await beads.create_child(parent_id=epic.id, title=f"part {n}") for n in range(count)]


async def test_a_blocker_that_is_closed_meanwhile_blocks_nobody(beads: Any, other: Any, db: Any) -> None:
    for _ in range(40):
        _, (bead, blocker) = await tasks(beads, 2)
        await asyncio.gather(beads.add_dependency(bead.id, blocker_id=blocker.id), other.close(blocker.id))
        shown = await beads.show(bead.id)

        assert (shown.depends_on, shown.open_blockers) == ((blocker.id,), 0)


async def test_a_blocker_in_hand_is_closed_with_those_that_came_to_wait(beads: Any, db: Any) -> None:
    _, (bead, blocker) = await tasks(beads, 2)
    async with db.transaction():
        await db.execute("SELECT FROM bead WHERE id = $1 FOR UPDATE", blocker.id)
        closing = asyncio.ensure_future(beads.close(blocker.id))
        await asyncio.sleep(0.05)
        await db.execute(_pg_sql.DEPEND, bead.id, blocker.id, 1)
    assert (await closing).status == "closed"
    assert (await beads.show(bead.id)).open_blockers == 0


async def test_two_cannot_come_to_wait_for_each_other(beads: Any, other: Any, db: Any) -> None:
    for _ in range(20):
        _, (one, two) = await tasks(beads, 2)
        results = await asyncio.gather(
            beads.add_dependency(one.id, blocker_id=two.id),
            other.add_dependency(two.id, blocker_id=one.id),
            return_exceptions=True,
        )
        assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]


async def test_a_whole_net_is_closed_at_once(beads: Any, other: Any, db: Any) -> None:
    for _ in range(5):
        epic, made = await tasks(beads, 8)
        for number, bead in enumerate(made):
            for blocker in made[max(0, number - 3) : number]:
                await beads.add_dependency(bead.id, blocker_id=blocker.id)
        await asyncio.gather(*((beads, other)[n % 2].close(bead.id) for n, bead in enumerate(made)))

        assert (await beads.show(epic.id)).open_children == 0
        assert epic.id in {bead.id for bead in await beads.get_ready(limit=1000)}


async def test_a_parent_does_not_close_over_a_new_child(beads: Any, other: Any, db: Any) -> None:
    for _ in range(20):
        epic = await beads.create_epic(title="Ship it")
        results = await asyncio.gather(
            beads.create_child(parent_id=epic.id, title="part"), other.close(epic.id), return_exceptions=True
        )
        shown = await beads.show(epic.id)

        assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]
        assert (shown.status, shown.open_children) in (("closed", 0), ("open", 1))


async def test_claim_ready_passes_over_what_is_in_hand(beads: Any, db: Any) -> None:
    epic, (first, second) = await tasks(beads, 2)
    async with db.transaction():
        await db.execute("SELECT FROM bead WHERE id = $1 FOR UPDATE", first.id)
        assert (await beads.claim_ready(actor="ada", parent_id=epic.id)).id == second.id
        last = asyncio.ensure_future(beads.claim_ready(actor="ada", parent_id=epic.id))
        await asyncio.sleep(0.05)
        assert not last.done()
    # What is in hand may come back: that nothing is ready is said only when nothing is.
    assert (await last).id == first.id
    assert await beads.claim_ready(actor="ada", parent_id=epic.id) is None


async def test_a_number_that_another_bead_has_is_passed_over(beads: Any, db: Any, tmp_path: Path) -> None:
    epic, _ = await tasks(beads, 1)
    strangers = [{"id": f"{epic.id}.{n}", "title": "x", "created_at": "2020-01-02T03:04:05Z"} for n in (2, 3)]
    file = tmp_path / "beads.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in strangers))
    await beads.sync(str(file), direction="import")
    made = [await beads.create_child(parent_id=epic.id, title="part", key=key) for key in ("a", None, "a")]

    assert [bead.id for bead in made] == [f"{epic.id}.{n}" for n in (4, 5, 4)]
    assert (await beads.show(epic.id)).open_children == 3


async def test_a_sync_loses_no_write_of_others(beads: Any, other: Any, db: Any, tmp_path: Path) -> None:
    epic, made = await tasks(beads, 30)
    file = tmp_path / "beads.jsonl"
    await beads.sync(str(file), direction="export")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    strangers = [{"id": f"bd-{uuid4().hex}", "title": "x", "created_at": "2020-01-02T03:04:05Z"} for _ in range(50)]
    file.write_text("\n".join(json.dumps(record) for record in (*records, *strangers)))
    claims = (other.claim(bead.id, actor="ada") for bead in made)
    report, *claimed = await asyncio.gather(beads.sync(str(file)), *claims)

    assert (report.created, report.updated, report.conflicts) == (50, 0, ())
    assert (await beads.children(epic.id)).items == claimed


async def test_every_change_is_later_than_the_one_before(beads: Any, db: Any) -> None:
    epic = await beads.create_epic(title="Ship it")
    await db.execute("UPDATE bead SET updated_at = now() + interval '1 hour'")
    ahead = (await beads.show(epic.id)).updated_at
    changed = [await beads.claim(epic.id, actor="ada"), await beads.release(epic.id), await beads.close(epic.id)]
    moments = [ahead, *(bead.updated_at for bead in changed)]

    assert moments == sorted(set(moments))


async def test_a_fence_that_no_column_holds_is_stale(beads: Any, db: Any) -> None:
    epic = await beads.create_epic(title="Ship it")
    await beads.claim(epic.id, actor="ada")
    for call in (beads.release(epic.id, fence=1 << 70), beads.close(epic.id, fence=1 << 63)):
        with pytest.raises(StaleClaim):
            await call


async def test_a_key_is_forgotten_after_a_day(beads: Any, db: Any) -> None:
    first = await beads.create_epic(title="Ship it", key="k")
    await beads.create_epic(title="Ship it", key="old")
    await db.execute("UPDATE once SET created_at = now() - interval '25 hours'")
    second = await beads.create_epic(title="another", key="k")

    assert (first.title, second.title) == ("Ship it", "another")
    assert [row["key"] for row in await db.fetch("SELECT key FROM once")] == ["k"]


def scans_in(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Every scan of a plan that was taken: how, and by which index or of which table."""
    own = (plan["Node Type"], plan.get("Index Name", plan.get("Relation Name", "")))
    deeper = [scan for part in plan.get("Plans", []) for scan in scans_in(part)]
    return ([own] if "Scan" in plan["Node Type"] and plan["Actual Loops"] else []) + deeper


@pytest.mark.parametrize("parent", [None, "bd-1"])
async def test_finding_work_costs_what_is_found(beads: Any, db: Any, parent: str | None) -> None:
    await db.execute(
        "INSERT INTO bead (id, uid, kind, title, description, priority, parent, tags, metadata, created_at, updated_at,"
        " number) SELECT 'bd-1.' || i, 'u' || i, 'task', 't', '', i % 10, 'bd-1', '{}', '{}', now(), now(), i"
        f" FROM generate_series(1, {MANY}) AS i"
    )
    await db.execute(
        "INSERT INTO bead (id, uid, kind, title, description, priority, tags, metadata, created_at,"
        " updated_at, open_children, last_child, ready)"
        f" VALUES ('bd-1', 'u', 'epic', 't', '', 1, '{{}}', '{{}}', now(), now(), {MANY}, {MANY}, false)"
    )
    for statement, values in (
        (_pg_sql.ready(parent), (parent, 20)),
        (_pg_sql.claim_ready(parent), (parent, "ada", 60.0)),
        (_pg_sql.CHILDREN_AFTER, ("bd-1", 20, "bd-1.40000")),
    ):
        (explained,) = json.loads(await db.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *values))
        tables = {name for how, name in scans_in(explained["Plan"]) if how == "Seq Scan"}

        assert tables == set(), explained
        assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 200, (
            statement,
            explained,
        )
