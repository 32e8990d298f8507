"""How events look on a terminal and in a pipe."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec

from agentbox.cli import _output
from agentbox_contracts import wire
from agentbox_contracts.events import Event, Verdict

__all__ = ["print_event", "print_stats", "print_verdict"]

WIDEST = 160
"""So much of an event's data is shown on a screen. A pipe gets all of it."""


def print_event(event: Event, *, as_json: bool, flush: bool = False) -> None:
    """One line: the event in full for machines; seq, time, type, subject and data for people."""
    if as_json:
        sys.stdout.write(wire.encode(event).decode() + "\n")
    elif _output.is_terminal():
        _print_coloured(event)
    else:
        sys.stdout.write("  ".join(_cells(event, widest=None)).rstrip() + "\n")
    if flush:
        sys.stdout.flush()


def print_stats(counts: Counter[str], first: Event | None, last: Event | None, *, as_json: bool) -> None:
    """How many events of each type, the most frequent first."""
    types = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    total = sum(counts.values())
    if as_json:
        seqs = {"first_seq": first and first.seq, "last_seq": last and last.seq}
        times = {"first_time": first and first.time, "last_time": last and last.time}
        _output.print_json({"events": total, **seqs, **times, "types": dict(types)})
        return
    _output.print_table(["EVENTS", "TYPE"], [[f"{number:,}", name] for name, number in types])
    if first is not None and last is not None:
        span = f"{_output.instant(first.time)} to {_output.instant(last.time)}"
        _output.print_line(f"{total:,} events, seq {first.seq} to {last.seq}, {span}", "dim")


def print_verdict(verdict: Verdict, *, as_json: bool) -> int:
    """Whether the chain holds, and the exit code that says so."""
    if as_json:
        _output.print_json(verdict)
    elif verdict.ok and not verdict.verified:
        _output.print_line("ok: the log is empty")
    elif verdict.ok:
        seqs = f"seq {verdict.first_seq} to {verdict.last_seq}"
        _output.print_line(f"ok: {verdict.verified:,} events, {seqs}, every link holds", "green")
    else:
        good = f"seq {verdict.first_seq} to {verdict.last_seq} is good" if verdict.verified else "nothing is good"
        _output.print_line(f"broken: {verdict.place}: {verdict.reason}; {good}", "bold red")
    return 0 if verdict.ok else 1


def _cells(event: Event, *, widest: int | None) -> tuple[str, ...]:
    data = "" if event.data is None else msgspec.json.encode(event.data).decode()
    if widest is not None and len(data) > widest:
        data = f"{data[:widest]}…"
    texts = (str(event.seq or "-"), _output.instant(event.time), event.type, event.subject or event.source, data)
    return tuple(map(_output.one_line, texts))


def _print_coloured(event: Event) -> None:
    from rich.text import Text

    styles = ("dim", "dim", "bold cyan", "", "dim")
    line = Text("  ").join(Text(cell, style) for cell, style in zip(_cells(event, widest=WIDEST), styles, strict=True))
    _output.console().print(line)
