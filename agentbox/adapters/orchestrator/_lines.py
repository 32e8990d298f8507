"""JSON objects, one a line, over a socket that must never block its owner. Standard library only, for the keeper."""

from __future__ import annotations

import json
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files
else:
    import _files

__all__ = ["LIMIT", "STRANGER", "Lines", "is_stranger", "listen"]

LIMIT = 32 * 1024 * 1024
"""The longest request, in bytes: several times what the kernel takes as arguments and environment."""

STRANGER = "it listens to nobody in a sandbox or container of its own; processes there have other numbers than here"


class Lines:
    """
    One client's connection.

    What a client does not take at once waits for `flush` where there is a *behind*, the set of those whose owner is to
    see to them: they have something waiting, or their client is gone.
    """

    def __init__(self, connection: socket.socket, behind: set[Lines] | None = None, is_stranger: bool = False) -> None:
        connection.setblocking(False)
        self.is_stranger = is_stranger
        self.socket = connection
        self.number = connection.fileno()
        self.is_open = True
        self._pieces: list[bytes] = []
        self._size = 0
        self._behind = behind
        self._unsent = bytearray()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for the client to take it."""
        return bool(self._unsent)

    def read(self) -> list[dict[str, object]]:
        """The requests that have come in. Closes itself at the end of the connection and on whatever is not ours."""
        if not self.is_open:
            return []
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
        """Answer *request*. A client that does not read its answers is let go in the end rather than waited for."""
        if not self.is_open:
            return
        self._unsent += json.dumps({"n": request.get("n"), **members}).encode() + b"\n"
        if self.flush():
            return
        if self._behind is None or len(self._unsent) > LIMIT:
            self.close()
        if self._behind is not None:
            self._behind.add(self)

    def flush(self) -> bool:
        """Send what waits, as far as the client takes it now. True when nothing waits any more."""
        try:
            while self._unsent and self.is_open:
                del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Close the connection. A second time does nothing."""
        self.is_open = False
        self._unsent.clear()
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


def is_stranger(connection: socket.socket) -> bool:
    """
    Whether the other end is in a PID namespace other than ours, or not there any more.

    The folders of agents may be visible in there, and whoever could use them would start and end what is outside.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return False  # no Linux, no such namespaces
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    status = _files.read_bytes(f"/proc/{pid}/status") if pid else None
    if status is None:
        return True
    # A number for each namespace that it is in, from ours on.
    numbers = [line.split()[1:] for line in status.splitlines() if line.startswith(b"NSpid:")]
    return bool(numbers) and len(numbers[0]) > 1


def listen(name: str) -> socket.socket:
    """A listening socket called *name* in the working directory: relative, since a path may have 107 bytes only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen(1024)
    listener.setblocking(False)
    return listener
