"""Starting the agent's command in a child of the supervisor, with every error told. Standard library only."""

# ruff: noqa: PTH108, PTH109, PTH110, PTH113, PTH118
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files, _limits, _proc, _sandbox
else:
    import _files
    import _limits
    import _proc
    import _sandbox

__all__ = ["IGNORED", "CannotStart", "CannotWrite", "Command", "Embryo", "heard", "rehearse"]

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
"""What keeper and supervisor ignore, and a command must not: everything else they leave as the kernel has it."""

READY = b"\0"
SAID = 2000

DURABLE = ("started.json", "record.json", ".", "..")
"""What has to be on the disk before a command is let go. The record is on its way there already."""

NOWHERE = "/nonexistent"
REHEARSED: dict[str, object] = {
    "op": "start",
    "id": NOWHERE,
    "argv": ["true", "-"],
    "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": NOWHERE},
    "cwd": NOWHERE,
    "stdin": "null",
    "n": 1,
}


class CannotStart(Exception):
    """The command cannot be started; the message says why."""


class CannotWrite(CannotStart):
    """The disk refuses what has to be written before the command may run; later it may not."""


class Command:
    """What to start, as the keeper was told."""

    def __init__(self, request: dict[str, object]) -> None:
        self.argv = [os.fsencode(argument) for argument in _texts(request["argv"])]
        self.env = {os.fsencode(name): os.fsencode(value) for name, value in _pairs(request["env"])}
        self.home = str(request["id"])
        self.cwd = str(request["cwd"])
        self.stdin = str(request["stdin"])
        self.limits = {name: float(value) for name, value in _pairs(request.get("limits"))}
        self.folder = os.getcwd()
        self.sandbox = str(request.get("sandbox", "none"))
        self.has_network = bool(request.get("sandbox_network"))
        self.keeps_tmpdir = bool(request.get("keeps_tmpdir"))

    @property
    def is_sandboxed(self) -> bool:
        """Whether it is to run in a sandbox."""
        return self.sandbox != "none"


