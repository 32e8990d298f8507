"""Claims through the app against raw asyncpg with the same statement, tables, server and number of connections."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from agentbox.adapters.beads._pg_sql import CLAIM
from agentbox.app import open_app
from agentbox_contracts.beads import Beads
from tests.bench._measure import Bench, Measured, paired, spread
from tests.servers.postgres import Server

ROUNDS = 21
CLAIMS = 640
REST = '[state]\npath = "."\n'

FILL = """
INSERT INTO bead (id, uid, kind, title, description, priority, tags, metadata, created_at, updated_at)
SELECT 'bd-' || i, 'uid-' || i, 'epic', 'bead ' || i, '', 1, '{}', '{}', now(), now() FROM generate_series(1, $1) AS i
"""


@asynccontextmanager
async def _beads_of(
    server: Server, folder: Path, schema: str, connections: int, events: str = "off"
) -> AsyncIterator[Beads]:
    """`app.adapters.beads` of an app whose beads are in *schema*. With *events* every change is told."""
    manifest = folder / "agentbox.toml"
    text = server.manifest(schema=schema, pool_min=connections, pool_max=connections)
    manifest.write_text(REST + text.replace("[adapters]", f'[adapters]\nevents = "{events}"'))
    async with open_app(manifest) as app:
        assert app.slots["beads"].failure == "", app.slots["beads"].failure
        yield app.adapters.beads


async def _raw(server: Server, schema: str, stack: AsyncExitStack) -> Any:
    db: Any = await asyncpg.connect(server.dsn, server_settings={"search_path": schema})
    stack.push_async_callback(db.close)
    return db


async def _measure(callers: int, connections: int, claims: int, *, events: str = "off") -> Measured:
    server = Server()
    try:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            beads = await stack.enter_async_context(_beads_of(server, folder, "ours", connections, events))
            async with _beads_of(server, folder, "raw", 1):
                pass
            raw = [await _raw(server, "raw", stack) for _ in range(connections)]
            for schema in ("ours", "raw"):
                await (await _raw(server, schema, stack)).execute(FILL, claims * (ROUNDS + 1))
            raw_numbers, our_numbers = itertools.count(1), itertools.count(1)

            async def reference() -> float:
                ids = [f"bd-{next(raw_numbers)}" for _ in range(claims)]
                # With as many callers as connections, each caller's calls all go to one connection.
                call = lambda number: raw[number % connections].fetchrow(CLAIM, ids[number], "worker", None)  # noqa: E731
                return await spread(call, claims, connections)

            async def subject() -> float:
                ids = [f"bd-{next(our_numbers)}" for _ in range(claims)]
                return await spread(lambda number: beads.claim(ids[number], actor="worker"), claims, callers)

            measured = await paired(reference, subject, rounds=ROUNDS)
            for schema in ("ours", "raw"):
                won = await (await _raw(server, schema, stack)).fetchval("SELECT sum(fence) FROM bead")
                assert won == claims * (ROUNDS + 1)
            return measured
    finally:
        server.remove()


BENCHES = (
    Bench(
        name="pg-claim-8",
        what="beads.claim on Postgres, 64 callers, 8 connections : raw asyncpg, 8 connections",
        bound="at_least",
        bar=0.6,
        measure=lambda: asyncio.run(_measure(64, 8, CLAIMS)),
    ),
    Bench(
        name="pg-claim-1",
        what="beads.claim on Postgres, one caller : raw asyncpg, one connection",
        bound="at_least",
        bar=0.6,
        measure=lambda: asyncio.run(_measure(1, 1, CLAIMS // 2)),
    ),
    Bench(
        name="pg-claim-8-told",
        what="beads.claim on Postgres, 64 callers, each told as an event : raw asyncpg, untold",
        bound="at_least",
        bar=0.4,
        measure=lambda: asyncio.run(_measure(64, 8, CLAIMS, events="local-jsonl")),
    ),
)
