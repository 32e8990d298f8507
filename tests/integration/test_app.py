"""Open, degrade, refuse, close."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentbox
from agentbox import manifest as manifests
from agentbox.manifest import Manifest
from agentbox_contracts.errors import AdapterDisabled, BootError, OrchestratorRequired, UnknownAdapter
from agentbox_contracts.events import Event


def manifest(folder: Path, text: str = "") -> Manifest:
    return manifests.parse(text, folder=folder, environ={"AGENTBOX_STATE": str(folder / "state")})


async def test_the_default_app_is_healthy_and_says_what_it_is(tmp_path: Path) -> None:
    async with agentbox.open_app(manifest(tmp_path)) as app:
        report = await app.health()
        meta = app.meta()

    assert report.state == "healthy"
    assert [probe.slot for probe in report.slots] == ["beads", "pods", "memory", "events", "orchestrator"]
    assert meta["slots"]["beads"]["impl"] == "local-sqlite"
    assert meta["slots"]["beads"]["durability"] == "fsync"
    assert meta["slots"]["pods"]["impl"] == "off"


async def test_a_slot_that_fails_is_off_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "beads.db").write_bytes(b"this is not a database" * 100)

    async with agentbox.open_app(manifest(tmp_path)) as app:
        report = await app.health()
        with pytest.raises(AdapterDisabled, match="is not an SQLite database"):
            await app.adapters.beads.create_epic(title="x")

    assert report.state == "degraded"
    assert "is not an SQLite database" in report.slots[0].reason


async def test_events_that_failed_are_refused_where_those_switched_off_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "state" / "events").mkdir(parents=True)
    (tmp_path / "state" / "events" / "VERSION").write_text("99\n")

    async with agentbox.open_app(manifest(tmp_path)) as app:
        with pytest.raises(AdapterDisabled, match="99"):
            await app.adapters.events.dispatch(Event(type="suite.told", source="suite"))
    async with agentbox.open_app(manifest(tmp_path, '[adapters]\nevents = "off"\n')) as app:
        receipt = await app.adapters.events.dispatch(Event(type="suite.told", source="suite"))
    assert receipt.durability == "none"


async def test_an_orchestrator_that_is_off_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(OrchestratorRequired, match="switches it off"):
        async with agentbox.open_app(manifest(tmp_path, '[adapters]\norchestrator = "off"\n')):
            pass


async def test_an_orchestrator_that_does_not_start_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "agents").write_text("a file where a folder should be")

    with pytest.raises(OrchestratorRequired, match="did not connect"):
        async with agentbox.open_app(manifest(tmp_path)):
            pass


async def test_an_adapter_that_is_not_in_this_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownAdapter, match="pods: no adapter called 'local-solid'"):
        async with agentbox.open_app(manifest(tmp_path, '[adapters]\npods = "local-solid"\n')):
            pass


async def test_a_state_folder_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "VERSION").write_text("99\n")

    with pytest.raises(BootError, match="format '99'"):
        async with agentbox.open_app(manifest(tmp_path)):
            pass


async def test_overrides_win_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOX_STATE", str(tmp_path / "state"))
    file = tmp_path / "agentbox.toml"
    file.write_text('[federation]\nmode = "standalone"\n[adapters]\nbeads = "local-sqlite"\n')

    async with agentbox.open_app(file, overrides={"adapters": {"beads": "off"}}) as app:
        assert not app.adapters.beads.enabled


async def test_several_processes_open_one_state_folder(tmp_path: Path) -> None:
    script = (
        "import asyncio, agentbox\n"
        "async def main():\n"
        "    async with agentbox.open_app() as app:\n"
        "        print((await app.adapters.beads.create_epic(title='x')).id)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "AGENTBOX_STATE": str(tmp_path / "state")}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, cwd=tmp_path, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    ids = [(await asyncio.to_thread(process.communicate))[0].decode().strip() for process in processes]

    assert all(process.returncode == 0 for process in processes)
    async with agentbox.open_app(manifest(tmp_path)) as app:
        assert {bead.id for bead in await app.adapters.beads.get_ready()} == set(ids)


async def test_a_cancelled_body_still_closes_everything(tmp_path: Path) -> None:
    opened: list[Any] = []

    async def use() -> None:
        async with agentbox.open_app(manifest(tmp_path)) as app:
            opened.append(app)
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    while not opened:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await opened[0].adapters.beads.adapter.health()).state == "degraded"


async def test_attach_gives_a_host_application_the_slots(tmp_path: Path) -> None:
    class Host:
        adapters: Any

    host = Host()
    async with agentbox.open_app(manifest(tmp_path)) as app:
        app.attach(host)
        assert host.adapters.beads is app.adapters.beads


def test_a_plugin_adapter_is_found_by_its_entry_point(tmp_path: Path) -> None:
    package = tmp_path / "site"
    info = package / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbox.beads]\nacme = acme_beads:Acme\n")
    (package / "acme_beads.py").write_text(
        "from agentbox.adapters.beads.local_sqlite import SqliteBeads\nclass Acme(SqliteBeads): pass\n"
    )
    (tmp_path / "agentbox.toml").write_text('[adapters]\nbeads = "acme"\n[beads.acme]\npath = "acme.db"\n')
    script = (
        "import asyncio, agentbox\n"
        "async def main():\n"
        "    async with agentbox.open_app() as app:\n"
        "        print(app.adapters.beads.impl, (await app.adapters.beads.create_epic(title='x')).title)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("acme x\n", "")
    assert (tmp_path / ".agentbox" / "acme.db").exists()
