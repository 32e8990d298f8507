"""Parsers that know their command's name at once and its options only when it is chosen."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["CommandParser", "add_json", "whole_number"]


class CommandParser(argparse.ArgumentParser):
    """
    A parser with the options that every command has, also behind the command's name.

    With *module* it is that module's: `configure(parser)` there adds the options and `run(arguments)` does the work.
    *late* names an optional argument that may also come behind options, where argparse would not look for it.
    """

    def __init__(self, *, module: str | None = None, late: str | None = None, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._module = module
        self._late = late
        shared = self.add_argument_group("everywhere")
        # No defaults here: the parser behind a command's name would overwrite what was given before it.
        shared.add_argument(
            "--manifest",
            metavar="PATH",
            default=argparse.SUPPRESS,
            help="the manifest to use; else $AGENTBOX_MANIFEST, else the nearest agentbox.toml upwards",
        )
        shared.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show log lines and tracebacks"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Fill this parser first, if it is a command's and now chosen."""
        if self._module is not None:
            module = importlib.import_module(self._module)
            self._module = None
            self.set_defaults(run=module.run)
            module.configure(self)
        found, rest = super().parse_known_args(args, namespace)
        if self._late and len(rest) == 1 and getattr(found, self._late) is None and not rest[0].startswith("--"):
            setattr(found, self._late, rest.pop())
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence and where to read more."""
        self.exit(2, f"agentbox: {message}; see '{self.prog} --help'\n")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type for options: a whole number from *low* to *high*."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read
