"""The service levels, held by every adapter. The one place where a test may time: the floors are generous."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox import manifest as manifests
from agentbox.cli import bench
from agentbox_contracts.suites.slo import LEVELS
from tests.servers.host import Host, host
from tests.servers.nats import Server as Nats
from tests.servers.nats import nats_fixture  # noqa: F401 - used by its name, nats_server
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

SECONDS = 5.0

ATTEMPTS = 2
"""A stalled disk or a neighbour's burst can spoil five seconds; an adapter that is too slow is so every time."""

pytestmark = pytest.mark.slo


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    with host(tmp_path / "host", '[adapters]\nevents = "local-jsonl"\n') as found:
        yield found


async def holds(slot: str, text: str, folder: Path) -> None:
    manifest = manifests.parse(text, environ={**os.environ, "AGENTBOX_STATE": str(folder / "state")})
    for _ in range(ATTEMPTS):
        found = await bench.run_levels(manifest, slot, seconds=SECONDS, here=True)
        print()
        bench.show({slot: found}, json=False)
        if all(level.holds for level in found):
            break
    assert [(level.level.id, level.holds) for level in found] == [(level.id, True) for level in LEVELS[slot]]


async def test_beads_local_sqlite(tmp_path: Path) -> None:
    await holds("beads", '[adapters]\nbeads = "local-sqlite"\n', tmp_path)


async def test_beads_external(tmp_path: Path, served: Host) -> None:
    await holds("beads", served.client("beads"), tmp_path)


async def test_beads_external_pg(tmp_path: Path, postgres: Server) -> None:
    await holds("beads", postgres.manifest(), tmp_path)


async def test_memory_embedded(tmp_path: Path) -> None:
    await holds("memory", '[adapters]\nmemory = "embedded"\n', tmp_path)


async def test_memory_external(tmp_path: Path, served: Host) -> None:
    await holds("memory", served.client("memory"), tmp_path)


async def test_memory_external_pg(tmp_path: Path, postgres: Server) -> None:
    await holds("memory", postgres.manifest("memory"), tmp_path)


async def test_events_local_jsonl(tmp_path: Path) -> None:
    await holds("events", '[adapters]\nevents = "local-jsonl"\n', tmp_path)


async def test_events_external(tmp_path: Path, served: Host) -> None:
    await holds("events", served.client("events"), tmp_path)


async def test_events_external_nats(tmp_path: Path, nats_server: Nats) -> None:
    await holds("events", nats_server.manifest(), tmp_path)


async def test_orchestrator_local_process_manager(tmp_path: Path) -> None:
    await holds("orchestrator", '[adapters]\norchestrator = "local-process-manager"\n', tmp_path)


async def test_orchestrator_external(tmp_path: Path, served: Host) -> None:
    await holds("orchestrator", served.client("orchestrator"), tmp_path)


async def test_orchestrator_stdio_bridge(tmp_path: Path) -> None:
    await holds("orchestrator", '[adapters]\norchestrator = "stdio-bridge"\n', tmp_path)
