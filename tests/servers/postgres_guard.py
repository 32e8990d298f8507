"""
What is left of a test server when the tests are over, however they ended: nothing.

Run as a program with the server's folder, this waits until its standard input ends, which it does also when whoever
started it was killed; then it stops the server and removes the folder. It needs the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

__all__ = ["pid_file"]


def pid_file(folder: Path) -> list[str]:
    """The lines of the server's own record: first its process id, last how it stands."""
    try:
        return [line.strip() for line in (folder / "data" / "postmaster.pid").read_text().splitlines()]
    except FileNotFoundError:
        return []


def stop(folder: Path) -> None:
    """End the server of *folder*, if its record names a process that is still that server."""
    for number in pid_file(folder)[:1]:
        pid = int(number)
        while is_server(pid, folder):
            os.kill(pid, signal.SIGQUIT)
            time.sleep(0.02)


def is_server(pid: int, folder: Path) -> bool:
    """Whether *pid* is the server of *folder*: the number may be another's by now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return str(folder / "data").encode() in words


def main(folder: Path) -> None:
    """Wait until whoever started this is gone, then leave nothing behind."""
    sys.stdin.buffer.read()
    stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
