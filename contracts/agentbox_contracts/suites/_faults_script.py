"""What harm there is, when it is done, and both as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, cast

import attrs

__all__ = [
    "After",
    "BadScript",
    "Direction",
    "Harm",
    "cut",
    "delay",
    "half_close",
    "hang",
    "nonsense",
    "parse",
    "refuse",
    "reset",
    "throttle",
    "truncate",
]

Direction = Literal["up", "down"]
Kind = Literal["cut", "reset", "half-close", "hang", "refuse", "delay", "throttle", "nonsense"]

STEP = re.compile(r"(?:connection +(\d+) +)?(\S+) +after +(\S+) *: *(\S+)(?: +(.*))?")
FORM = "[connection <number>] up|down after <bytes>: <harm>, for example 'down after 100: reset'"
ARGUMENTS = {"delay": "<seconds> [once]", "throttle": "<bytes per second>", "nonsense": "<bytes>"}


class BadScript(ValueError):
    """A script that cannot be followed; the message says which line, what is wrong and what would be right."""


@attrs.frozen
class Harm:
    """One way to do harm. Its text is the harm as a script's line has it."""

    kind: Kind
    seconds: float = 0.0
    once: bool = False
    bytes_per_second: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        if self.kind == "delay":
            return f"delay {self.seconds:g}{' once' if self.once else ''}"
        if self.kind == "nonsense":
            return f"nonsense {self.bytes}"
        return f"throttle {self.bytes_per_second}" if self.kind == "throttle" else self.kind


@attrs.frozen(kw_only=True)
class After:
    """
    Do harm once exactly *bytes* have passed in *direction*: `up` to the target, `down` to the client.

    0 is as soon as the connection is there. Cut, reset and refuse meet everything; the others meet the direction, and
    nonsense ends in a cut.
    Every connection to come suffers it, or only the one with the number *connection*, the first being 1.
    """

    bytes: int = 0
    direction: Direction = "down"
    do: Harm
    connection: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.direction not in ("up", "down"):
            raise BadScript(f"there is no direction {self.direction!r}; known: down, up")
        if self.bytes < 0:
            raise BadScript(f"{self.bytes} bytes can never have passed")

    def __str__(self) -> str:
        which = "" if self.connection is None else f"connection {self.connection} "
        return f"{which}{self.direction} after {self.bytes}: {self.do}"


def cut() -> Harm:
    """Close both sides, after what has passed was delivered."""
    return Harm("cut")


def reset() -> Harm:
    """Reset both sides, so that their next read or write fails."""
    return Harm("reset")


def half_close() -> Harm:
    """End one direction; the other lives on, and what still comes for the ended one is dropped."""
    return Harm("half-close")


def hang() -> Harm:
    """Pass nothing on any more and close nothing."""
    return Harm("hang")


def refuse() -> Harm:
    """Listen no more: new connections are refused, those that are open live on."""
    return Harm("refuse")


def delay(seconds: float, *, once: bool = False) -> Harm:
    """Hold every chunk back for *seconds*, or only the next one."""
    if seconds < 0:
        raise BadScript(f"a delay of {seconds:g} seconds is over before it begins")
    return Harm("delay", seconds=seconds, once=once)


def throttle(bytes_per_second: int) -> Harm:
    """Pass on no more than *bytes_per_second*."""
    if bytes_per_second < 1:
        raise BadScript("throttle needs at least one byte a second; to pass on nothing, hang")
    return Harm("throttle", bytes_per_second=bytes_per_second)


def nonsense(bytes: int) -> Harm:
    """Say *bytes* of nonsense in place of what was to come, then cut."""
    if bytes < 1:
        raise BadScript("nonsense needs at least one byte; to say nothing, cut")
    return Harm("nonsense", bytes=bytes)


def truncate(bytes: int, direction: Direction = "down", *, connection: int | None = None) -> After:
    """A step that passes the first *bytes* of *direction*, then cuts."""
    return After(bytes=bytes, direction=direction, do=cut(), connection=connection)


def parse(script: str | Iterable[After]) -> tuple[After, ...]:
    """
    The steps of a script, given as text or as steps. Empty lines and what follows a `#` say nothing.

    Raises BadScript for a line that is no step.
    """
    if not isinstance(script, str):
        return tuple(script)
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(script.splitlines(), start=1))
    return tuple(_step(number, line) for number, line in lines if line)


def _step(number: int, line: str) -> After:
    match = STEP.fullmatch(line)
    try:
        if match is None:
            raise BadScript(f"a step is {FORM}")
        connection, direction, count, kind, argument = match.groups()
        return After(
            bytes=int(_number(count, "a number of bytes")),
            direction=cast("Direction", direction),
            do=_harm(kind, (argument or "").split()),
            connection=int(connection) if connection else None,
        )
    except BadScript as error:
        raise BadScript(f"line {number}: {line!r}: {error}") from None


def _harm(kind: str, arguments: list[str]) -> Harm:
    known = {harm.__name__.replace("_", "-"): harm for harm in (cut, reset, half_close, hang, refuse)}
    if kind in known and not arguments:
        return known[kind]()
    if kind == "delay" and (len(arguments) == 1 or arguments[1:] == ["once"]):
        return delay(_number(arguments[0], "seconds", float), once=len(arguments) == 2)
    if kind == "throttle" and len(arguments) == 1:
        return throttle(int(_number(arguments[0], "bytes per second")))
    if kind == "nonsense" and len(arguments) == 1:
        return nonsense(int(_number(arguments[0], "a number of bytes")))
    if kind in known or kind in ARGUMENTS:
        raise BadScript(f"it is '{kind} {ARGUMENTS[kind]}'" if kind in ARGUMENTS else f"{kind} takes nothing more")
    raise BadScript(f"there is no harm called {kind!r}; known: {', '.join(sorted({*known, *ARGUMENTS}))}")


def _number(text: str, what: str, kind: type[int] | type[float] = int) -> float:
    try:
        return kind(text)
    except ValueError:
        raise BadScript(f"{text!r} is not {what}") from None
