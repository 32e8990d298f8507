"""Run a host: open the app, listen, and leave in good order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any

import uvicorn
import uvloop

from agentbox.app import App
from agentbox.host._streams import Closing
from agentbox.host.asgi import create_app
from agentbox.host.auth import Tokens
from agentbox.manifest import Host
from agentbox_contracts.errors import BootError

__all__ = ["run", "serve"]


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run *main* on the fastest loop there is."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve(app: App, *, told: Callable[[str], None] = lambda _: None) -> None:
    """
    Serve the slots of *app* until SIGTERM or SIGINT; *told* hears the address once it answers.

    Streams then end at once, other requests get `shutdown_seconds`. Raises BootError when it cannot listen.
    """
    settings = app.manifest.host
    Tokens(app.manifest.state).ensure_local()
    closing = Closing()
    listener = _listener(settings)
    with listener:
        config = uvicorn.Config(
            create_app(app, closing=closing),
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
            ssl_certfile=str(settings.tls_cert) if settings.tls_cert else None,
            ssl_keyfile=str(settings.tls_key) if settings.tls_key else None,
        )
        server = _Server(config, closing)
        scheme = "https" if settings.tls_cert else "http"
        host, port = listener.getsockname()[:2]
        told(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """A server whose streams end when it is asked to stop: it would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, closing: Closing) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop."""
        self._closing.set()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for as long as it serves, and do not raise them again: leaving in good order is no crash."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listener(settings: Host) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
    # The protocol is named because the loop sends small answers at once only on sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.bind, settings.port))
        listener.listen(2048)  # from here on clients may come; they are answered once the server runs
    except (OSError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BootError(
            f"cannot listen on {settings.bind}:{settings.port}: {reason}; set [host] bind and port"
        ) from error
    listener.setblocking(False)
    return listener
