"""`agentbox contract` and `agentbox new-adapter`, as processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


def agentbox(folder: Path, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "agentbox", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_report_names_every_clause_and_the_grade(tmp_path: Path) -> None:
    code, told, complaint = agentbox(tmp_path, "contract", "events", "--impl", "off")
    assert (code, complaint) == (0, "")
    lines = told.splitlines()
    assert lines[0] == "events · off"
    assert "durability none" in lines[1]
    assert lines[-1] == "events off is conformant"
    assert sum(line.startswith("  ✔ ") for line in lines) >= 4


def test_a_report_for_machines_and_for_ci(tmp_path: Path) -> None:
    code, told, _ = agentbox(tmp_path, "contract", "pods", "--impl", "off", "--json", "--junit", "report.xml")
    (report,) = json.loads(told)
    assert (code, report["grade"], report["slot"], report["impl"]) == (0, "conformant", "pods", "off")
    assert {clause["verdict"] for clause in report["clauses"]} == {"passed"}
    (suite,) = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert len(suite) == len(report["clauses"])


def test_an_exemption_is_part_of_the_grade(tmp_path: Path) -> None:
    words = ("contract", "pods", "--impl", "off", "--json")
    _, told, _ = agentbox(tmp_path, *words)
    first = json.loads(told)[0]["clauses"][0]["id"]

    def graded(expires: str) -> Any:
        lines = f'[[exemption]]\nclauses = "{first}"\nreason = "later"\nowner = "ada"\nexpires = {expires}\n'
        (tmp_path / "exemptions.toml").write_text(lines)
        code, told, _ = agentbox(tmp_path, *words, "--exemptions", "exemptions.toml")
        return code, json.loads(told)[0]["grade"]

    assert graded("9999-01-01") == (0, f"conformant without {first}")
    assert graded("2020-01-01") == (1, "not conformant")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("contract", "bead"), "there is no suite for bead; there are suites for beads, events, memory, orchestrator"),
        (("contract", "beads", "--impl", "x", "--manifest", "y"), "give one of --impl, --manifest and --url"),
        (("contract", "--impl", "x"), "--impl is one slot's adapter; name the slot"),
        (("contract", "--prove", "--slo"), "give --prove or --slo, not both"),
        (("contract", "beads", "--impl", "local-sqlit"), "did you mean 'local-sqlite'?"),
        (("contract", "beads", "--exemptions", "none.toml"), "exemptions cannot be read"),
        (("new-adapter", "beads", "Bad_Name"), "cannot be an adapter's name"),
        (("new-adapter", "pods", "x"), "invalid choice: 'pods'"),
    ],
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    code, told, complaint = agentbox(tmp_path, *words)
    assert (code != 0, told) == (True, "")
    assert sentence in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize("slot", ["beads", "orchestrator"])
def test_a_new_adapter_is_clean_and_does_not_overwrite(tmp_path: Path, slot: str) -> None:
    code, told, _ = agentbox(tmp_path, "new-adapter", slot, "external-thing")
    folder = tmp_path / f"agentbox-{slot}-external-thing"
    assert code == 0
    assert f"agentbox contract {slot} --impl external-thing" in told
    assert len((folder / "tests" / "test_contract.py").read_text().splitlines()) < 15
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--select", "E9,F,I", "."]
    assert subprocess.run(ruff, cwd=folder, capture_output=True, check=False).returncode == 0
    code, _, complaint = agentbox(tmp_path, "new-adapter", slot, "external-thing")
    assert code == 1
    assert "is there already" in complaint
