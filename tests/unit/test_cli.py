"""The command line's own manners: quick help, clear errors, honest exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentbox.cli import COMMANDS, _failure, _output, main
from agentbox_contracts.errors import ManifestError, NotFound, OrchestratorRequired

HEAVY = ("rich", "msgspec", "attrs", "attr", "asyncio", "opentelemetry", "prometheus_client", "tomli", "logging")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from agentbox.cli import main; code = main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert all(f"    {name} " in done.stdout for name in COMMANDS)


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("agentbox ")


def test_no_command_shows_the_help_and_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["statsu"], ["beads"], ["beads", "claim"], ["beads", "create", "x", "--priority=77"]]
)
def test_wrong_usage_is_one_sentence_with_a_remedy(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("agentbox: ")
    assert told.count("\n") == 1
    assert "--help'" in told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ManifestError("bad"), 2),
        (OrchestratorRequired("off"), 1),
        (NotFound("no bead", slot="beads"), 1),
        (RuntimeError("x"), 1),
    ],
)
def test_errors_have_their_exit_codes(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert _failure.tell(error) == code
    told = capsys.readouterr().err
    assert told.startswith("agentbox: ")
    assert "Traceback" not in told


def test_text_cannot_forge_lines_or_steer_the_terminal() -> None:
    assert _output.one_line("a\nb\x1b[2Jé") == "a\\nb\\x1b[2Jé"


def test_an_adapter_that_cannot_be_loaded_is_w029(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agentbox.toml"
    path.write_text('[adapters]\npods = "local-solid"\n')
    assert main(["validate", str(path)]) == 0
    assert "warning W029 pods: no adapter called 'local-solid' in this version" in capsys.readouterr().out
