"""From verb and address to endpoint, in a time that does not grow with the number of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

import attrs
from starlette.responses import Response

from agentbox.host._answers import Refusal
from agentbox.host._requests import Request

__all__ = ["Endpoint", "Routes", "address_of"]

Endpoint = Callable[[Request], Awaitable[Response]]


@attrs.define
class _Node:
    """A place in the tree of addresses: what may come next, and what is served here."""

    literals: dict[str, _Node] = attrs.field(factory=dict)
    parameter: _Node | None = None
    served: dict[str, tuple[str, tuple[str, ...], Endpoint]] = attrs.field(factory=dict)


class Routes:
    """All routes of a host. A fixed address goes before one with a name in its place, for the verbs that it takes."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, verb: str, path: str, endpoint: Endpoint) -> None:
        """Serve *endpoint* at *path*, in which `{name}` stands for one piece of the address."""
        node, names = self._root, []
        for piece in path.split("/")[1:]:
            if piece.startswith("{"):
                names.append(piece[1:-1])
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.literals.setdefault(piece, _Node())
        node.served[verb] = (path, tuple(names), endpoint)

    def find(self, verb: str, pieces: list[str]) -> tuple[str, Endpoint, dict[str, str]]:
        """The route for a request, its endpoint, and what stands in the address. Raises Refusal, 404 or 405."""
        values: list[str] = []
        verb = "GET" if verb == "HEAD" else verb
        node = _walk(self._root, pieces, 0, values, verb)
        if node is None:
            raise self._missing(pieces)
        path, names, endpoint = node.served[verb]
        return path, endpoint, dict(zip(names, values, strict=True))

    def _missing(self, pieces: list[str]) -> Refusal:
        node = _walk(self._root, pieces, 0, [], None)
        if node is None:
            return Refusal(404, "there is no such address here")
        return Refusal(405, "this address does not take that method", {"Allow": ", ".join(sorted(node.served))})


def _walk(node: _Node, pieces: list[str], at: int, values: list[str], verb: str | None) -> _Node | None:
    """The place of an address that serves *verb*, or anything when it is None."""
    if at == len(pieces):
        return node if (verb in node.served if verb else node.served) else None
    piece = pieces[at]
    literal = node.literals.get(piece)
    if literal is not None and (found := _walk(literal, pieces, at + 1, values, verb)) is not None:
        return found
    if node.parameter is None or not piece:
        return None
    values.append(piece)
    if (found := _walk(node.parameter, pieces, at + 1, values, verb)) is None:
        values.pop()
    return found


def address_of(scope: MutableMapping[str, Any]) -> list[str]:
    """
    The pieces of the address as this application sees it, wherever it is mounted.

    They are told apart before they are decoded, so a slash that stands in a name as `%2F` does not end it.
    """
    raw: bytes = scope.get("raw_path") or b""
    mounted = scope.get("root_path", "").rstrip("/").split("/")
    path: str = scope["path"]
    if b"%" in raw:
        pieces = [unquote(piece) for piece in raw.partition(b"?")[0].decode("latin-1").split("/")]
    else:
        pieces = path.split("/")
    return pieces[len(mounted) :] if pieces[: len(mounted)] == mounted else pieces[1:]
