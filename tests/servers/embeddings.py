"""A service that speaks OpenAI's `/v1/embeddings`, on a real socket, and misbehaves when told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from agentbox.adapters.memory._embedders.lexical import _vector

__all__ = ["EmbeddingService", "items"]

Trouble = Callable[["_Handler", dict[str, Any]], None]


class EmbeddingService:
    """Answers with vectors of letters, of `dimensions` 384; each trouble in `troubles` spoils one answer first."""

    def __init__(self) -> None:
        self.troubles: deque[Trouble] = deque()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.service = self  # type: ignore[attr-defined]
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def status(self, status: int, body: Any = b"", **headers: str) -> None:
        """Answer the next request with this."""
        self.troubles.append(lambda handler, _: handler.answer(status, body, headers))

    def spoil(self, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        """Answer the next request with what *change* makes of the right items."""
        self.troubles.append(lambda handler, asked: handler.answer(200, {"data": change(items(asked))}, {}))

    def hang(self) -> None:
        """Do not answer the next request until the service ends."""
        self.troubles.append(lambda handler, _: _hang(self))

    def trickle(self) -> None:
        """Answer the next request with a byte now and then, until the service ends."""
        self.troubles.append(lambda handler, _: handler.trickle())


def items(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The right answer, last item first: the order is told by the index alone."""
    found = [{"index": place, "embedding": list(_vector(text))} for place, text in enumerate(asked["input"])]
    return found[::-1]


def _hang(service: EmbeddingService) -> None:
    service.released.wait(60)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        service: EmbeddingService = self.server.service  # type: ignore[attr-defined]
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        service.requests.append(asked)
        service.keys.append(self.headers["Authorization"])
        if service.troubles:
            service.troubles.popleft()(self, asked)
        elif self.path != "/v1/embeddings":
            self.answer(404, b"nothing here", {})
        else:
            self.answer(200, {"object": "list", "data": items(asked), "model": asked["model"]}, {})

    def trickle(self) -> None:
        service: EmbeddingService = self.server.service  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        with suppress(OSError):
            while not service.released.wait(0.1):
                self.wfile.write(b" ")
                self.wfile.flush()

    def answer(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests speak for themselves."""
