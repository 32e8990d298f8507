"""JSON objects, one a line, over a socket that must never block its owner. Standard library only, for the keeper."""

from __future__ import annotations

import json
import socket

__all__ = ["LIMIT", "Lines", "listen"]

LIMIT = 32 * 1024 * 1024
"""The longest request, in bytes: several times what the kernel takes as arguments and environment."""


class Lines:
    """One client's connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.is_open = True
        self._pieces: list[bytes] = []
        self._size = 0

    def read(self) -> list[dict[str, object]]:
        """The requests that have come in. Closes itself at the end of the connection and on whatever is not ours."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self._size += len(data)
        if not data or self._size > LIMIT:
            self.close()
            return []
        self._pieces.append(data)
        return self._complete() if b"\n" in data else []

    def answer(self, request: dict[str, object], **members: object) -> None:
        """Answer *request*. A client that does not read its answers is let go rather than waited for."""
        if not self.is_open:
            return
        line = json.dumps({"n": request.get("n"), **members}).encode() + b"\n"
        try:
            complete = self.socket.send(line) == len(line)
        except OSError:
            complete = False
        if not complete:
            self.close()

    def close(self) -> None:
        """Close the connection. A second time does nothing."""
        self.is_open = False
        self.socket.close()

    def _complete(self) -> list[dict[str, object]]:
        *lines, rest = b"".join(self._pieces).split(b"\n")
        self._pieces, self._size = [rest] if rest else [], len(rest)
        try:
            requests = [json.loads(line) for line in lines]
        except ValueError:
            requests = [None]
        if not all(isinstance(request, dict) for request in requests):
            self.close()
            return []
        return requests


def listen(name: str) -> socket.socket:
    """A listening socket called *name* in the working directory: relative, since a path may have 107 bytes only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen(1024)
    listener.setblocking(False)
    return listener
