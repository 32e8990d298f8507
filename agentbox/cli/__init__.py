"""The command line. A command's module is imported when that command is chosen, so that `--help` stays quick."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from agentbox import __version__
from agentbox.cli._parser import CommandParser

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "validate": "check a manifest and list every problem with its place",
    "status": "open the app and show the state of each slot",
    "meta": "what is configured and what answers, as JSON",
    "schema": "print or write the published schemas",
    "beads": "create, find, claim and close work",
    "events": "read, follow and verify what happened",
    "agents": "start, list, read, answer and end agents",
    "memory": "remember, search and forget",
    "embedder": "list and check embedders, and install their models",
    "serve": "serve the slots to other agentboxes over HTTP",
    "host": "serve the slots over standard input and output",
    "token": "make, list and revoke the tokens of a host",
    "contract": "grade an adapter against the suite of its slot",
    "bench": "offer each slot its service levels' load and show how they hold",
    "new-adapter": "begin a package for an adapter of your own",
    "demo": "watch agents share out and finish an epic",
}

FAILED = 1
REFUSED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage or manifest.

    As shells have it, 130 after Ctrl-C and 141 when the reader of standard output has gone.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    _stand_in_for_what_is_closed()
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()
        return PIPE_CLOSED
    except Exception as error:
        if "--debug" in words:
            raise
        from agentbox.cli import _failure

        return _failure.tell(error)


def parser() -> CommandParser:
    """The parser of the whole command line; those of commands fill themselves when they are chosen."""
    top = CommandParser(prog="agentbox", description="Durable state and agent processes for agent hosts.")
    top.add_argument("--version", action="version", version=f"agentbox {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", module=_module(name))
    return top


def _module(command: str) -> str:
    return f"agentbox.cli.{command.replace('-', '_')}"


def _run(words: list[str]) -> int:
    _tolerate_any_text()
    top = parser()
    arguments = argparse.Namespace(manifest=None, debug=False, run=None)
    try:
        top.parse_args(words, arguments)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else FAILED
    if arguments.run is None:
        top.print_help(sys.stderr)
        return REFUSED
    _set_up_logging(arguments.debug)
    code: int = arguments.run(arguments)
    return code


def _set_up_logging(debug: bool) -> None:
    """What goes wrong is told in a sentence; the log lines behind it are for `--debug`."""
    if debug:
        from agentbox import telemetry

        telemetry.log_json("debug")
    else:
        import logging

        logging.getLogger("agentbox").addHandler(logging.NullHandler())


def _stand_in_for_what_is_closed() -> None:
    """Give nothing to read or write where a standard stream is closed: its number would be the next file's."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is not None:
            continue
        nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        os.set_inheritable(nowhere, nowhere == number)
        setattr(sys, name, os.fdopen(nowhere, mode))


def _tolerate_any_text() -> None:
    """A title that the terminal's encoding lacks is shown escaped; it must not end the command."""
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="backslashreplace")


def _let_go_of_stdout() -> None:
    """Python flushes standard output once more when it exits, and would complain there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
