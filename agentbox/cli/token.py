"""`agentbox token`: who may call this agentbox when it serves."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from agentbox import manifest as manifests
from agentbox.cli import _output
from agentbox.cli._parser import CommandParser, add_json
from agentbox.host.auth import SCOPES, Token, Tokens

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `token`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=CommandParser)
    new = actions.add_parser("new", help="make a token; it is shown once")
    new.add_argument("name", metavar="NAME", help="what the token is called in lists and logs")
    scopes = f"what it may do, several times; else everything. One of {', '.join(SCOPES)}"
    new.add_argument("--scope", action="append", metavar="SCOPE", help=scopes)
    add_json(new)
    add_json(actions.add_parser("list", help="names, scopes and ages; never the tokens themselves"))
    revoke = actions.add_parser("revoke", help="take a token back; it is refused at once")
    revoke.add_argument("name", metavar="NAME", help="the token's name or id")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked with the tokens of the manifest's state folder."""
    tokens = Tokens(manifests.load(arguments.manifest).state)
    if arguments.action == "new":
        return _new(tokens, arguments)
    if arguments.action == "revoke":
        token = tokens.revoke(arguments.name)
        _output.print_line(f"{token.name} ({token.id}) is revoked")
        return 0
    found = tokens.all()
    if arguments.json:
        _output.print_json([_shown(token) for token in found])
    else:
        rows = [[*(str(value) for value in _shown(token).values())] for token in found]
        _output.print_table(["ID", "NAME", "CREATED", "SCOPES"], rows)
    return 0


def _new(tokens: Tokens, arguments: argparse.Namespace) -> int:
    token, text = tokens.new(arguments.name, tuple(arguments.scope or ("*",)))
    if arguments.json:
        _output.print_json(_shown(token) | {"token": text})
    else:
        _output.print_line(text)
    return 0


def _shown(token: Token) -> dict[str, str]:
    created = _output.instant(datetime.fromtimestamp(token.created_at, UTC))
    return {"id": token.id, "name": token.name, "created": created, "scopes": " ".join(token.scopes)}
