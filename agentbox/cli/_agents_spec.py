"""What `agentbox agents spawn` is told: the options and the agent's spec that they make."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import get_args

import attrs

from agentbox_contracts.orchestrator import AgentSpec, LimitName, Limits, SandboxName

__all__ = ["configure", "pause", "seconds", "spec_of"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)")
SHORTEST_PAUSE = 0.05
UNITS = {
    "seconds": {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400},
    "bytes": {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30},
    "": {"": 1},
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The options that say what to start."""
    parser.usage = "%(prog)s [options] [--] COMMAND [ARG …]"
    parser.add_argument("words", metavar="COMMAND [ARG …]", nargs=argparse.PARSER, help="what to run; no shell")
    parser.add_argument("--name", metavar="NAME", help="a name for people")
    parser.add_argument("--bead", metavar="ID", help="the bead that it works on")
    parser.add_argument("--cwd", metavar="DIR", help="where it runs; default here")
    parser.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        type=_variable,
        default=[],
        help="a variable for it, without VALUE this command's own; may be given several times",
    )
    parser.add_argument("--stdin", action="store_true", help="keep its standard input open for 'agents send'")
    parser.add_argument("--key", metavar="KEY", help="the same key starts it once, however often this is run")
    parser.add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        type=_limit,
        default=[],
        help=f"{', '.join(get_args(LimitName))}; 90, 10m, 2h for seconds, 512M, 2G for bytes; several times",
    )
    parser.add_argument("--sandbox", choices=get_args(SandboxName), help="default as the manifest says")
    parser.add_argument("--network", action=argparse.BooleanOptionalAction, help="whether the sandbox has one")


def spec_of(arguments: argparse.Namespace) -> AgentSpec:
    """The spec that *arguments* describe."""
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    return AgentSpec(
        command=words[0],
        args=tuple(words[1:]),
        env=dict(arguments.env),
        cwd=str(Path(arguments.cwd).absolute()) if arguments.cwd else None,
        name=arguments.name,
        bead_id=arguments.bead,
        stdin="pipe" if arguments.stdin else "null",
        limits=attrs.evolve(Limits(), **dict(arguments.limit)),
        sandbox=arguments.sandbox,
        sandbox_network=arguments.network,
    )


def seconds(text: str) -> float:
    """A type for options: seconds, or a number of `s`, `m`, `h` or `d`."""
    return _amount(text, "seconds")


def pause(text: str) -> float:
    """A type for options: seconds between two looks, never so few that looking is all that is done."""
    found = seconds(text)
    if found < SHORTEST_PAUSE:
        raise argparse.ArgumentTypeError(f"{text!r} is too often; at least {SHORTEST_PAUSE:g} s")
    return found


def _variable(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{name!r} cannot be the name of a variable; letters, digits and _, as PATH")
    if not given and name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name} is not set here; give its value as {name}=VALUE")
    return name, value if given else os.environ[name]


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    name = name.replace("-", "_")
    known = get_args(LimitName)
    if name not in known:
        raise argparse.ArgumentTypeError(f"there is no limit {name!r}; known: {', '.join(known)}")
    kind = name.rpartition("_")[2]
    amount = _amount(value, kind if kind in UNITS else "")
    if kind != "seconds" and amount != int(amount):
        raise argparse.ArgumentTypeError(f"{name} is a whole number, and {value!r} is none")
    return name, amount if kind == "seconds" else int(amount)


def _amount(text: str, kind: str) -> float:
    units = UNITS[kind]
    found = NUMBER.fullmatch(text.lower())
    if found is None or found[2] not in units:
        allowed = f", with {', '.join(filter(None, units))} or nothing behind it" if len(units) > 1 else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{allowed}")
    return float(found[1]) * units[found[2]]
