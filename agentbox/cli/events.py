"""`agentbox events`: what happened, and whether the log is as it was written."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import attrs

from agentbox import manifest as manifests
from agentbox.cli import _events_view as view
from agentbox.cli._failure import complain
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json, whole_number
from agentbox_contracts.events import Event, Events, Verdict

__all__ = ["configure", "run"]

PAGE = 1000
MOST = 9_223_372_036_854_775_807


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `events` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    tail = _action(actions, "tail", _tail, "the last events, and with -f those to come")
    tail.add_argument("-n", "--number", metavar="N", type=whole_number(0, 10_000), default=20, help="how many; 20")
    tail.add_argument("-f", "--follow", action="store_true", help="go on until interrupted")
    _add_types(tail)
    query = _action(actions, "query", _query, "events that fit, the oldest first")
    query.add_argument("--after", metavar="SEQ", type=whole_number(0, MOST), default=0, help="only behind this seq")
    query.add_argument("--limit", metavar="N", type=whole_number(1, MOST), default=MOST, help="at most so many")
    query.add_argument("--since", metavar="TIME", type=_moment, help="not before: 2026-11-18, 2026-11-18T09:30:00Z")
    query.add_argument("--until", metavar="TIME", type=_moment, help="before")
    for name in ("source", "subject", "session", "execution"):
        query.add_argument(f"--{name}", metavar=name[0].upper(), help=f"only of this {name}")
    _add_types(query)
    _action(actions, "stats", _stats, "how many events of each type, from when to when")
    verify = _action(actions, "verify", _verify, "check every link of the chain; exit code 1 when one is broken")
    verify.add_argument("folder", nargs="?", metavar="DIR", type=Path, help="a log's folder; default: the app's own")
    verify.add_argument("--expect-seq", metavar="N", type=whole_number(1, MOST), help="an event that must be there")
    verify.add_argument("--expect-hash", metavar="H", help="its hash, as its receipt has it")


def run(arguments: argparse.Namespace) -> int:
    """Do one action on the events slot alone."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    if getattr(arguments, "folder", None) is not None:
        return _verify_folder(arguments)
    async with opened_slot(manifests.load(arguments.manifest), "events") as adapter:
        code: int = await arguments.act(cast("Events", adapter), arguments)
        return code


def _action(actions: Any, name: str, act: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(act=act)
    add_json(parser)
    return parser


def _add_types(parser: argparse.ArgumentParser) -> None:
    text = "only of this type, or of all that begin so: agentbox.bead.*; may be given several times"
    parser.add_argument("--type", metavar="T", action="append", default=[], help=text)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date or time as in 2026-11-18T09:30:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


async def _tail(events: Events, arguments: argparse.Namespace) -> int:
    types = tuple(arguments.type)
    last = await _last(events, arguments.number, types)
    for event in last:
        view.print_event(event, as_json=arguments.json)
    if not arguments.follow:
        return 0
    after = last[-1].seq if last else await _end(events)
    following = cast("Any", events.subscribe(after=after, types=types))
    async with aclosing(following) as stream:
        async for event in stream:
            view.print_event(event, as_json=arguments.json, flush=True)
    return 0


async def _last(events: Events, number: int, types: tuple[str, ...]) -> list[Event]:
    """The last *number* events; a window at the end of the log grows until it holds enough of them."""
    end, width = await _end(events), max(number, 1)
    while True:
        after = max(0, end - width)
        found = [event async for event in _all(events, after, types)]
        if len(found) >= number or after == 0:
            return found[len(found) - min(number, len(found)) :]
        width *= 8


async def _end(events: Events) -> int:
    """The last seq: doubled until there is nothing behind, then halved down to it."""
    low, high = 0, 1
    while await events.read(after=high - 1, limit=1):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if await events.read(after=middle - 1, limit=1):
            low = middle
        else:
            high = middle
    return low


async def _all(events: Events, after: int, types: tuple[str, ...]) -> AsyncIterator[Event]:
    while page := await events.read(after=after, limit=PAGE, types=types):
        for event in page:
            yield event
        after = page[-1].seq or after + len(page)


async def _query(events: Events, arguments: argparse.Namespace) -> int:
    count = 0
    async for event in _all(events, arguments.after, tuple(arguments.type)):
        if count == arguments.limit:
            break
        if _fits(event, arguments):
            view.print_event(event, as_json=arguments.json)
            count += 1
    return 0


def _fits(event: Event, arguments: argparse.Namespace) -> bool:
    wanted = (
        (arguments.source, event.source),
        (arguments.subject, event.subject),
        (arguments.session, event.session_id),
        (arguments.execution, event.execution_id),
    )
    if any(want is not None and want != found for want, found in wanted):
        return False
    time = event.time or datetime.min.replace(tzinfo=UTC)
    return not (arguments.since and time < arguments.since) and not (arguments.until and time >= arguments.until)


async def _stats(events: Events, arguments: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    first: Event | None = None
    last: Event | None = None
    async for event in _all(events, 0, ()):
        counts[event.type] += 1
        first, last = first or event, event
    view.print_stats(counts, first, last, as_json=arguments.json)
    return 0


async def _verify(events: Events, arguments: argparse.Namespace) -> int:
    if arguments.expect_hash is not None and arguments.expect_seq is None:
        complain("--expect-hash goes with --expect-seq; give both, as the receipt has them")
        return 2
    verdict = await events.verify()
    if verdict.ok and arguments.expect_seq is not None:
        verdict = await _compared(events, verdict, arguments.expect_seq, arguments.expect_hash)
    return view.print_verdict(verdict, as_json=arguments.json)


async def _compared(events: Events, verdict: Verdict, seq: int, hash: str | None) -> Verdict:
    """*verdict* when the event that a receipt is for is there, as the receipt has it; else what is wrong."""
    found = await events.read(after=seq - 1, limit=1)
    broken = attrs.evolve(verdict, ok=False, place=f"seq {seq}")
    if not found:
        return attrs.evolve(broken, reason=f"ends with seq {verdict.last_seq or 0}, and a receipt is for {seq}")
    if found[0].seq != seq:
        return attrs.evolve(broken, reason=f"begins with seq {found[0].seq}, and a receipt is for {seq}")
    if hash is None or found[0].hash == hash:
        return verdict
    reason, good = f"seq {seq} has another hash than the receipt", seq - (verdict.first_seq or seq)
    return attrs.evolve(broken, verified=good, last_seq=seq - 1, reason=reason)


def _verify_folder(arguments: argparse.Namespace) -> int:
    """A folder that no manifest names: a copy, or a log from another machine."""
    from agentbox.adapters.events._segments import names
    from agentbox.adapters.events._verify import verified

    if not arguments.folder.is_dir():
        complain(f"{arguments.folder} is no folder")
        return 2
    if not any((arguments.folder / name).exists() for name in ("head", "VERSION")) and not names(arguments.folder):
        complain(f"{arguments.folder} holds no log of events")
        return 2
    if arguments.expect_hash is not None and arguments.expect_seq is None:
        complain("--expect-hash goes with --expect-seq; give both, as the receipt has them")
        return 2
    verdict = verified(arguments.folder, seq=arguments.expect_seq, hash=arguments.expect_hash)
    return view.print_verdict(verdict, as_json=arguments.json)
