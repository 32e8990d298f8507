"""From verb and address to endpoint, in a time that does not grow with the number of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

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
    """All routes of a host. A fixed address goes before one with a name in its place."""

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

    def find(self, verb: str, address: str) -> tuple[str, Endpoint, dict[str, str]]:
        """The route for a request, its endpoint, and what stands in the address. Raises Refusal, 404 or 405."""
        values: list[str] = []
        node = _walk(self._root, address.split("/")[1:], 0, values)
        if node is None:
            raise Refusal(404, "there is no such address here")
        served = node.served.get("GET" if verb == "HEAD" else verb)
        if served is None:
            raise Refusal(405, "this address does not take that method", {"Allow": ", ".join(sorted(node.served))})
        path, names, endpoint = served
        return path, endpoint, dict(zip(names, values, strict=True))


def _walk(node: _Node, pieces: list[str], at: int, values: list[str]) -> _Node | None:
    if at == len(pieces):
        return node if node.served else None
    piece = pieces[at]
    literal = node.literals.get(piece)
    if literal is not None and (found := _walk(literal, pieces, at + 1, values)) is not None:
        return found
    if node.parameter is None or not piece:
        return None
    values.append(piece)
    if (found := _walk(node.parameter, pieces, at + 1, values)) is None:
        values.pop()
    return found


def address_of(scope: MutableMapping[str, Any]) -> str:
    """The address as this application sees it, wherever it is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path
