"""What `[observability]` sends out of the process, received by a real listener."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

import agentbox
from agentbox_contracts.errors import BootError

PROGRAM = """
import asyncio, sys, agentbox

async def main():
    async with agentbox.open_app(sys.argv[1]) as app:
        await app.adapters.beads.create_epic(title="Ship it")

asyncio.run(main())
"""


class Collector(ThreadingHTTPServer):
    """An OTLP endpoint that keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        super().__init__(("127.0.0.1", 0), Receiver)


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def manifest(folder: Path, observability: str) -> Path:
    path = folder / "agentbox.toml"
    path.write_text(f'[state]\npath = "state"\n[observability]\n{observability}\n')
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_spans_reach_the_endpoint_before_the_app_has_closed(tmp_path: Path, collector: Collector) -> None:
    path = manifest(tmp_path, f'otlp_endpoint = "http://127.0.0.1:{collector.server_port}"')
    program = (sys.executable, "-c", PROGRAM, str(path))
    ended = subprocess.run(program, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    assert b"agentbox.adapter.beads.create_epic" in b"".join(body for _, body in collector.received)


async def test_metrics_are_served_while_the_app_is_open(tmp_path: Path) -> None:
    port = free_port()
    async with agentbox.open_app(manifest(tmp_path, f"metrics_port = {port}")) as app:
        await app.adapters.beads.create_epic(title="Ship it")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    assert 'agentbox_adapter_dispatch_total{impl="local-sqlite",method="create_epic",outcome="ok",slot="beads"}' in text
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


async def test_a_taken_metrics_port_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BootError, match=f"metrics_port {port} cannot be opened"):
            async with agentbox.open_app(manifest(tmp_path, f"metrics_port = {port}")):
                pass