class Embryo:
    """A child that waits to be told which command it is to become; *report* is what it must not hold open."""

    def __init__(self, report: socket.socket, open_files: tuple[int, int]) -> None:
        reader, self._writer = os.pipe()
        self._channel, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            report.close()
            self._channel.close()
            os.close(self._writer)
            _become(reader, theirs, open_files)
        theirs.close()
        os.close(reader)
        self._identity = _identity(self.pid)

    def prepare(self, request: dict[str, object]) -> None:
        """Tell it what it is to become, so that it gets ready to."""
        with contextlib.suppress(ConnectionError):  # it is dead, which `start` tells
            self._channel.sendall(json.dumps(request).encode() + b"\n")

    def start(self, command: Command) -> int | None:
        """
        Let *command*, for which it was prepared, go, with the working directory as its home; `confirm` says if it went.

        The answer is the writing end of its standard input. Its record is durable before the command is let go, and
        `started.json`, so that no retry can ever start it a second time. Raises CannotStart; then nothing runs and
        there is no `started.json`.
        """
        with self._or_never():
            if problem := _limits.why_not(command.limits):
                raise CannotStart(problem)
            if self._identity is None:
                raise CannotStart("/proc does not show the processes of this machine")
            _files.put_json(".", "started.json", {**self._identity, "started_at": time.time()})
            _files.sync(*DURABLE)  # meanwhile the child prepares itself
            _expect(self._channel, READY)
            self._channel.sendall(READY)
        if command.stdin == "pipe":
            os.set_blocking(self._writer, False)
            return self._writer
        return None

    def confirm(self, command: Command) -> None:
        """Wait until *command*, which was let go, has taken over; raises CannotStart as `start` does."""
        with self._or_never():
            if command.is_sandboxed:
                _expect_inside(self._channel)
            _expect(self._channel, b"")  # the end of the channel: it closes when the command takes over
        self._channel.close()
        if command.stdin != "pipe":
            os.close(self._writer)

    def has_died(self) -> bool:
        """Whether it was killed while it waited; then nothing is left of it."""
        if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            return False
        self._close()
        return True

    def give_up(self) -> None:
        """End it as it is."""
        self._close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _close(self) -> None:
        self._channel.close()
        os.close(self._writer)

    @contextlib.contextmanager
    def _or_never(self) -> Iterator[None]:
        """Whatever goes wrong meanwhile, nothing was started and nothing will be."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(FileNotFoundError):
                os.unlink("started.json")
            self.give_up()
            if isinstance(error, OSError):
                raise CannotWrite(f"the agent's folder cannot be written: {error.strerror}") from error
            raise


def _identity(pid: int) -> dict[str, object] | None:
    """What tells the process *pid* and this one from all others."""
    found, own = _proc.stat(pid), _proc.stat(os.getpid())
    if found is None or own is None:
        return None
    return {
        "pid": pid,
        "ticks": found.ticks,
        "supervisor_pid": os.getpid(),
        "supervisor_ticks": own.ticks,
        "boot_id": _proc.boot_id(),
    }


def _expect(channel: socket.socket, wanted: bytes) -> None:
    said = _answer(channel)
    if said != wanted:
        raise CannotStart(said.decode(errors="replace") or "its process was killed before the command could start")


def _expect_inside(channel: socket.socket) -> None:
    answer = _answer(channel)
    if answer != READY:
        said = answer or _files.read_bytes("stderr.log") or b"bubblewrap said nothing"
        raise CannotStart(f"the sandbox cannot be set up: {said[:SAID].decode(errors='replace').strip()}")


def _answer(channel: socket.socket) -> bytes:
    try:
        return channel.recv(65536)
    except ConnectionError:
        return b""


def _become(stdin: int, channel: socket.socket, open_files: tuple[int, int]) -> None:
    """Turn this child into the command that *channel* tells of; never returns."""
    try:
        os.setsid()
        rehearse()
        line = heard(channel)
        if line:
            command = Command(json.loads(line))
            program = _prepare(command, stdin, open_files)
            channel.sendall(READY)
            if channel.recv(1) == READY:  # otherwise the supervisor died, and nobody would look after the command
                _execute(program, command, channel)
    except CannotStart as error:
        channel.sendall(str(error).encode(errors="replace"))
    except BaseException as error:
        channel.sendall(f"cannot be prepared: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


def rehearse() -> None:
    """
    Go through what a start does, to no effect, while there is time: the first run of anything in a forked process is
    slow, because every page it touches is copied then.
    """
    command = Command(json.loads(json.dumps(REHEARSED)))
    _limits.why_not(command.limits)
    with contextlib.suppress(CannotStart):
        _found(command)


def heard(channel: socket.socket) -> bytes:
    """The line that comes over *channel*, waited for; nothing when it closes first."""
    pieces: list[bytes] = []
    while not (pieces and pieces[-1].endswith(b"\n")):
        pieces.append(channel.recv(1 << 18))
        if not pieces[-1]:
            return b""
    return b"".join(pieces)


def _prepare(command: Command, stdin: int, open_files: tuple[int, int]) -> bytes:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    outputs = [os.open(f"{command.home}/{name}.log", flags, 0o600) for name in ("stdout", "stderr")]
    if command.stdin != "pipe":
        stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for target, source in enumerate((stdin, *outputs)):
        os.dup2(source, target)
    try:
        os.chdir(command.cwd)
    except OSError as error:
        raise CannotStart(f"its folder {command.cwd!r} cannot be entered: {error.strerror}") from None
    _hold(command, open_files)
    os.umask(0o022)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    return _found(command)


def _hold(command: Command, open_files: tuple[int, int]) -> None:
    try:
        _limits.hold_by_kernel(command.limits, open_files)
    except (OSError, ValueError) as error:
        raise CannotStart(f"its limits cannot be set: {error}") from None


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
    argv = command.argv
    try:
        if command.is_sandboxed:
            argv = _enclosed(program, command)
            program = argv[0]
            os.dup2(channel.fileno(), _sandbox.CHANNEL)
        os.execve(program, argv, command.env)  # noqa: S606
    except OSError as error:
        shown = os.fsdecode(program)
        reasons = {
            errno.ENOEXEC: f"{shown!r} is neither a program nor a script with a '#!' line",
            errno.ENOENT: f"the interpreter or loader that {shown!r} names does not exist",
            errno.E2BIG: f"the arguments and environment of {shown!r} are longer than the kernel allows",
        }
        raise CannotStart(reasons.get(error.errno or 0, f"{shown!r} cannot be executed: {error.strerror}")) from None


def _enclosed(program: bytes, command: Command) -> list[bytes]:
    try:
        return _sandbox.enclosed(
            program,
            command.argv,
            command.folder,
            has_network=command.has_network,
            keeps_tmpdir=command.keeps_tmpdir,
        )
    except _sandbox.CannotEnclose as error:
        raise CannotStart(str(error)) from None


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _pairs(value: object) -> list[tuple[str, str]]:
    return [(str(name), str(item)) for name, item in value.items()] if isinstance(value, dict) else []
