"""Starting the agent's command in a child of the supervisor, with every error told. Standard library only."""

# ruff: noqa: PTH108, PTH110, PTH113, PTH118
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files, _proc
else:
    import _files
    import _proc

__all__ = ["IGNORED", "CannotStart", "CannotWrite", "Command", "start"]

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
"""What keeper and supervisor ignore, and a command must not: everything else they leave as the kernel has it."""

READY = b"\0"


class CannotStart(Exception):
    """The command cannot be started; the message says why."""


class CannotWrite(CannotStart):
    """The disk refuses what has to be written before the command may run; later it may not."""


class Command:
    """What to start, as the keeper was told."""

    def __init__(self, request: dict[str, object], open_files: tuple[int, int]) -> None:
        self.argv = [os.fsencode(argument) for argument in _texts(request["argv"])]
        self.env = {os.fsencode(name): os.fsencode(value) for name, value in _pairs(request["env"])}
        self.cwd = str(request["cwd"])
        self.stdin = str(request["stdin"])
        self.open_files = open_files


def start(command: Command) -> tuple[int, int | None]:
    """
    Start *command* in the working directory as its home. Returns its pid and the writing end of its standard input.

    `started.json` is durable before the command is let go, so that no retry can ever start it a second time. Raises
    CannotStart; then nothing runs and there is no such file.
    """
    stdin, writer = _standard_input(command.stdin)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _become(command, stdin, theirs)
    theirs.close()
    os.close(stdin)
    try:
        _let_go(pid, ours)
    except BaseException as error:
        _give_up(pid, ours, writer)
        if isinstance(error, OSError):
            raise CannotWrite(f"the agent's folder cannot be written: {error.strerror}") from error
        raise
    ours.close()
    return pid, writer


def _let_go(pid: int, channel: socket.socket) -> None:
    _write_started(pid)  # meanwhile the child prepares itself
    try:
        _expect(channel, READY)
        channel.sendall(READY)
        _expect(channel, b"")  # the end of the channel: it closes when the command takes over
    except (CannotStart, OSError):
        os.unlink("started.json")
        raise


def _write_started(pid: int) -> None:
    found, own = _proc.stat(pid), _proc.stat(os.getpid())
    if found is None or own is None:
        raise CannotStart("/proc does not show the processes of this machine")
    started: dict[str, object] = {
        "pid": pid,
        "ticks": found.ticks,
        "supervisor_pid": os.getpid(),
        "supervisor_ticks": own.ticks,
        "boot_id": _proc.boot_id(),
        "started_at": time.time(),
    }
    _files.write_json(".", "started.json", started)


def _expect(channel: socket.socket, wanted: bytes) -> None:
    heard = channel.recv(65536)
    if heard != wanted:
        raise CannotStart(heard.decode(errors="replace") or "its process was killed before the command could start")


def _give_up(pid: int, channel: socket.socket, writer: int | None) -> None:
    channel.close()
    if writer is not None:
        os.close(writer)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _standard_input(kind: str) -> tuple[int, int | None]:
    if kind == "pipe":
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        return reader, writer
    return os.open(os.devnull, os.O_RDONLY), None


def _become(command: Command, stdin: int, channel: socket.socket) -> None:
    """Turn this child into the command; never returns."""
    try:
        program = _prepare(command, stdin)
        channel.sendall(READY)
        if channel.recv(1) == READY:  # otherwise the supervisor died, and nobody would look after the command
            _execute(program, command, channel)
    except CannotStart as error:
        channel.sendall(str(error).encode(errors="replace"))
    except BaseException as error:
        channel.sendall(f"cannot be prepared: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


def _prepare(command: Command, stdin: int) -> bytes:
    os.setsid()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    for target, source in enumerate((stdin, os.open("stdout.log", flags, 0o600), os.open("stderr.log", flags, 0o600))):
        os.dup2(source, target)
    try:
        os.chdir(command.cwd)
    except OSError as error:
        raise CannotStart(f"its folder {command.cwd!r} cannot be entered: {error.strerror}") from None
    resource.setrlimit(resource.RLIMIT_NOFILE, command.open_files)
    os.umask(0o022)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    return _found(command)


def _found(command: Command) -> bytes:
    """The program's path, looked for as a shell would."""
    name = command.argv[0]
    shown = os.fsdecode(name)
    path = command.env.get(b"PATH", os.fsencode(os.defpath))
    candidates = [name] if b"/" in name else [os.path.join(folder or b".", name) for folder in path.split(b":")]
    existing = [candidate for candidate in candidates if os.path.exists(candidate)]
    for candidate in existing:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    if existing:
        raise CannotStart(f"{os.fsdecode(existing[0])!r} is not an executable file")
    if b"/" in name:
        raise CannotStart(f"there is no file {shown!r}")
    raise CannotStart(f"command {shown!r} was not found on the agent's PATH ({os.fsdecode(path)})")


def _execute(program: bytes, command: Command, channel: socket.socket) -> None:
    try:
        os.execve(program, command.argv, command.env)  # noqa: S606
    except OSError as error:
        shown = os.fsdecode(program)
        reasons = {
            errno.ENOEXEC: f"{shown!r} is neither a program nor a script with a '#!' line",
            errno.ENOENT: f"the interpreter or loader that {shown!r} names does not exist",
            errno.E2BIG: f"the arguments and environment of {shown!r} are longer than the kernel allows",
        }
        raise CannotStart(reasons.get(error.errno or 0, f"{shown!r} cannot be executed: {error.strerror}")) from None


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _pairs(value: object) -> list[tuple[str, str]]:
    return [(str(name), str(item)) for name, item in value.items()] if isinstance(value, dict) else []
