"""Slots that fail and come back, with real hosts that are not there yet."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import agentbox
from agentbox import recovery
from agentbox.app import App
from agentbox_contracts.errors import AdapterDisabled
from tests.servers.host import Host

CLIENT = '[adapters]\nbeads = "external"\norchestrator = "local-process-manager"\n[beads.external]\nretry_seconds = 0\n'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(recovery, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(recovery, "LOOK_SECONDS", 0.1)


@pytest.fixture
def later(tmp_path: Path) -> Host:
    """A host that is not running, at an address that is known already."""
    folder = tmp_path / "host"
    folder.mkdir()
    known = Host(folder, "")
    known.start()
    known.stop()
    return known


def manifest(folder: Path, later: Host, more: str = "") -> Path:
    path = folder / "agentbox.toml"
    token = later.folder / ".agentbox" / "host.token"
    federation = f'[federation]\nmode = "client"\nexternal_url = "{later.url}"\ntoken = "file:{token}"\n'
    path.write_text(CLIENT + federation + more + "[health]\nrequired = []\n")
    return path


async def until(app: App, state: str) -> None:
    async with asyncio.timeout(20):
        while next(probe for probe in (await app.health()).slots if probe.slot == "beads").state != state:
            await asyncio.sleep(0.05)


async def test_a_slot_that_failed_at_boot_comes_back(
    tmp_path: Path, later: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentbox.recovery")
    others = 'pods = "off"\nmemory = "off"\nevents = "off"\n'
    path = manifest(tmp_path, later)
    path.write_text(path.read_text().replace("[adapters]\n", f"[adapters]\n{others}"))
    async with agentbox.open_app(path) as app:
        beads = app.adapters.beads
        with pytest.raises(AdapterDisabled, match="cannot be reached"):
            await beads.get_ready()
        later.start()
        await until(app, "healthy")
        epic = await beads.create_epic(title="at last")
        later.kill()
        await until(app, "degraded")
        await asyncio.sleep(0.5)
        later.start()
        await until(app, "healthy")
        assert (await beads.show(epic.id)).title == "at last"
        await asyncio.sleep(0.3)
    later.stop()
    told = [record.getMessage().split(":")[0] for record in caplog.records if record.name == "agentbox.recovery"]
    assert told == ["slot recovered", "slot degraded", "slot recovered"]


async def test_recovery_can_be_switched_off(tmp_path: Path, later: Host) -> None:
    others = 'pods = "off"\nmemory = "off"\nevents = "off"\n'
    path = manifest(tmp_path, later, "[adapters_policy]\nrecover = false\n")
    path.write_text(path.read_text().replace("[adapters]\n", f"[adapters]\n{others}"))
    async with agentbox.open_app(path) as app:
        later.start()
        await asyncio.sleep(0.5)
        with pytest.raises(AdapterDisabled):
            await app.adapters.beads.get_ready()
    later.stop()
