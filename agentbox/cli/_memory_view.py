"""How memory looks on the command line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentbox.cli import _output
from agentbox.cli._output import instant, one_line
from agentbox_contracts.memory import Explanation, Match, Record

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["print_matches", "print_record", "print_stats", "shown_progress"]

BAR, SHORT_BAR, NARROW = 20, 10, 80
EIGHTHS = " ▏▎▍▌▋▊▉"
INDENT = 8
SHOWN = 400
LEAST = 0.0005
LONGEST_NAME, SHORTEST_NAME, OTHER_COLUMNS, PENDING_COLUMN = 32, 12, 52, 16
ADVICE = "compares spelling, not meaning; 'agentbox embedder install minilm' brings one that compares meaning"


def print_matches(matches: Sequence[Match], query: str) -> None:
    """Each match with its score, the best first: a bar and the text in a terminal, a line in a pipe."""
    if not _output.is_terminal():
        _print_plain(matches)
        return
    for match in matches:
        _print_match(match, query)
    from rich.text import Text

    explained = [match.explanation for match in matches if match.explanation is not None]
    blind = {each.embedder for each in explained if each.embedder and not each.semantic and ":" not in each.embedder}
    for name in sorted(blind):
        _print_below(Text(f"{name} {ADVICE}", "dim yellow"), indent=0)


def print_record(record: Record) -> None:
    """Every field that says something, then the value."""
    for name in ("key", "namespace", "source", "session_id", "bead_id", "duplicate_of"):
        _print_field(name, getattr(record, name))
    for name in ("created_at", "updated_at", "expires_at"):
        _print_field(name, instant(getattr(record, name)))
    _print_field("metadata", _json(record.metadata) if record.metadata else "")
    _print_field("value", one_line(_told(record.value)) if not _output.is_terminal() else "")
    if _output.is_terminal():
        from rich.text import Text

        lines = [one_line(line) for line in _told(record.value).splitlines()]
        _output.console().print(Text("\n".join(["", *lines])))


def print_stats(found: Sequence[Any]) -> None:
    """A line for each namespace; in a terminal long names are cut, and nothing is said of what is not pending."""
    is_pending = any(each.pending_embedder for each in found)
    room = _output.console().width - OTHER_COLUMNS - (PENDING_COLUMN if is_pending else 0)
    told = [
        {
            "NAMESPACE": _cut(each.namespace, room) if _output.is_terminal() else each.namespace,
            "RECORDS": f"{each.records:,}",
            "VECTORS": f"{each.vectors:,}",
            "EMBEDDER": each.embedder or "",
            "PENDING": _pending(each) if each.pending_embedder else "",
            "SIZE": _size(each.bytes),
        }
        for each in found
    ]
    headings = ["NAMESPACE", "RECORDS", "VECTORS", "EMBEDDER", "PENDING", "SIZE"]
    if _output.is_terminal() and not is_pending:
        headings.remove("PENDING")
    _output.print_table(headings, [[row[name] for name in headings] for row in told])


async def shown_progress(steps: AsyncIterator[Any]) -> Any:
    """The last of *steps*; a bar in a terminal shows how far it is meanwhile."""
    last: Any = None
    with _bar_of_records() as show:
        async for step in steps:
            show(step)
            last = step
    return last


@contextmanager
def _bar_of_records() -> Iterator[Callable[[Any], None]]:
    if not _output.is_terminal():
        yield lambda step: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_output.console(), transient=True, expand=True) as bar:
        task = bar.add_task("embedding", total=None)

        def show(step: Any) -> None:
            names = (name.partition(":")[0] for name in (step.before, step.after))
            bar.update(task, completed=step.done, total=step.total, description=" → ".join(names))

        yield show


def _print_plain(matches: Sequence[Match]) -> None:
    headings = ["SCORE", "KEY", "VALUE"]
    rows = [[f"{match.score:.4f}", match.record.key, _snippet(match)] for match in matches]
    if any(match.explanation for match in matches):
        headings[2:2] = ["WHY"]
        for row, match in zip(rows, matches, strict=True):
            row[2:2] = [_why(match.explanation) if match.explanation else ""]
    _output.print_table(headings, rows)


def _print_match(match: Match, query: str) -> None:
    from rich.text import Text

    screen = _output.console()
    style = _style(match.score)
    bar = _bar(match.score, BAR if screen.width >= NARROW else SHORT_BAR)
    key = (one_line(match.record.key), "bold")
    line = Text.assemble((f"{match.score:6.3f}  ", f"bold {style}"), (bar, style), "  ", key)
    extras = Text(_extras(match), "dim")
    fits = line.cell_len + 2 + extras.cell_len <= screen.width
    screen.print(Text.assemble(line, "  ", extras) if fits and extras else line)
    if not fits:
        _print_below(extras)
    _print_below(_marked(_snippet(match), query))
    if match.explanation is not None:
        _print_below(Text(f"why: {_why(match.explanation)}", "cyan"))


def _print_below(text: Text, *, indent: int = INDENT) -> None:
    """*text*, indented, broken between words."""
    from rich.padding import Padding

    _output.console().print(Padding(text, (0, 0, 0, indent), expand=False), soft_wrap=False)


def _bar(score: float, width: int) -> str:
    """*score*, from 0 to 1, as a bar of eighths of a character."""
    eighths = round(max(0.0, min(1.0, score)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return f"{'█' * whole}{EIGHTHS[rest] if rest else ''}".ljust(width, "·")


def _style(score: float) -> str:
    return "green" if score >= 0.75 else "yellow" if score >= 0.4 else "dim"


def _extras(match: Match) -> str:
    parts = [
        f"{name}={value if isinstance(value, str) else _json(value)}" for name, value in match.record.metadata.items()
    ]
    if match.duplicates:
        parts.append(f"also {', '.join(match.duplicates)}")
    return one_line("  ".join(parts))


def _snippet(match: Match) -> str:
    """What of the record to show: the passage that matched where it is known, else the beginning of the value."""
    found = match.explanation.passage if match.explanation else None
    text = " ".join((found or _told(match.record.value)).split())
    return one_line(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def _marked(text: str, query: str) -> Text:
    """*text* with the words of the query in bold."""
    from rich.text import Text

    shown = Text(text)
    words = sorted({word for word in re.findall(r"\w+", query) if len(word) > 1}, key=len, reverse=True)
    if words:
        shown.highlight_regex(re.compile(rf"(?i)\b(?:{'|'.join(map(re.escape, words))})\b"), "bold")
    return shown


def _why(found: Explanation) -> str:
    parts = []
    if found.vector_rank is not None:
        parts.append(f"{_ordinal(found.vector_rank)} by vector ({found.vector_score or 0:.3f})")
    if found.text_rank is not None:
        # A word that half of the texts have or more weighs next to nothing.
        told = f"{found.text_score:.3f}" if (found.text_score or 0) >= LEAST else "common words only"
        parts.append(f"{_ordinal(found.text_rank)} by text ({told})")
    if found.embedder is not None:
        kind = "" if ":" in found.embedder else ", by meaning" if found.semantic else ", by spelling only"
        parts.append(f"{found.embedder}{kind}, {found.plan} search")
    return "; ".join(parts)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _told(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pending(stats: Any) -> str:
    """How far the other embedder is; in a terminal without what stands behind its name."""
    name = stats.pending_embedder
    return f"{stats.pending:,} of {name.partition(':')[0] if _output.is_terminal() else name}"


def _cut(name: str, room: int) -> str:
    """A name that leaves room for others, its middle left out where it is long."""
    from rich.cells import cell_len, set_cell_size

    most = max(SHORTEST_NAME, min(LONGEST_NAME, room))
    if cell_len(name) <= most:
        return name
    half = most // 2
    end = set_cell_size(name[::-1], most - half - 1).rstrip()[::-1]
    return f"{set_cell_size(name, half).rstrip()}…{end}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _print_field(name: str, value: Any) -> None:
    if not value:
        return
    text = one_line(str(value))
    if not _output.is_terminal():
        sys.stdout.write(f"{name}: {text}\n")
        return
    from rich.text import Text

    _output.console().print(Text.assemble((f"{name:>16}  ", "bold cyan"), text))
