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
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

SECONDS = 5.0

pytestmark = pytest.mark.slo


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    with host(tmp_path / "host") as found:
        yield found


async def holds(slot: str, text: str, folder: Path) -> None:
    manifest = manifests.parse(text, environ={**os.environ, "AGENTBOX_STATE": str(folder / "state")})
    found = await bench.run_levels(manifest, slot, seconds=SECONDS, here=True)
    print()
    bench.show({slot: found}, json=False)
    assert [(level.level.id, level.holds) for level in found] == [(level.id, True) for level in LEVELS[slot]]


async def test_beads_local_sqlite(tmp_path: Path) -> None:
    await holds("beads", '[adapters]\nbeads = "local-sqlite"\n', tmp_path)


async def test_beads_external(tmp_path: Path, served: Host) -> None:
    await holds("beads", served.client("beads"), tmp_path)


async def test_beads_external_pg(tmp_path: Path, postgres: Server) -> None:
    await holds("beads", postgres.manifest(), tmp_path)


async def test_orchestrator_local_process_manager(tmp_path: Path) -> None:
    await holds("orchestrator", '[adapters]\norchestrator = "local-process-manager"\n', tmp_path)


async def test_orchestrator_external(tmp_path: Path, served: Host) -> None:
    await holds("orchestrator", served.client("orchestrator"), tmp_path)


async def test_orchestrator_stdio_bridge(tmp_path: Path) -> None:
    await holds("orchestrator", '[adapters]\norchestrator = "stdio-bridge"\n', tmp_path)
