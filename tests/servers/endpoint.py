"""A small HTTP server that answers by script and remembers what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

__all__ = ["Endpoint", "Sent", "endpoint"]


@attrs.frozen
class Sent:
    """One request."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes


@attrs.define
class Endpoint:
    """Gives `answers` in turn, status and body, and the last of them for ever."""

    port: int
    answers: list[tuple[int, str]] = attrs.field(factory=lambda: [(202, "")])
    sent: list[Sent] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in/box"

    def answer(self, request: Sent) -> tuple[int, str]:
        self.sent.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """A server on a free port, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = found.answer(Sent(self.command, self.path, headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        found = Endpoint(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
