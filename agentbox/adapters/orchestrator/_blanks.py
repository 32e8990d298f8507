"""
What the next start will need, made beforehand: on some file systems a new file takes longer than all else in a start.

A supervisor that stands by makes it, in the working directory, which is the folder of agents. Standard library only.
"""

# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH208
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import contextlib
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files
    from agentbox.adapters.orchestrator._lines import listen
else:
    import _files
    from _lines import listen

__all__ = ["forget", "home_taken", "listening", "make_home", "socket_named", "sweep"]

FOLDER = "blanks"
HOME = f"{FOLDER}/home"
FILES = ("stdout.log", "stderr.log", _files.blank("record.json"), _files.blank("started.json"))


def make_home() -> None:
    """Have a home ready for the next agent, unless there is one. Without it a start takes longer, and that is all."""
    if os.path.exists(HOME):  # noqa: PTH110
        return
    path = f"{FOLDER}/{os.getpid()}"
    with contextlib.suppress(OSError):
        os.mkdir(path, 0o700)
        for name in FILES:
            os.close(os.open(f"{path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.rename(path, HOME)
        return
    _remove(path)


def home_taken(folder: str, home: str) -> bool:
    """Whether *home*, which was not there, is now the one that lay ready in the *folder* of agents."""
    try:
        os.rename(f"{folder}/{HOME}", home)
    except OSError:
        return False
    return True


def listening() -> socket.socket | None:
    """A socket that only has to be given its name; None where none can be made now."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700)
        return listen(_socket(os.getpid()))
    except OSError:
        return None


def socket_named(name: str) -> bool:
    """Whether the socket of this process has its *name* now; the working directory is the agent's home."""
    try:
        os.rename(f"../{_socket(os.getpid())}", name)
    except OSError:
        return False
    return True


def forget(pid: int) -> None:
    """Remove what the process *pid* has made and nobody has taken."""
    with contextlib.suppress(OSError):
        os.unlink(_socket(pid))


def sweep() -> None:
    """Remove what the dead have left. For a keeper that begins: nobody who stands by has an agent to come."""
    with contextlib.suppress(OSError):
        for name in os.listdir(FOLDER):
            if name != os.path.basename(HOME):  # noqa: PTH119
                _remove(f"{FOLDER}/{name}")


def _socket(pid: int) -> str:
    return f"{FOLDER}/{pid}.sock"


def _remove(path: str) -> None:
    for name in FILES:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}/{name}")
    with contextlib.suppress(OSError):
        os.unlink(path) if path.endswith(".sock") else os.rmdir(path)
