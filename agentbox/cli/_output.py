"""Output for people and for programs: colours in a terminal, plain stable lines in a pipe, JSON on request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "instant", "is_terminal", "one_line", "print_json", "print_line", "print_table"]

EMPTY = "-"


def is_terminal() -> bool:
    """Whether a person is likely to be reading."""
    return sys.stdout.isatty()


def console() -> Console:
    """A rich console on standard output, imported when it is first needed."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def one_line(text: str) -> str:
    """*text* with line breaks and control characters escaped: it can neither forge a line nor steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def print_line(text: str, style: str = "") -> None:
    """One line, in *style* where there are styles."""
    if style and is_terminal():
        console().print(one_line(text), style=style)
    else:
        sys.stdout.write(f"{one_line(text)}\n")


def print_json(value: Any) -> None:
    """*value*, which may be one of the contracts' own, as indented JSON."""
    import msgspec

    from agentbox_contracts import wire

    sys.stdout.write(msgspec.json.format(wire.encode(value), indent=2).decode() + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] = {}) -> None:
    """A line for each of *rows* under *headings*; *styles* colours cells by their text."""
    cells = [[one_line(cell) or EMPTY for cell in row] for row in rows]
    widths = [*[max(map(len, column)) for column in zip(headings, *cells, strict=True)][:-1], 0]
    if is_terminal():
        _print_rich(headings, cells, widths, styles)
        return
    for row in (headings, *cells):
        sys.stdout.write("  ".join(map(str.ljust, row, widths)).rstrip() + "\n")


def instant(moment: datetime | None) -> str:
    """A moment to the second, in UTC; empty for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def _print_rich(
    headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], styles: Mapping[str, str]
) -> None:
    # A rich Table would squeeze ids and paths to fit; the terminal wraps whole lines, and they can still be copied.
    from rich.text import Text

    screen = console()
    screen.print(Text("  ".join(map(str.ljust, headings, widths)).rstrip(), style="bold"))
    for row in rows:
        styled = (styles.get(cell, "dim" if cell == EMPTY else "") for cell in row)
        padded = map(str.ljust, row, widths)
        screen.print(Text("  ").join(Text(cell, style) for cell, style in zip(padded, styled, strict=True)))
