"""How measured service levels look: a table, and a sentence for each level that does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentbox.cli import _output
from agentbox_contracts.suites.slo import Measured, duration

__all__ = ["show"]

HEADINGS = ("level", "offered/s", "done/s", "p50", "p95", "p99", "floor", "errors", "better", "verdict")
LEFT = frozenset({"level", "verdict"})
WIDE_ONLY = frozenset({"p50", "p99"})
WIDE = 100

Row = dict[str, str]


def show(found: Mapping[str, Sequence[Measured]], *, json: bool = False) -> None:
    """Print the measured levels of each slot: for people a table, and a sentence for each that does not hold."""
    levels = [measured for several in found.values() for measured in several]
    if json:
        slots = {slot: [_plain(measured) for measured in several] for slot, several in found.items()}
        _output.print_json({"holds": all(measured.holds for measured in levels), "slots": slots})
        return
    for slot, several in found.items():
        _output.print_line(f"{slot} by {several[0].impl}, {several[0].seconds:g} s of load for each level", "dim")
    _print_table(levels)
    for measured in levels:
        if measured.problem:
            _output.print_line(measured.problem, "red")
    fails = sum(not measured.holds for measured in levels)
    summary = f"{fails} of {len(levels)} levels do not hold" if fails else "every level holds"
    _output.print_line(summary, "bold red" if fails else "bold green")


def _plain(measured: Measured) -> dict[str, object]:
    derived = {name: getattr(measured, name) for name in ("error_rate", "times_better", "holds")}
    return attrs.asdict(measured) | derived


def _row(measured: Measured) -> Row:
    better = measured.times_better
    return {
        "level": measured.level.id,
        "offered/s": f"{measured.offered_per_second:g}",
        "done/s": f"{measured.done_per_second:.1f}",
        "p50": duration(measured.p50_seconds),
        "p95": duration(measured.p95_seconds),
        "p99": duration(measured.p99_seconds),
        "floor": duration(measured.level.p95_seconds),
        "errors": f"{100 * measured.error_rate:.2g} %",
        "better": f"{better:.0f}x" if better >= 10 else f"{better:.2g}x",
        "verdict": "holds" if measured.holds else "fails",
    }


def _print_table(levels: Sequence[Measured]) -> None:
    rows = [_row(measured) for measured in levels]
    if _output.is_terminal():
        _print_rich(levels, rows)
        return
    widths = {name: 0 if name in LEFT else max(len(name), *(len(row[name]) for row in rows)) for name in HEADINGS}
    cells = [[row[name].rjust(widths[name]) for name in HEADINGS] for row in rows]
    _output.print_table([name.upper().rjust(widths[name]) for name in HEADINGS], cells)


def _print_rich(levels: Sequence[Measured], rows: Sequence[Row]) -> None:
    console = Console(highlight=False)
    names = [name for name in HEADINGS if console.width >= WIDE or name not in WIDE_ONLY]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for measured, row in zip(levels, rows, strict=True):
        table.add_row(*(_cell(name, row[name], measured) for name in names))
    console.print(table)


def _cell(name: str, text: str, measured: Measured) -> Text:
    level = measured.level
    match name:
        case "verdict":
            return Text(f"✔ {text}", "green") if measured.holds else Text(f"✖ {text}", "bold red")
        case "p95":
            return Text(text, "bold green" if measured.p95_seconds <= level.p95_seconds else "bold red")
        case "better":
            return Text(text, "green" if measured.times_better >= 1 else "red")
        case "errors":
            return Text(text, "red" if measured.error_rate > level.error_rate else "dim")
        case _:
            return Text(text, "dim" if name in ("offered/s", "floor") else "")
