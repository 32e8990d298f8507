"""Postgres and a client that it cannot hear any more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters import _postgres
from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterTimeout
from agentbox_contracts.suites.faults import Proxy
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres


async def test_who_vanished_in_a_transaction_does_not_keep_its_locks(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_postgres, "GRACE_SECONDS", 0.5)
    settings: dict[str, Any] = {"schema": "silence", "statement_timeout_seconds": 0.5}
    async with Proxy(postgres.host, postgres.port) as proxy:
        through = postgres.manifest(dsn=postgres.dsn_of(port=proxy.port), deadline_seconds=0.2, **settings)
        async with (
            asyncio.timeout(30),
            open_slot(postgres.manifest(**settings), "beads", folder=tmp_path) as beads,
            open_slot(through, "beads", folder=tmp_path) as vanishing,
        ):
            one, two, three = [(await beads.create_epic(title="Ship it")).id for _ in range(3)]
            await vanishing.show(one)
            before = proxy.up_bytes
            await proxy.hang("down")
            call = asyncio.ensure_future(vanishing.add_dependency(one, blocker_id=two))
            while proxy.up_bytes == before:
                await asyncio.sleep(0.001)
            await proxy.hang("up")  # the lock is asked for, and from here on there is nobody
            with pytest.raises(AdapterTimeout):
                await call

            while three not in (await beads.show(one)).depends_on:
                try:
                    await beads.add_dependency(one, blocker_id=three)
                except AdapterTimeout:
                    continue
            await proxy.heal()
