"""`agentbox memory`: remember, search and forget, by hand and from scripts."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from agentbox import manifest as manifests
from agentbox.cli import _memory_view as view
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._opening import opened_slot
from agentbox.cli._parser import add_json, whole_number
from agentbox.dispatch import Dispatched
from agentbox_contracts.errors import AdapterDisabled, InvalidInput
from agentbox_contracts.memory import Memory

__all__ = ["configure", "run"]

Action = Callable[[Memory, argparse.Namespace], Awaitable[int]]

STDIN = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `memory` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _configure_writes(actions)
    _configure_reads(actions)


def run(arguments: argparse.Namespace) -> int:
    """Do one action on the memory slot alone."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened_slot(manifests.load(arguments.manifest), "memory") as adapter:
        act: Action = arguments.act
        return await act(cast("Memory", adapter), arguments)


def _configure_writes(actions: Any) -> None:
    told = "remember a text, from the argument, a file or standard input"
    store = _action(actions, "store", _store, told, late="text")
    store.add_argument("key", metavar="KEY")
    store.add_argument("text", metavar="TEXT", nargs="?", help="the text; '-' or none reads standard input")
    store.add_argument("--file", metavar="PATH", type=Path, help="read it from this file")
    store.add_argument("--as-json", action="store_true", help="it is JSON, remembered as the value that it stands for")
    store.add_argument("--meta", metavar="NAME=VALUE", action="append", default=[], help="metadata; VALUE may be JSON")
    store.add_argument("--ttl", metavar="SECONDS", type=float, help="forget it after so long")
    for name, text in (("source", "where it comes from"), ("session", "the session"), ("bead", "the bead")):
        store.add_argument(f"--{name}", metavar="S", help=text)
    _add_namespace(store)
    remove = _action(actions, "rm", _remove, "forget records for good")
    remove.add_argument("keys", metavar="KEY", nargs="+")
    _add_namespace(remove)
    reembed = _action(actions, "reembed", _reembed, "give a namespace another embedder, embedding all its texts anew")
    reembed.add_argument("namespace", metavar="NAMESPACE")
    reembed.add_argument("--to", metavar="EMBEDDER", required=True, help="'agentbox embedder list' shows them")


def _configure_reads(actions: Any) -> None:
    search = _action(actions, "search", _search, "the best matches for a query")
    search.add_argument("query", metavar="QUERY", help="'-' reads standard input")
    search.add_argument("--limit", metavar="N", type=whole_number(1, 1000), default=10)
    search.add_argument("--mode", choices=["hybrid", "vector", "text"], default="hybrid")
    search.add_argument("--filter", metavar="JSON", help="""of metadata, as '{"lang": "en", "year": {"gt": 2020}}'""")
    search.add_argument("--prefix", metavar="P", default="", help="only keys that begin so")
    search.add_argument("--min-score", metavar="S", type=float)
    search.add_argument("--explain", action="store_true", help="say why each one matches")
    _add_namespace(search)
    get = _action(actions, "get", _get, "one record in full")
    get.add_argument("key", metavar="KEY")
    _add_namespace(get)
    listing = _action(actions, "ls", _list, "the keys of a namespace, or with --namespaces the namespaces")
    listing.add_argument("--prefix", metavar="P", default="", help="only keys that begin so")
    listing.add_argument("--limit", metavar="N", type=whole_number(1, 1_000_000), default=1000)
    listing.add_argument("--namespaces", action="store_true", help="list namespaces instead of keys")
    _add_namespace(listing)
    _action(actions, "stats", _stats, "what each namespace holds, and which embedder it is bound to")


def _action(actions: Any, name: str, act: Action, text: str, **options: Any) -> argparse.ArgumentParser:
    described = f"{text[0].upper()}{text[1:]}."
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=described, **options)
    parser.set_defaults(act=act)
    add_json(parser)
    return parser


def _add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", metavar="N", default="default", help="default: default")


async def _store(memory: Memory, arguments: argparse.Namespace) -> int:
    record = await memory.store(
        arguments.key,
        await asyncio.to_thread(_value, arguments),
        namespace=arguments.namespace,
        metadata=dict(map(_member, arguments.meta)),
        ttl_seconds=arguments.ttl,
        source=arguments.source,
        session_id=arguments.session,
        bead_id=arguments.bead,
    )
    if arguments.json:
        _output.print_json(record)
    else:
        same = f"; {record.duplicate_of} has the same content" if record.duplicate_of else ""
        _output.print_line(f"stored {record.key} in {record.namespace}{same}")
    return 0


