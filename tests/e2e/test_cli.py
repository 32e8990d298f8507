"""The real command in real processes, each in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbox.app import open_app
from agentbox_contracts.orchestrator import AgentSpec

Done = subprocess.CompletedProcess[str]
Cli = Callable[..., Done]

MANIFEST = "[orchestrator.local-process-manager]\nkeeper_idle_seconds = 0.3\n"
NOT_CHOSEN = '[adapters]\nbeads = "off"\nevents = "local-jsonl"\n[beads.local-sqlite]\npaht = "x"\n'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
    return kept | {"AGENTBOX_STATE": str(tmp_path / "state"), "USER": "ada"}


@pytest.fixture
def cli(tmp_path: Path, environ: dict[str, str]) -> Cli:
    (tmp_path / "agentbox.toml").write_text(MANIFEST)

    def run(*words: str, code: int = 0) -> Done:
        command = [sys.executable, "-m", "agentbox", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def told(done: Done) -> Any:
    return json.loads(done.stdout)


def test_status_shows_every_slot(cli: Cli, tmp_path: Path) -> None:
    status = told(cli("status", "--json"))
    assert status["state"] == "healthy"
    beads = next(slot for slot in status["slots"] if slot["slot"] == "beads")
    assert (beads["impl"], beads["durability"]) == ("local-sqlite", "fsync")
    assert beads["location"] == str(tmp_path / "state" / "beads.db")
    assert "orchestrator  local-process-manager  healthy" in cli("status").stdout


def test_status_of_a_degraded_slot_is_1_and_has_the_reason(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "state" / "beads.db").mkdir(parents=True)
    slots = told(cli("status", "--json", code=1))["slots"]
    assert slots[0]["state"] == "degraded"
    assert "did not connect" in slots[0]["reason"]
    assert "did not connect" in cli("beads", "ready", code=1).stderr


def test_status_without_orchestrator_shows_the_slots_and_says_in_one_sentence_what_to_do(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "agentbox.toml").write_text('[adapters]\norchestrator = "off"\n')
    done = cli("status", code=1)
    assert done.stdout.startswith("agentbox 0.1.0 is degraded\n")
    assert "beads         local-sqlite  healthy" in done.stdout
    assert done.stderr.startswith("agentbox: the orchestrator is required")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("trouble", ["off", "broken"])
def test_serve_without_orchestrator_says_in_one_sentence_what_to_do(cli: Cli, tmp_path: Path, trouble: str) -> None:
    if trouble == "off":
        (tmp_path / "agentbox.toml").write_text('[adapters]\norchestrator = "off"\n')
    else:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "agents").write_text("a file where a folder should be")
    done = cli("serve", "--port", "0", code=1)
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # the host's log is JSON
    assert len(said) == 1
    assert said[0].startswith("agentbox: the orchestrator is required and ")
    assert '[adapters] orchestrator = "' in said[0]


def test_meta_is_json(cli: Cli) -> None:
    assert told(cli("meta"))["slots"]["beads"]["canonical"] == "local-sqlite"


def test_validate_lists_all_problems_also_of_adapters_that_are_not_chosen(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").write_text("[adaptres]\n" + NOT_CHOSEN)
    found = told(cli("validate", "--json", code=2))
    assert [(problem["code"], problem["line"]) for problem in found["problems"]] == [("E016", 1), ("E016", 6)]
    lines = cli("validate", code=2).stdout.splitlines()
    assert lines[0].startswith("agentbox.toml:1:")
    assert lines[-1] == "agentbox.toml: 2 errors"


def test_validate_checks_settings_of_a_manifest_that_is_otherwise_good(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(NOT_CHOSEN)
    assert "other.toml:5:1: E016" in cli("validate", "other.toml", code=2).stdout
    assert "other.toml:5:1: E016" in cli("--manifest", "other.toml", "validate", code=2).stdout


def test_validate_with_warnings_is_0(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").write_text('[adapters]\npods = "local-solid-rs"\n')
    cli("validate")


def test_a_missing_manifest_is_2(cli: Cli) -> None:
    assert "nope.toml" in cli("status", "--manifest", "nope.toml", code=2).stderr


def test_schemas_are_listed_printed_and_written(cli: Cli, tmp_path: Path) -> None:
    assert cli("schema").stdout.split()[:2] == ["manifest", "openapi"]
    assert told(cli("schema", "beads"))["title"] == "agentbox beads"
    cli("schema", "--write", "out")
    assert (tmp_path / "out" / "adapter-contracts" / "beads-v1.json").read_text() == cli("schema", "beads").stdout


def test_work_from_creation_to_closing(cli: Cli) -> None:
    epic = told(cli("beads", "create", "Ship it", "--tag", "x", "--json"))
    first = told(cli("beads", "create", "first", "--parent", epic["id"], "--json"))
    second = told(cli("beads", "create", "second", "--parent", epic["id"], "--json"))
    assert (epic["tags"], first["created_by"]) == (["x"], "ada")
    cli("beads", "dep", second["id"], "--on", first["id"])
    assert [bead["id"] for bead in told(cli("beads", "ready", "--json"))] == [first["id"]]
    assert cli("beads", "claim", "--next").stdout.startswith(f"claimed {first['id']} for ada, fence 1")
    assert "held by ada" in cli("beads", "claim", first["id"], "--actor", "grace", code=1).stderr
    tree = cli("beads", "tree").stdout.splitlines()
    assert tree[0] == f"{epic['id']} [open] Ship it"
    assert tree[1] == f"  {first['id']} [claimed] first (held by ada)"
    assert tree[2] == f"  {second['id']} [blocked] second"
    cli("beads", "close", first["id"])
    assert "outcome: done" in cli("beads", "show", first["id"]).stdout
    assert [child["status"] for child in told(cli("beads", "tree", epic["id"], "--json"))["children"]] == [
        "closed",
        "open",
    ]


def test_nothing_ready_is_1(cli: Cli) -> None:
    done = cli("beads", "claim", "--next", "--json", code=1)
    assert told(done) is None
    assert "nothing is ready" in done.stderr


def test_a_lease_needs_its_fence(cli: Cli) -> None:
    bead = told(cli("beads", "create", "leased", "--json"))["id"]
    assert told(cli("beads", "claim", bead, "--lease", "60", "--json"))["lease_expires_at"]
    assert "--fence" in cli("beads", "close", bead, code=1).stderr
    cli("beads", "close", bead, "--fence", "1", "--outcome", "failed", "--reason", "no luck")


def test_export_and_import_again_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    cli("beads", "create", "one")
    assert cli("beads", "export", "all.jsonl").stdout == "exported 1 to all.jsonl\n"
    assert "unchanged 1" in cli("beads", "import", "all.jsonl").stdout
    assert "nope.jsonl" in cli("beads", "import", "nope.jsonl", code=1).stderr


def test_an_unknown_bead_has_a_remedy(cli: Cli) -> None:
    assert "agentbox beads tree" in cli("beads", "show", "bd-nope", code=1).stderr


async def test_agents_are_listed_and_their_output_is_raw(cli: Cli, tmp_path: Path, environ: dict[str, str]) -> None:
    overrides = {"state": {"path": environ["AGENTBOX_STATE"]}}
    async with open_app(tmp_path / "agentbox.toml", overrides=overrides) as app:
        orchestrator = app.adapters.orchestrator
        quick = await orchestrator.spawn(AgentSpec(command="sh", args=("-c", "printf out; echo err >&2")))
        slow = await orchestrator.spawn(AgentSpec(command="sh", args=("-c", "echo here; exec sleep 60"), name="slow"))
        done = cli("agents", "logs", quick.id, "-f")
        assert (done.stdout, done.stderr) == ("out", "err\n")
        assert cli("agents", "logs", slow.id).stdout == "here\n"
        assert [agent["id"] for agent in told(cli("agents", "ps", "--json"))] == [slow.id]
        assert {agent["id"] for agent in told(cli("agents", "ps", "--all", "--json"))} == {quick.id, slow.id}
        assert f"{slow.id}  running" in cli("agents", "ps").stdout
        await _interrupted(slow.id, tmp_path, environ)
        await orchestrator.terminate(slow.id, grace_seconds=0)


async def _interrupted(agent_id: str, folder: Path, environ: dict[str, str]) -> None:
    """Ctrl-C while following is quiet and 130."""
    command = [sys.executable, "-m", "agentbox", "agents", "logs", agent_id, "-f"]
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"here\n"
        follower.send_signal(signal.SIGINT)
        assert follower.communicate(timeout=30) == (b"", b"")
        assert follower.returncode == 130


def test_a_closed_pipe_is_quiet(tmp_path: Path, environ: dict[str, str]) -> None:
    command = f"{sys.executable} -m agentbox schema openapi | head -c 1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{", "")


def test_debug_shows_the_traceback(tmp_path: Path, environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "agentbox", "--debug", "beads", "show", "bd-nope"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
