"""The documentation is true: links lead somewhere, commands exist, every error is listed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.errors import error_classes
from agentbox_contracts.vocabulary import VOCABULARY

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?agentbox((?: [a-z][a-z-]*)+)", re.M)
TARGET = re.compile(r"^(?:\$ )?make ([a-z-]+)", re.M)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shell(page: Path) -> str:
    blocks = FENCE.findall(page.read_text("utf-8"))
    return "\n".join(text for language, text in blocks if language in ("console", "sh", "bash", "shell"))


@cache
def subcommands(*command: str) -> frozenset[str]:
    """What `agentbox … --help` offers, empty for a command that has no commands of its own."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    call = [sys.executable, "-c", "from agentbox.cli import main; raise SystemExit(main())", *command, "--help"]
    done = subprocess.run(call, capture_output=True, text=True, env=environment, check=True)
    listed = re.search(r"\{([a-z,-]+)\}", done.stdout)
    rows = re.findall(r"^ {2,4}([a-z][a-z-]*)(?: {2,}|$)", done.stdout, re.M)
    return frozenset([*(listed[1].split(",") if listed else []), *rows])


def commands(page: Path) -> Iterator[list[str]]:
    for found in COMMAND.findall(shell(page)):
        yield found.split()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert not [link for link in links if link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    for command in commands(page):
        assert command[0] in subcommands(), f"{name(page)}: agentbox {command[0]}"
        if len(command) > 1 and (known := subcommands(command[0])) and command[0] in ("beads", "agents"):
            assert command[1] in known, f"{name(page)}: agentbox {' '.join(command[:2])}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_make_targets_exist(page: Path) -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(TARGET.findall(shell(page))) <= known


def test_the_quickstart_names_commands() -> None:
    assert ["beads", "ready"] in list(commands(ROOT / "docs" / "quickstart.md"))


@cache
def generate() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vocabulary_page_is_made_from_the_classes() -> None:
    page = (ROOT / "docs" / "events-vocabulary.md").read_text("utf-8")
    assert page == generate().vocabulary_page(page), "run make docs"
    assert all(f"`{type}`" in page for type in VOCABULARY)


def test_the_errors_page_is_made_from_the_tree() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert page == generate().errors_page(page), "run make docs"
    assert all(f"`{error.__name__}`" in page for error in error_classes())


def test_the_ports_page_is_made_from_the_docstrings() -> None:
    page = (ROOT / "docs" / "ports.md").read_text("utf-8")
    assert page == generate().ports_page(), "run make docs"
    assert all(f"### {slot}.{method}\n" in page for slot in SLOTS for method in contract_of(slot).methods)


def test_every_slot_table_names_adapters_that_exist() -> None:
    from agentbox.plugins import adapter_names

    text = (ROOT / "README.md").read_text("utf-8")
    for slot in SLOTS:
        row = re.search(rf"^\| `{slot}` \|[^|]*\|([^|]*)\|", text, re.M)
        assert row is not None
        assert sorted(re.findall(r"`([^`]+)`", row[1])) == adapter_names(slot)