async def _remove(memory: Memory, arguments: argparse.Namespace) -> int:
    for key in arguments.keys:
        await memory.delete(key, namespace=arguments.namespace)
        if not arguments.json:
            _output.print_line(f"forgot {key} in {arguments.namespace}")
    if arguments.json:
        _output.print_json({"deleted": arguments.keys})
    return 0


async def _search(memory: Memory, arguments: argparse.Namespace) -> int:
    query = sys.stdin.read() if arguments.query == STDIN else arguments.query
    matches = await memory.search(
        query,
        namespace=arguments.namespace,
        limit=arguments.limit,
        filter=_json("--filter", arguments.filter) if arguments.filter is not None else None,
        prefix=arguments.prefix,
        mode=arguments.mode,
        min_score=arguments.min_score,
        explain=arguments.explain,
    )
    if arguments.json:
        _output.print_json(matches)
    elif matches or not _output.is_terminal():
        view.print_matches(matches, query)
    else:
        _output.print_line(f"nothing in {arguments.namespace} matches", "dim")
    return 0


async def _get(memory: Memory, arguments: argparse.Namespace) -> int:
    record = await memory.retrieve(arguments.key, namespace=arguments.namespace)
    if arguments.json:
        _output.print_json(record)
    else:
        view.print_record(record)
    return 0


async def _list(memory: Memory, arguments: argparse.Namespace) -> int:
    names: list[str] = []
    after: str | None = None
    while len(names) < arguments.limit:
        limit = min(1000, arguments.limit - len(names))
        if arguments.namespaces:
            page = await memory.list_namespaces(limit=limit, after=after)
        else:
            page = await memory.list_keys(
                namespace=arguments.namespace, prefix=arguments.prefix, limit=limit, after=after
            )
        names += page.items
        after = page.next
        if after is None:
            break
    if arguments.json:
        _output.print_json(names)
    for name in () if arguments.json else names:
        _output.print_line(name)
    if after is not None:
        complain(f"there are more than {arguments.limit}; --limit shows more of them")
    return 0


async def _stats(memory: Memory, arguments: argparse.Namespace) -> int:
    found = await _special(memory, "stats")()
    if arguments.json:
        _output.print_json(found)
    else:
        view.print_stats(found)
    return 0


async def _reembed(memory: Memory, arguments: argparse.Namespace) -> int:
    try:
        last = await view.shown_progress(_special(memory, "reembed")(arguments.namespace, arguments.to))
    except asyncio.CancelledError:
        complain(f"{arguments.namespace} is bound as before; begun again, it goes on where it was")
        raise
    if arguments.json:
        _output.print_json(last)
    elif last.before == last.after:
        _output.print_line(f"{arguments.namespace} is bound to {last.after} already")
    else:
        _output.print_line(f"{arguments.namespace} is now bound to {last.after}; texts embedded: {last.total:,}")
        _tell_next(memory, arguments.to)
    return 0


def _tell_next(memory: Memory, embedder: str) -> None:
    adapter: Any = cast("Dispatched", memory).adapter
    if adapter.config.embedder != embedder:
        table = f"[memory.{adapter.impl}]"
        _output.print_line(f'to search it by vector, set {table} embedder = "{embedder}" in the manifest', "dim yellow")


def _special(memory: Memory, name: str) -> Callable[..., Any]:
    """What an adapter may offer beyond its port. Raises AdapterDisabled when this one does not."""
    adapter = cast("Dispatched", memory).adapter
    found: Callable[..., Any] | None = getattr(adapter, name, None)
    if found is None:
        place = adapter.location or "another machine"
        raise AdapterDisabled(
            f"the memory adapter {adapter.impl!r} does not offer {name!r}: its store is behind {place};"
            f" run 'agentbox memory {name}' there"
        )
    return found


def _value(arguments: argparse.Namespace) -> Any:
    if arguments.file is not None and arguments.text is not None:
        raise InvalidInput("give the text as an argument or with --file, not both")
    if arguments.file is not None:
        text = arguments.file.read_bytes().decode("utf-8", "replace")
    elif arguments.text in (None, STDIN):
        text = sys.stdin.read()
    else:
        text = arguments.text
    return _json("the text", text) if arguments.as_json else text


def _member(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise InvalidInput(f"--meta {text!r}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
    except RecursionError as error:
        raise InvalidInput(f"--meta {name} is nested too deeply") from error


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{what} is nested too deeply") from error
