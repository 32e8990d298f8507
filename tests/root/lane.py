"""A worker in a process of its own, and strace beside it that injects faults into the calls it makes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

__all__ = ["Answer", "Injection", "Worker", "injected", "started"]

PROGRAM = Path(__file__).with_name("worker.py")
PATIENCE = 45.0
"""Longer than dispatch waits, so that a hang of the adapter shows as AdapterTimeout rather than as silence."""


@attrs.frozen
class Answer:
    """What a worker told in answer to one command; `is_dead` when it was killed over it."""

    lines: tuple[str, ...]
    is_dead: bool

    @property
    def acknowledged(self) -> list[tuple[str, str]]:
        """What was acknowledged, and of what."""
        return [(line.split()[1], line.split()[2]) for line in self.lines if line.startswith("ack ")]

    @property
    def endings(self) -> set[str]:
        """How agents ended: status and exit code."""
        return {line.split(maxsplit=2)[2] for line in self.lines if line.startswith("end ")}

    @property
    def errors(self) -> set[str]:
        """The classes of the errors."""
        return {line.split()[1] for line in self.lines if line.startswith("err ")}


class Worker:
    """The program, told what to do."""

    def __init__(self, slot: str, folder: Path) -> None:
        self._line, theirs = socket.socketpair()
        self._line.settimeout(PATIENCE)
        with theirs:
            command = [sys.executable, str(PROGRAM), slot, str(folder)]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        self.pid = self._process.pid
        self._answer()

    def do(self, command: str) -> Answer:
        """Have it done. Raises TimeoutError when it hangs."""
        self._line.sendall(command.encode())
        return self._answer()

    def stop(self) -> None:
        """End it, however it stands."""
        self._process.kill()
        self._process.wait()
        self._line.close()

    def _answer(self) -> Answer:
        heard, deadline = b"", time.monotonic() + PATIENCE
        while not heard.endswith(b"done\n"):
            try:
                more = self._line.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return Answer(tuple(heard.decode().splitlines()), True)
            heard += more
            assert time.monotonic() < deadline, f"the worker does not come to an end: {heard.decode()}"
        return Answer(tuple(heard.decode().splitlines()[:-1]), False)


@attrs.define
class Injection:
    """How many errors strace injected, and all that it saw; known when it has let go."""

    count: int = 0
    log: str = ""


@contextmanager
def started(slot: str, folder: Path) -> Iterator[Worker]:
    """A worker, ended with the block."""
    worker = Worker(slot, folder)
    try:
        yield worker
    finally:
        worker.stop()


@contextmanager
def injected(pid: int, fault: str, *, log: Path, paths: Iterable[Path | str] = ()) -> Iterator[Injection]:
    """
    Have strace do *fault*, such as `fsync:error=EIO:when=3`, to the process and its children, until the block ends.

    With *paths* only calls about those files count.
    """
    calls = fault.partition(":")[0]
    names = [word for path in paths for word in ("-P", str(path))]
    wanted = ["-e", f"trace={calls}", "-e", f"inject={fault}", *names]
    command = ["strace", "-f", "-y", "-o", str(log), *wanted, "-p", str(pid)]
    done = Injection()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        assert "attached" in said, said
        try:
            yield done
        finally:
            # It waits for ever to let go of what it has killed, and what it has not killed lives on without it.
            tracer.send_signal(signal.SIGKILL if "signal=KILL" in fault else signal.SIGINT)
            tracer.communicate(timeout=PATIENCE)
    done.log = log.read_text()
    done.count = len(re.findall(r"\(INJECTED\)", done.log))
