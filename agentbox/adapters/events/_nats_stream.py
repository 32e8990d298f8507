"""The streams in which events and cursors lie: how they must be, and their subjects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from agentbox.adapters.events._nats_link import Link, Refused
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.wire import encode

__all__ = ["chosen_subject", "cursor_stream", "ensured", "event_stream", "subject_of"]

NANOSECONDS = 1_000_000_000
NO_STREAM = 10059
NAME_IN_USE = 10058

# What reading, following and all-or-none rest on. Left alone are limits on age and size: they are retention.
_AS_IT_MUST_BE: dict[str, Any] = {
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "max_msgs_per_subject": -1,
    "allow_direct": True,
    "allow_atomic": True,
    "no_ack": False,
    "sealed": False,
}


def subject_of(prefix: str, event_type: str) -> str:
    """
    The subject of events of a type: its dotted words after the prefix, each with what NATS forbids percent-encoded.

    Two types never share a subject. A word that is empty is written `%`.
    """
    return f"{prefix}.{'.'.join(quote(word, safe='-_') or '%' for word in event_type.split('.'))}"


def chosen_subject(prefix: str, types: tuple[str, ...]) -> str | None:
    """A subject that has all events of *types* and not many others; None where only all will do."""
    if len(types) != 1:
        return None
    if types[0].endswith(".*"):
        return f"{subject_of(prefix, types[0][:-2])}.>"
    return subject_of(prefix, types[0])


def event_stream(
    name: str, prefix: str, *, replicas: int | None, max_age: float | None, dedupe: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the stream of events must be when it is there, and what else it is made with."""
    wanted = {"name": name, "subjects": [f"{prefix}.>"], **_AS_IT_MUST_BE}
    chosen = {
        "num_replicas": replicas,
        "max_age": None if max_age is None else round(max_age * NANOSECONDS),
        "duplicate_window": None if dedupe is None else round(dedupe * NANOSECONDS),
    }
    wanted |= {key: value for key, value in chosen.items() if value is not None}
    window = min(3600.0, max_age or 3600.0)
    return wanted, {"num_replicas": 1, "max_age": 0, "duplicate_window": round(window * NANOSECONDS), **wanted}


def cursor_stream(name: str, prefix: str, *, replicas: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for the stream of cursors, which keeps the last message of each name."""
    wanted = {
        "name": f"{name}_CURSORS",
        "subjects": [f"{prefix}-cursors.>"],
        "retention": "limits",
        "storage": "file",
        "max_msgs_per_subject": 1,
        "allow_direct": True,
    }
    return wanted, {"num_replicas": replicas, **wanted}


async def ensured(link: Link, wanted: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """
    The configuration of the stream, which is *made* when it is not there.

    Raises:
        AdapterUnavailable: It is there and not as *wanted*; every difference is named.
    """
    name = wanted["name"]
    try:
        answer = await _looked_at(link, name) or await _made(link, name, made)
    except Refused as error:
        raise AdapterUnavailable(f"{link.where}: the stream {name} cannot be had: {error}") from error
    config: dict[str, Any] = answer["config"]
    differences = [
        f"{key} is {config.get(key)!r} and should be {value!r}"
        for key, value in wanted.items()
        if config.get(key, False if value is False else None) != value
    ]
    differences += [f"it is a {kind} of others" for kind in ("mirror", "sources") if config.get(kind)]
    if differences:
        raise AdapterUnavailable(
            f"{link.where}: the stream {name} will not do: {'; '.join(differences)}; "
            "change it there, or name another stream in the manifest"
        )
    return config


async def _looked_at(link: Link, name: str) -> Any:
    try:
        return await link.ask(f"$JS.API.STREAM.INFO.{name}")
    except Refused as error:
        if error.code != NO_STREAM:
            raise
        return None


async def _made(link: Link, name: str, made: dict[str, Any]) -> Any:
    try:
        return await link.ask(f"$JS.API.STREAM.CREATE.{name}", encode(made))
    except Refused as error:
        if error.code != NAME_IN_USE:
            raise
        return await link.ask(f"$JS.API.STREAM.INFO.{name}")  # another process was faster
