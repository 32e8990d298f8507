"""`agentbox validate`: every problem of a manifest at once, with its place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import attrs

from agentbox import manifest as manifests
from agentbox import plugins
from agentbox.cli import _output
from agentbox.cli._broken import settings_problems
from agentbox.cli._parser import add_json
from agentbox.manifest import InvalidManifest, Manifest, Problem
from agentbox_contracts.errors import BootError

__all__ = ["configure", "problems_of", "run"]

STYLES = {"error": "bold red", "warning": "bold yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `validate`."""
    parser.add_argument("path", nargs="?", metavar="PATH", help="the manifest; else it is found as everywhere")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is wrong. 2 when any of it is an error."""
    path = manifests.discover(arguments.path or arguments.manifest)
    problems = problems_of(path)
    is_valid = all(problem.severity != "error" for problem in problems)
    if arguments.json:
        found = [attrs.asdict(problem) for problem in problems]
        _output.print_json({"path": str(path) if path else None, "valid": is_valid, "problems": found})
    else:
        for problem in problems:
            _print_problem(problem)
        _output.print_line(f"{_shown(path)}: {_summary(problems)}", "green" if is_valid else "red")
    return 0 if is_valid else 2


def problems_of(path: Path | None) -> list[Problem]:
    """Everything that is wrong with the manifest at *path*, settings of adapters that are not chosen included."""
    try:
        manifest = manifests.load(path)
    except InvalidManifest as invalid:
        found = [*invalid.problems, *settings_problems(path)]
    else:
        found = [*manifest.warnings, *_unloadable(manifest), *_bad_settings(manifest)]
    return sorted(dict.fromkeys(found), key=lambda problem: (problem.line or 0, problem.column or 0))


def _bad_settings(manifest: Manifest) -> Iterator[Problem]:
    chosen = {(slot, choice.impl) for slot, choice in manifest.adapters.items()}
    written = {(slot, impl) for slot, tables in manifest.tables.items() for impl in tables}
    for slot, impl in sorted(chosen | written):
        try:
            manifest.settings(slot, impl, plugins.adapter_class(slot, impl).settings_class)
        except InvalidManifest as invalid:
            yield from invalid.problems
        except BootError:
            continue  # what cannot be imported here cannot be checked here


def _unloadable(manifest: Manifest) -> Iterator[Problem]:
    """A warning for each chosen adapter that this installation cannot load: the manifest may be meant for another."""
    for slot, choice in manifest.adapters.items():
        try:
            plugins.adapter_class(slot, choice.impl)
        except BootError as error:
            path = _shown(manifest.path) if manifest.path else None
            yield Problem("W029", error.message, "the app does not open with it here", path, None, None, "warning")


def _print_problem(problem: Problem) -> None:
    if not _output.is_terminal():
        _output.print_line(str(problem))
        return
    from rich.text import Text

    place = ":".join(str(part) for part in (problem.path or "manifest", problem.line, problem.column) if part)
    text = Text.assemble(
        (_output.one_line(place), "bold"),
        ": ",
        (f"{problem.severity} {problem.code}", STYLES[problem.severity]),
        f" {_output.one_line(problem.message)}",
        (f"\n    {_output.one_line(problem.remedy)}" if problem.remedy else "", "cyan"),
    )
    _output.console().print(text)


def _summary(problems: list[Problem]) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    parts = [_counted(errors, "error"), _counted(len(problems) - errors, "warning")]
    return ", ".join(part for part in parts if part) or "ok"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}" if count else ""


def _shown(path: Path | None) -> str:
    if path is None:
        return "no agentbox.toml here or above, the standalone defaults apply"
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
