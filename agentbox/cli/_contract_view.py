"""How reports of `agentbox contract` look: in a terminal, in a pipe, as JSON and as JUnit XML."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from xml.etree import ElementTree

import attrs

from agentbox.cli import _output
from agentbox.grading import ClauseResult, Pair, Proof, Report

__all__ = ["as_json", "junit", "print_proof", "print_report", "progress"]

MARKS = {
    "passed": ("✔", "green"),
    "failed": ("✖", "bold red"),
    "error": ("✖", "bold red"),
    "missing": ("✖", "bold red"),
    "exempt": ("-", "yellow"),
    "undeclared": ("-", "dim"),
}


PAIR_MARKS = {"caught": ("✔", "green"), "missed": ("✖", "bold red"), "left out": ("-", "dim")}


@contextmanager
def progress(slot: str, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line that counts verdicts while they fall, where somebody watches; it leaves no trace."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    seen: dict[str, None] = {}
    with Console(stderr=True).status(f"{slot}: starting") as status:

        def told(line: dict[str, Any]) -> None:
            if "clause" in line:
                seen[line["known_bad"] or line["clause"]] = None
                status.update(f"{slot}: {len(seen)} · {line['clause']}")

        yield told


def print_report(report: Report) -> None:
    """The report for people."""
    rows = Rows()
    rows.add((f"{report.slot} · {report.impl}", "bold"))
    rows.add((_facts(report), "dim"))
    for topic, group in groupby(report.clauses, key=lambda result: result.id.rpartition(".")[0]):
        rows.add()
        rows.add((topic, "bold"))
        for result in group:
            _add_clause(rows, result)
    rows.add()
    rows.add(_counted(report))
    rows.add((f"{report.adapter} is {report.grade}", "bold red" if report.broken else "bold green"))
    rows.print()


def print_proof(proof: Proof) -> None:
    """The proof for people: what each known-bad adapter does wrong, and whether its clause noticed."""
    rows = Rows()
    rows.add((f"{proof.slot} · known-bad adapters on top of {proof.impl}", "bold"))
    for clause, group in groupby(sorted(proof.pairs, key=lambda pair: pair.clause), key=lambda pair: pair.clause):
        rows.add()
        rows.add((clause, "bold"))
        for pair in group:
            _add_pair(rows, pair)
    rows.add()
    for clause in proof.idle:
        rows.add((f"✖ {clause} catches nothing: no known-bad adapter names it", "bold red"))
    count = Counter(pair.verdict for pair in proof.pairs)
    text = f"{proof.slot}: {count['caught']} of {len(proof.pairs) - count['left out']} known-bad adapters caught"
    if count["left out"]:
        text += f", {count['left out']} left out because {proof.impl} does not declare what they spoil"
    text += f"; {len(proof.clauses)} clauses, {proof.seconds} s"
    rows.add((text, "bold green" if proof.holds else "bold red"))
    rows.print()


def as_json(report: Report) -> dict[str, Any]:
    """The report for machines."""
    return {"grade": report.grade, "without": list(report.without), **attrs.asdict(report)}


def junit(reports: Sequence[Report]) -> str:
    """The reports as JUnit XML, a test case for each clause."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{report.slot}.{report.impl}",
            tests=str(len(report.clauses)),
            failures=str(len(report.broken)),
            skipped=str(sum(result.verdict in ("exempt", "undeclared") for result in report.clauses)),
            time=str(report.seconds),
        )
        for result in report.clauses:
            _add_case(suite, report, result)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


class Rows:
    """Lines of parts, each a text or a text with a style, which only a terminal shows."""

    def __init__(self) -> None:
        self._lines: list[list[tuple[str, str]]] = []

    def add(self, *parts: str | tuple[str, str]) -> None:
        """One line."""
        pairs = (part if isinstance(part, tuple) else (part, "") for part in parts)
        self._lines.append([(_output.one_line(text), style) for text, style in pairs])

    def print(self) -> None:
        """All of them, in one go."""
        if not _output.is_terminal():
            sys.stdout.write("".join("".join(text for text, _ in line) + "\n" for line in self._lines))
            return
        from rich.text import Text

        screen = _output.console()
        for line in self._lines:
            screen.print(Text.assemble(*line))


def _add_clause(rows: Rows, result: ClauseResult) -> None:
    mark, style = MARKS[result.verdict]
    name = result.id.rpartition(".")[2]
    text = style if result.verdict != "passed" else ""
    rows.add("  ", (mark, style), (f" {name:<24}", text), (f"{result.seconds:7.2f} s  ", "dim"), (result.promise, text))
    if result.reason and result.verdict != "undeclared":
        rows.add((f"      {result.reason}", style))


def _add_pair(rows: Rows, pair: Pair) -> None:
    mark, style = PAIR_MARKS[pair.verdict]
    rows.add("  ", (mark, style), f" {pair.known_bad:<30}", (f"{pair.seconds:6.2f} s  ", "dim"), pair.fault)
    if pair.verdict == "missed":
        rows.add((f"      not caught: {pair.reason}", "red"))


def _facts(report: Report) -> str:
    versions = " · ".join(f"{name} {version}" for name, version in report.versions.items())
    capabilities = ", ".join(report.capabilities) or "none"
    own = f"contract {report.contract_version} · durability {report.durability} · capabilities {capabilities}"
    return f"{own} · {versions}"


def _counted(report: Report) -> str:
    total = len(report.clauses)
    passed = sum(result.verdict == "passed" for result in report.clauses)
    left_out = sum(result.verdict in ("exempt", "undeclared") for result in report.clauses)
    parts = [f"{passed} of {total} clauses kept"]
    undeclared = f", not declared: {', '.join(report.undeclared)}" if report.undeclared else ""
    parts += [f"{left_out} left out{undeclared}"] if left_out else []
    parts += [f"{len(report.broken)} broken"] if report.broken else []
    return ", ".join(parts) + f", in {report.seconds} s"


def _add_case(suite: ElementTree.Element, report: Report, result: ClauseResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"{report.slot}.{report.impl}", name=result.id, time=str(result.seconds)
    )
    reason = "".join(char if char.isprintable() else "?" for char in result.reason)
    if result.verdict in ("exempt", "undeclared"):
        ElementTree.SubElement(case, "skipped", message=reason)
    elif result.verdict != "passed":
        failure = ElementTree.SubElement(case, "failure", message=reason, type=result.verdict)
        failure.text = result.promise
