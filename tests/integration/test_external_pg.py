"""Beads on Postgres when something is wrong: with the server, the network, or what was configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import asyncpg
import pytest

from agentbox._testing_process import opened as opened_process
from agentbox.testing import open_slot
from agentbox_contracts.beads import Beads
from agentbox_contracts.contract import Secret
from agentbox_contracts.errors import AdapterTimeout, AdapterUnavailable, AgentboxError, NotFound
from agentbox_contracts.suites.faults import Proxy
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

STAGES = ("open", "claimed", "closed")


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server of this test's own, to be killed."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def schema_of(manifest: str) -> str:
    return manifest.partition('schema = "')[2].partition('"')[0]


@asynccontextmanager
async def by_hand(server: Server, manifest: str) -> AsyncIterator[Any]:
    """A connection past the adapter, to the same schema."""
    db: Any = await asyncpg.connect(server.dsn, server_settings={"search_path": schema_of(manifest)})
    try:
        yield db
    finally:
        await db.close()


@asynccontextmanager
async def locked(server: Server, manifest: str, bead_id: str) -> AsyncIterator[None]:
    """Somebody else has the bead in hand and is slow."""
    async with by_hand(server, manifest) as db, db.transaction():
        await db.execute("SELECT FROM bead WHERE id = $1 FOR UPDATE", bead_id)
        yield


class TestKilled:
    async def write_for_ever(self, beads: Beads, epic_id: str, stages: dict[str, str]) -> None:
        while True:
            bead = await beads.create_child(parent_id=epic_id, title="part")
            stages[bead.id] = "open"
            claimed = await beads.claim(bead.id, actor="ada", lease_seconds=3600)
            stages[bead.id] = "claimed"
            await beads.close(bead.id, fence=claimed.fence)
            stages[bead.id] = "closed"

    async def test_what_was_acknowledged_survives_kill(self, mortal: Server, folder: Path) -> None:
        manifest = mortal.manifest()
        async with open_slot(manifest, "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            for _ in range(3):
                epic = await beads.create_epic(title="until killed")
                stages: dict[str, str] = {}
                writers = [asyncio.ensure_future(self.write_for_ever(beads, epic.id, stages)) for _ in range(8)]
                while len(stages) < 20:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(mortal.kill)
                ends = await asyncio.gather(*writers, return_exceptions=True)
                await asyncio.to_thread(mortal.start)

                assert {type(end) for end in ends} == {AdapterUnavailable}
                # The same adapter goes on, without being opened again.
                stored = {bead.id: bead.status for bead in (await beads.children(epic.id, limit=1000)).items}
                assert [b for b in stages if STAGES.index(stored[b]) < STAGES.index(stages[b])] == []
                open_children = sum(status != "closed" for status in stored.values())
                assert (await beads.show(epic.id)).open_children == open_children

    async def test_a_server_that_is_gone_is_unavailable_and_degraded(self, mortal: Server, folder: Path) -> None:
        async with open_slot(mortal.manifest(), "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            epic = await beads.create_epic(title="Ship it")
            await asyncio.to_thread(mortal.kill)
            for call in (beads.show(epic.id), beads.close(epic.id), beads.create_epic(title="x", key="k")):
                with pytest.raises(AdapterUnavailable):
                    await call
            health = await beads.health()
            assert (health.state, mortal.host in health.reason) == ("degraded", True)
            await asyncio.to_thread(mortal.start)

            assert (await beads.health()).state == "healthy"
            assert await beads.show(epic.id) == epic


class TestNetwork:
    @pytest.fixture
    async def proxy(self, postgres: Server) -> AsyncIterator[Proxy]:
        async with Proxy(postgres.host, postgres.port) as proxy:
            yield proxy

    @pytest.fixture
    def manifest(self, postgres: Server, proxy: Proxy) -> str:
        return postgres.manifest(dsn=postgres.dsn_of(port=proxy.port), pool_max=1, deadline_seconds=1.0)

    @pytest.fixture
    async def beads(self, manifest: str, folder: Path) -> AsyncIterator[Any]:
        async with open_slot(manifest, "beads", folder=folder) as beads:
            yield beads

    async def test_a_lost_write_with_a_key_is_one_write(self, beads: Any, proxy: Proxy) -> None:
        """Whichever byte of the answers is the last to arrive, up to the one that says it is committed."""

        async def created(passed: int | None) -> int:
            """The bytes that came back while a child was created, the connection being cut after *passed* of them."""
            epic = await beads.create_epic(title="Ship it")
            await proxy.reset()
            assert await beads.show(epic.id) == epic
            before = proxy.down_bytes
            if passed is not None:
                await proxy.truncate(passed)
            child = await beads.create_child(parent_id=epic.id, title="part", key=epic.id)
            assert (await beads.children(epic.id)).items == [child]
            assert await beads.create_child(parent_id=epic.id, title="part", key=epic.id) == child
            return proxy.down_bytes - before

        whole = await created(None)
        for passed in (*range(0, whole, whole // 20), *range(whole - 20, whole, 4)):
            await created(passed)

    async def test_a_lost_write_without_a_key_is_not_done_again(self, beads: Any, proxy: Proxy) -> None:
        epic = await beads.create_epic(title="Ship it")
        await beads.create_child(parent_id=epic.id, title="so that the statement is prepared")
        await proxy.truncate(0)
        with pytest.raises(AdapterUnavailable):
            await beads.create_child(parent_id=epic.id, title="part")

        # The server had done it; only the answer was lost.
        assert [bead.title for bead in (await beads.children(epic.id)).items][1:] == ["part"]

    async def test_a_lost_read_is_read_again(self, beads: Any, proxy: Proxy) -> None:
        epic = await beads.create_epic(title="Ship it")
        await proxy.truncate(0)
        assert await beads.show(epic.id) == epic
        await proxy.reset()
        assert await beads.get_ready() == [epic]

    async def test_a_connection_that_was_cut_while_idle_is_replaced(self, beads: Any, proxy: Proxy) -> None:
        epic = await beads.create_epic(title="Ship it")
        await proxy.cut()
        await asyncio.sleep(0.05)

        assert (await beads.close(epic.id)).status == "closed"

    async def test_silence_ends_at_the_deadline(self, beads: Any, proxy: Proxy) -> None:
        epic = await beads.create_epic(title="Ship it")
        await proxy.hang()
        started = perf_counter()
        with pytest.raises(AdapterTimeout):
            await beads.show(epic.id)
        assert perf_counter() - started < 2
        await proxy.heal()

        assert await beads.show(epic.id) == epic

    async def test_nobody_listens_and_then_somebody_does(self, beads: Any, proxy: Proxy) -> None:
        epic = await beads.create_epic(title="Ship it")
        await proxy.refuse()
        await proxy.reset()
        with pytest.raises(AdapterUnavailable):
            await beads.show(epic.id)
        await proxy.heal()

        assert await beads.show(epic.id) == epic


class TestLimits:
    async def test_a_pool_that_is_exhausted_says_so(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest(pool_max=2, pool_timeout_seconds=0.2)
        async with open_slot(manifest, "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            epic = await beads.create_epic(title="Ship it")
            async with locked(postgres, manifest, epic.id):
                stuck = [asyncio.ensure_future(beads.claim(epic.id, actor="ada")) for _ in range(2)]
                await asyncio.sleep(0)
                with pytest.raises(
                    AdapterUnavailable, match=r"all 2 connections were busy for 0\.2 s; nothing was done"
                ):
                    await beads.show(epic.id)
            claimed, again = await asyncio.gather(*stuck)

            assert claimed == again == await beads.show(epic.id)

    async def test_a_statement_ends_at_its_timeout(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest(statement_timeout_seconds=0.2)
        async with open_slot(manifest, "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            epic = await beads.create_epic(title="Ship it")
            async with locked(postgres, manifest, epic.id):
                with pytest.raises(AdapterTimeout, match="statement timeout"):
                    await beads.claim(epic.id, actor="ada")

            assert await beads.show(epic.id) == epic

    async def test_cancelled_calls_leave_no_connections_behind(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest(pool_max=3)
        async with open_slot(manifest, "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            epic = await beads.create_epic(title="Ship it")
            for number in range(60):
                call = asyncio.ensure_future(beads.create_child(parent_id=epic.id, title="part", key=f"{number}"))
                await asyncio.sleep(0.0002 * (number % 20))
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            made = [await beads.create_child(parent_id=epic.id, title="part", key=f"{n}") for n in range(60)]

            assert (await beads.children(epic.id)).items == sorted(made, key=lambda bead: int(bead.id.split(".")[1]))
            async with by_hand(postgres, manifest) as db:
                count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentbox'"
                assert await db.fetchval(count) <= 3

    async def test_disconnecting_lets_a_write_end(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        async with open_slot(manifest, "beads", folder=folder) as dispatched:
            beads: Any = dispatched
            epic = await beads.create_epic(title="Ship it")
            async with locked(postgres, manifest, epic.id):
                write = asyncio.ensure_future(beads.claim(epic.id, actor="ada"))
                await asyncio.sleep(0.05)
                closing = asyncio.ensure_future(beads.disconnect())
                await asyncio.sleep(0.05)
                with pytest.raises(AdapterUnavailable, match="not open"):
                    await beads.show(epic.id)
            assert (await write).holder == "ada"
            await closing


class TestMigrations:
    async def test_several_processes_make_the_schema_at_once(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()

        async def opened(stack: AsyncExitStack) -> Any:
            process = opened_process(manifest, "beads", folder=folder, known_bad=None, crash=None)
            return await stack.enter_async_context(process)

        async with AsyncExitStack() as stack:
            sides = await asyncio.gather(*(opened(stack) for _ in range(3)))
            made = [await side.create_epic(title="Ship it") for side in sides]
            assert [await sides[0].show(epic.id) for epic in made] == made
        async with by_hand(postgres, manifest) as db:
            assert [row["version"] for row in await db.fetch("SELECT version FROM version ORDER BY version")] == [1, 2]

    async def test_a_newer_schema_is_refused(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        async with open_slot(manifest, "beads", folder=folder), by_hand(postgres, manifest) as db:
            await db.execute("INSERT INTO version VALUES (99)")
        with pytest.raises(AdapterUnavailable, match="has version 99, and this agentbox knows up to 2"):
            async with open_slot(manifest, "beads", folder=folder):
                pass

    async def test_a_role_that_may_not_create_can_use_what_is_there(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        schema = schema_of(manifest)
        async with open_slot(manifest, "beads", folder=folder), by_hand(postgres, manifest) as db:
            await db.execute(
                f"CREATE ROLE {schema} LOGIN PASSWORD 'other'; GRANT USAGE ON SCHEMA {schema} TO {schema};"
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}"
            )
        plain = f"host={postgres.host} port={postgres.port} dbname=postgres user={schema} password='other'"
        async with open_slot(postgres.manifest(dsn=plain, schema=schema), "beads", folder=folder) as beads:
            assert (await beads.create_epic(title="Ship it")).status == "open"
        with pytest.raises(AdapterUnavailable, match="permission denied"):
            async with open_slot(postgres.manifest(dsn=plain), "beads", folder=folder):
                pass

    async def test_writes_wait_for_the_disk_whatever_the_database_says(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        name = schema_of(manifest)
        async with by_hand(postgres, manifest) as db:
            await db.execute(f"CREATE DATABASE {name}")
            await db.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        manifest = postgres.manifest(dsn=postgres.dsn_of(database=name))
        async with open_slot(manifest, "beads", folder=folder) as beads:
            adapter: Any = beads.adapter
            show = adapter._db.read(lambda db: db.fetchval("SHOW synchronous_commit"))
            assert (await show, beads.durability) == ("on", "fsync")


def secrets_in(text: str, server: Server) -> list[str]:
    """Pieces of the password that are in *text*, as it is and as the DSN has it."""
    pieces = [server.password, server.dsn, *server.password.replace("/", ":").replace("@", ":").split(":"), "wr0ng"]
    return [piece for piece in pieces if piece in text]


class TestConfigured:
    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"password": "wr0ng"}, "password authentication failed"),
            ({"database": "nowhere"}, 'database "nowhere" does not exist'),
            ({"port": 1}, "refused"),
        ],
    )
    async def test_a_wrong_address_is_told_without_the_secret(
        self,
        postgres: Server,
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        changed: Any,
        said: str,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with pytest.raises(AdapterUnavailable) as caught:
            async with open_slot(postgres.manifest(dsn=postgres.dsn_of(**changed)), "beads", folder=folder):
                pass

        assert said in caught.value.message.replace("Connect call failed", "refused")
        told = [caught.value.message, repr(caught.value), caplog.text, *(str(vars(each)) for each in caplog.records)]
        assert secrets_in("\n".join(told), postgres) == []

    @pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
    async def test_a_password_that_is_not_encoded_is_not_told(
        self,
        postgres: Server,
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        scheme: str,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        dsn = f"{scheme}://{postgres.user}:{postgres.password}@{postgres.host}:{postgres.port}/postgres"
        with pytest.raises(AgentboxError, match="the DSN cannot be read") as caught:
            async with open_slot(postgres.manifest(dsn=dsn), "beads", folder=folder):
                pass
        assert secrets_in(f"{caught.value!r} {caplog.text}", postgres) == []

    async def test_a_secret_that_leads_nowhere_is_named(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        async with open_slot(manifest, "beads", folder=folder) as beads:
            Path(manifest.partition('dsn = "file:')[2].partition('"')[0]).unlink()
            assert beads.location.startswith("postgresql:///?schema=")
        with pytest.raises(AdapterUnavailable, match=r"file:.*No such file"):
            async with open_slot(manifest, "beads", folder=folder):
                pass

    async def test_the_location_is_an_address_without_secrets(self, postgres: Server, folder: Path) -> None:
        manifest = postgres.manifest()
        async with open_slot(manifest, "beads", folder=folder) as beads:
            place = f"postgresql://127.0.0.1:{postgres.port}/postgres?schema={schema_of(manifest)}"
            assert beads.location == place
            with pytest.raises(NotFound) as caught:
                await beads.show("bd-none")
            told = f"{beads.location} {beads.adapter.config!r} {caught.value!r}"
            assert secrets_in(told, postgres) == []
            assert isinstance(beads.adapter.config.dsn, Secret)

    async def test_more_connections_kept_than_allowed_is_refused(self, postgres: Server, folder: Path) -> None:
        with pytest.raises(AgentboxError, match="pool_min 9 is greater than pool_max 4"):
            async with open_slot(postgres.manifest(pool_min=9), "beads", folder=folder):
                pass

    async def test_a_name_that_is_no_schema_is_refused(self, postgres: Server, folder: Path) -> None:
        for name in ("pg_mine", "Mine", "a;b", "1a", "x" * 64):
            with pytest.raises(AgentboxError, match="schema"):
                async with open_slot(postgres.manifest(schema=name), "beads", folder=folder):
                    pass
