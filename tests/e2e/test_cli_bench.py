"""`agentbox bench` in real processes, and what it says of an adapter that does not hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbox.cli import bench, main
from agentbox_contracts.suites._slo_load import Answer
from agentbox_contracts.suites.slo import LEVELS, Measured, judged

Done = subprocess.CompletedProcess[str]
Cli = Callable[..., Done]

KEEPER = '[adapters]\nmemory = "off"\n[orchestrator.local-process-manager]\nkeeper_idle_seconds = 0.3\n'
HEADINGS = ["LEVEL", "OFFERED/S", "DONE/S", "P50", "P95", "P99", "FLOOR", "ERRORS", "BETTER", "VERDICT"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "agentbox.toml").write_text(KEEPER)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}

    def run(*words: str, code: int | None = 0) -> Done:
        command = [sys.executable, "-m", "agentbox", "bench", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
        # Half a second on a loaded machine is no verdict on the adapter.
        assert done.returncode in ((0, 1) if code is None else (code,)), done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_pipe_gets_plain_lines_and_the_state_is_not_touched(cli: Cli, tmp_path: Path) -> None:
    lines = cli("beads", "--seconds", "0.5").stdout.splitlines()

    assert lines[0] == "beads by local-sqlite, 0.5 s of load for each level"
    assert lines[1].split() == HEADINGS
    assert [line.split()[0] for line in lines[2:4]] == ["beads.write", "beads.read"]
    assert lines[-1] == "every level holds"
    assert "\x1b" not in "".join(lines)
    assert [path.name for path in tmp_path.iterdir()] == ["agentbox.toml"]


def test_json_has_every_figure_of_every_slot_that_is_on(cli: Cli) -> None:
    done = cli("--seconds", "0.5", "--json", code=None)
    told = json.loads(done.stdout)

    assert told["holds"] is (done.returncode == 0)
    assert told["holds"] is all(level["holds"] for levels in told["slots"].values() for level in levels)
    assert list(told["slots"]) == ["beads", "events", "orchestrator"]
    write = told["slots"]["beads"][0]
    assert (write["level"]["id"], write["impl"], write["offered"]) == ("beads.write", "local-sqlite", 25)
    assert (write["errors"], write["error_rate"]) == (0, 0)
    assert 0 < write["p50_seconds"] <= write["p95_seconds"] <= write["p99_seconds"]
    assert write["times_better"] > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["beds"], "there is no slot called 'beds'; known: beads, pods, memory, events, orchestrator"),
        (["pods"], "the load of pods is not written yet; there is one for beads, events, memory, orchestrator"),
        (["--seconds", "soon"], "'soon' is not a number of seconds above 0 and up to 3600"),
        (["--seconds", "0"], "'0' is not a number of seconds"),
        (["--seconds=-1"], "'-1' is not a number of seconds"),
        (["--seconds", "nan"], "'nan' is not a number of seconds"),
        (["--impl", "local-sqlite"], "--impl is the adapter of one slot"),
        (["beads", "--impl", "local-sqlte"], "did you mean 'local-sqlite'?"),
    ],
)
def test_nonsense_is_2_and_a_sentence(cli: Cli, words: list[str], sentence: str) -> None:
    done = cli(*words, code=2)

    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_slot_that_is_off_is_left_out_or_refused_by_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").write_text('[adapters]\nmemory = "off"\norchestrator = "off"\n')

    assert list(json.loads(cli("--seconds", "0.2", "--json", code=None).stdout)["slots"]) == ["beads", "events"]
    assert "orchestrator is switched off in the manifest" in cli("orchestrator", code=1).stderr


def test_state_that_lies_elsewhere_is_written_only_with_here(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "elsewhere.db"
    (tmp_path / "agentbox.toml").write_text(f'[beads.local-sqlite]\npath = "{store}"\n')

    done = cli("beads", "--seconds", "0.2", code=1)
    assert f"beads: local-sqlite keeps its state at {store}, and the load would write there" in done.stderr
    assert not store.exists()
    cli("beads", "--seconds", "0.2", "--here", code=None)
    assert store.exists()


def failing(seconds: float) -> list[Measured]:
    answers = [Answer(number / 50, 0.5) for number in range(100)]
    return [judged(level, answers, 50, seconds) for level in LEVELS["beads"]]


def test_a_level_that_does_not_hold_is_1_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measured(adapter: Any, slot: str, *, seconds: float, before: Any) -> list[Measured]:
        return failing(seconds)

    monkeypatch.setenv("AGENTBOX_STATE", str(tmp_path))
    monkeypatch.setattr(bench, "measure", measured)

    assert main(["bench", "beads", "--seconds", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[-2:] == ["0.4x", "fails"]
    assert lines[-3:] == [
        "beads.write: p95 was 500 ms where 200 ms is the floor",
        "beads.read: p95 was 500 ms where 100 ms is the floor",
        "2 of 2 levels do not hold",
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_of_any_width_gets_a_whole_table(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    levels = [judged(level, [Answer(n / 50, 0.0123) for n in range(100)], 50, 2) for level in LEVELS["orchestrator"]]

    bench.show({"orchestrator": levels})
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "✔ holds" in shown
    assert ("p99" in shown) == (columns == 120)
