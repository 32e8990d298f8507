"""A host: `agentbox serve` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import attrs

__all__ = ["Host", "host"]


@attrs.define
class Host:
    """A host that can be killed and started again at the same address."""

    folder: Path
    manifest: str
    port: int = 0
    env: dict[str, str] = attrs.field(factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.folder / ".agentbox" / "host.token").read_text()

    def client(self, slot: str, *, port: int | None = None) -> str:
        """Manifest text of a client for one slot, which finds the host at another *port* when one is named."""
        token = self.folder / ".agentbox" / "host.token"
        url = f"http://127.0.0.1:{port or self.port}"
        return (
            f'[adapters]\n{slot} = "external"\n[federation]\nmode = "client"\nexternal_url = "{url}"\n'
            f'token = "file:{token}"\n'
        )

    def start(self) -> None:
        (self.folder / "agentbox.toml").write_text(self.manifest)
        with (self.folder / "host.log").open("a") as log:
            self.process = self._launched(log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " serves http" in line, (self.folder / "host.log").read_text()
        self.port = int(line.strip().rpartition(":")[2])

    def _launched(self, log: IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "agentbox", "serve", "--port", str(self.port)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=log,
            env={name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")} | self.env,
            text=True,
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def host(folder: Path, manifest: str = "", **env: str) -> Iterator[Host]:
    """A host on *folder*, stopped at the end of the block."""
    found = Host(folder, manifest, env=env)
    found.start()
    try:
        yield found
    finally:
        found.stop()
