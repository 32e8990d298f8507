"""Output for people and for programs: colours in a terminal, plain stable lines in a pipe, JSON on request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "console",
    "instant",
    "is_terminal",
    "is_wider_than_the_terminal",
    "one_line",
    "print_field",
    "print_json",
    "print_line",
    "print_table",
]

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


def print_field(name: str, value: str) -> None:
    """One field of something that is shown in full."""
    if not is_terminal():
        sys.stdout.write(f"{name}: {value}\n")
        return
    from rich.text import Text

    console().print(Text.assemble((f"{name:>16}  ", "bold cyan"), value))


def print_json(value: Any) -> None:
    """*value*, which may be one of the contracts' own, as indented JSON."""
    import msgspec

    from agentbox_contracts import wire

    sys.stdout.write(msgspec.json.format(wire.encode(value), indent=2).decode() + "\n")


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, str] = {},
    *,
    below: Sequence[Sequence[str]] = (),
) -> None:
    """A line for each of *rows* under *headings*, then, in a terminal, those *below*; *styles* colours by the text."""
    cells = [[one_line(cell) or EMPTY for cell in row] for row in rows]
    widths = [*[max(map(_width, column)) for column in zip(headings, *cells, strict=True)][:-1], 0]
    if is_terminal():
        _print_rich(headings, cells, widths, styles, below)
        return
    for row in (headings, *cells):
        sys.stdout.write("  ".join(map(_filled, row, widths)).rstrip() + "\n")


def is_wider_than_the_terminal(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a person would see lines of a table of *rows* broken."""
    widths = [max(map(_width, column)) + 2 for column in zip(*rows, strict=True)]
    return is_terminal() and sum(widths) - 2 > console().width


def _width(text: str) -> int:
    """How many columns *text* takes: some scripts take two for a character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _filled(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def instant(moment: datetime | None) -> str:
    """A moment to the second, in UTC; empty for None."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def _print_rich(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    styles: Mapping[str, str],
    below: Sequence[Sequence[str]],
) -> None:
    # A rich Table would squeeze ids and paths to fit; the terminal wraps whole lines, and they can still be copied.
    from rich.text import Text

    screen = console()
    screen.print(Text("  ".join(map(_filled, headings, widths)).rstrip(), style="bold"))
    for index, row in enumerate(rows):
        styled = (styles.get(cell, "dim" if cell == EMPTY else "") for cell in row)
        padded = map(_filled, row, widths)
        screen.print(Text("  ").join(Text(cell, style) for cell, style in zip(padded, styled, strict=True)))
        for line in below[index] if below else ():
            screen.print(Text(" " * (widths[0] + 2) + one_line(line), "dim"), soft_wrap=False)
