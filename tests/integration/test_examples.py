"""The examples of the documentation, run as a reader would run them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from fastapi import FastAPI, Request

import agentbox.sync
from agentbox_contracts.beads import Bead

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a manifest: the standalone defaults, state in `.agentbox`."""
    for name in ("AGENTBOX_MANIFEST", "AGENTBOX_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOWTO / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_python_block(path: Path) -> str:
    found = re.search(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)
    assert found is not None, f"{path.name} has no python block"
    return found[1]


def run(path: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def client(web: object) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=web)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://test")


def test_the_readme_example_runs(folder: Path) -> None:
    source = first_python_block(ROOT / "README.md")
    (folder / "example.py").write_text(source, "utf-8")
    assert "done" in run(folder / "example.py", folder)
    assert (folder / ".agentbox" / "beads.db").is_file()


def test_the_readme_example_is_about_fifteen_lines() -> None:
    assert len([line for line in first_python_block(ROOT / "README.md").splitlines() if line]) <= 16


def test_the_quickstart_example_runs(folder: Path) -> None:
    (folder / "example.py").write_text(first_python_block(ROOT / "docs" / "quickstart.md"), "utf-8")
    assert "grace is refused" in run(folder / "example.py", folder)


def test_the_script_runs_an_agent_and_closes_its_bead(folder: Path) -> None:
    assert run(HOWTO / "embed_script.py", folder).splitlines() == ["hello from an agent", "Print one line: done"]


async def test_starlette_handlers_read_the_adapters() -> None:
    web = example("embed_starlette").web
    async with web.router.lifespan_context(web), client(web) as http:
        epic = (await http.post("/epics", json={"title": "Ship it"})).raise_for_status().json()
        won = await http.post(f"/beads/{epic['id']}/claim", json={"actor": "ada"})
        lost = await http.post(f"/beads/{epic['id']}/claim", json={"actor": "grace"})
        none = await http.post("/beads/bd-none/claim", json={"actor": "ada"})
        empty = await http.post("/epics", json={"title": ""})
    assert won.json()["holder"] == "ada"
    assert (lost.status_code, lost.json()["code"]) == (409, "already_claimed")
    assert (none.status_code, none.json()["code"]) == (404, "not_found")
    assert (empty.status_code, empty.json()["code"]) == (422, "invalid_input")


async def test_fastapi_takes_the_same_lifespan() -> None:
    web = FastAPI(lifespan=example("embed_starlette").lifespan)

    async def count(request: Request) -> int:
        await request.app.adapters.beads.create_epic(title="Ship it")
        return len(await request.app.adapters.beads.get_ready())

    web.add_api_route("/count", count)
    async with web.router.lifespan_context(web), client(web) as http:
        assert (await http.get("/count")).json() == 1


def test_flask_handlers_read_the_adapters() -> None:
    module = example("embed_flask")
    with agentbox.sync.open_app() as app:
        http = module.create_web(app).test_client()
        epic = http.post("/epics", json={"title": "Ship it"}).get_json()
        won = http.post(f"/beads/{epic['id']}/claim", json={"actor": "ada"})
        lost = http.post(f"/beads/{epic['id']}/claim", json={"actor": "grace"})
        found: Bead = app.adapters.beads.show(epic["id"])
    assert won.get_json()["fence"] == 1
    assert (lost.status_code, lost.get_json()["code"]) == (409, "already_claimed")
    assert found.holder == "ada"
