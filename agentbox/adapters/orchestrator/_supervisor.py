"""The process that stands over one agent: starts it, ends all that it started, writes how it ended."""

# ruff: noqa: PTH108, PTH109, PTH110
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _blanks, _child, _files, _proc
    from agentbox.adapters.orchestrator._input import Input
    from agentbox.adapters.orchestrator._limits import GENTLE, Limits
    from agentbox.adapters.orchestrator._lines import STRANGER, Lines, is_stranger, listen
    from agentbox.adapters.orchestrator._remains import LOCK, signal_name
    from agentbox.adapters.orchestrator._sandbox import PROCESSES
else:
    import _blanks
    import _child
    import _files
    import _proc
    from _input import Input
    from _limits import GENTLE, Limits
    from _lines import STRANGER, Lines, is_stranger, listen
    from _remains import LOCK, signal_name
    from _sandbox import PROCESSES

__all__ = ["CONTROL", "stand_by"]

CONTROL = "control.sock"
LEFTOVER_PATIENCE = 0.1
LEFTOVER_GRACE = 2.0
SHUTDOWN_GRACE = 5.0
LIMIT_GRACE = 2.0
KILL_INTERVAL = 0.01
REAPED_AT_ONCE = 256
EXIT_ATTEMPTS = 30
IDLE_SECONDS = 0.002
"""Starts that follow each other more quickly than this leave no time to make anything beforehand."""


def stand_by(line: bytes, open_files: tuple[int, int], report: socket.socket) -> None:
    """
    Stand over the agent that the request *line* is about, or when that is empty, over one that *report* will tell of.

    All that can be done before it is known is done first. When *report* closes instead, nothing was to be started.
    """
    embryo, listener = _child.Embryo(report, open_files), None
    if not line:
        _rehearse()
        if _is_idle(report, IDLE_SECONDS):
            listener = _blanks.listening()
        if _is_idle(report):
            _blanks.make_home()
        line = _child.heard(report)
    if line and embryo.has_died():
        embryo = _child.Embryo(report, open_files)
    if not line or not _supervise(json.loads(line), embryo, report, listener):
        embryo.give_up()


def _is_idle(report: socket.socket, seconds: float = 0.0) -> bool:
    """Whether nothing comes by *report* for so long, so that there is time for what makes a start quicker."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    return not poll.poll(1000 * seconds)


def _rehearse() -> None:
    """As the embryo does: go through a start, to no effect, before there is one."""
    _child.rehearse()
    with contextlib.suppress(OSError):
        _files.sync(*[os.devnull] * len(_child.DURABLE))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        _tell(ours, pid=0)
        Lines(theirs).read()
    os.path.exists(f"{_child.NOWHERE}/exit.json")
    _unlink(f"{_child.NOWHERE}/{CONTROL}")
    Limits({}).due()


def _supervise(
    request: dict[str, object], embryo: _child.Embryo, report: socket.socket, listener: socket.socket | None
) -> bool:
    """
    Have *embryo* become the agent of *request*, tell *report*, and stay until nothing of it is left.

    Whoever comes second waits at the lock until it is known how the first fared; what was started once is not started
    again: then the answer is False, and *embryo* as it was.
    """
    embryo.prepare(request)
    command = _child.Command(request)
    try:
        os.chdir(command.home)
        lock = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        _tell(report, error="gone")
        return False
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists("started.json") or os.path.exists("exit.json"):
        _tell(report, already=True)
        return False
    if not os.path.exists("record.json"):
        _tell(report, error="gone")
        return False
    _start(command, embryo, report, listener, lock)
    return True


def _start(
    command: _child.Command, embryo: _child.Embryo, report: socket.socket, listener: socket.socket | None, lock: int
) -> None:
    listener = _reachable(listener)
    try:
        stdin = embryo.start(command)
        limits = Limits(command.limits, spared=PROCESSES if command.is_sandboxed else 0)
        supervisor = Supervisor(embryo.pid, Input(stdin), listener, limits, is_sandboxed=command.is_sandboxed)
        embryo.confirm(command)
    except _child.CannotStart as error:
        _withdraw()
        _tell(report, error="disk" if isinstance(error, _child.CannotWrite) else "spawn", message=str(error))
        return
    os.close(lock)
    _tell(report, pid=embryo.pid)
    supervisor.run()


def _reachable(listener: socket.socket | None) -> socket.socket:
    """*listener*, or a new one, under the name by which it is known in the agent's folder."""
    if listener is not None and _blanks.socket_named(CONTROL):
        return listener
    _unlink(CONTROL)
    return listen(CONTROL)


class Supervisor:
    """An agent that runs, and what has been asked about it."""

    def __init__(self, pid: int, stdin: Input, listener: socket.socket, limits: Limits, *, is_sandboxed: bool) -> None:
        self._pid = pid
        self._is_sandboxed = is_sandboxed
        self._limits = limits
        self._limit: str | None = None
        self._stdin = stdin
        self._listener = listener
        self._clients: dict[int, Lines] = {}
        self._waiting: list[tuple[Lines, dict[str, object]]] = []
        self._status: int | None = None
        self._ended = 0.0
        self._deadline: float | None = None
        self._kills = 0
        self._reason = ""
        self._stop = False
        self._watched = -1
        self._poll = select.poll()
        self._wake = _wake_on_signals(self._asked_to_stop)
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(listener, select.POLLIN)

    def run(self) -> None:
        """Serve until no descendant is left, which is when `waitpid` has nothing to wait for."""
        while not self._reaped():
            self._advance()
            for descriptor, _ in self._poll.poll(self._patience()):
                self._serve(descriptor)
                self._watch_input()
        self._write_exit()
        _unlink(CONTROL)
        for client, request in self._waiting:
            client.answer(request, ok=True)

    def _reaped(self) -> bool:
        """Take note of who ended. True when nobody is left; a bounded number at a time, for some never stop forking."""
        for _ in range(REAPED_AT_ONCE):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                break
            if pid == self._pid:
                self._status, self._ended = status, time.monotonic()
                self._stdin.close()
                self._watch_input()
        return False

    def _advance(self) -> None:
        if self._stop and self._deadline is None:
            self._reason = "its supervisor was asked to stop"
            self._end(SHUTDOWN_GRACE)
        if self._limit is None and time.monotonic() >= self._limits.due():
            self._look_at_limits()
        if self._is_leaving and time.monotonic() >= self._ended + LEFTOVER_PATIENCE:
            self._reason = "processes that it left behind were ended"
            self._end(LEFTOVER_GRACE)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._kills += 1
            _kill_descendants()

    @property
    def _is_leaving(self) -> bool:
        """Whether the command has ended by itself and others have not. Most are about to: the end of a pipeline."""
        return self._status is not None and self._deadline is None

    def _look_at_limits(self) -> None:
        if (found := self._limits.exceeded()) is not None:
            self._limit, self._reason = found
            self._end(LIMIT_GRACE if self._limit in GENTLE else 0)

    def _patience(self) -> float | None:
        """Milliseconds until something has to be done by itself."""
        now = time.monotonic()
        due = self._limits.due() if self._limit is None else math.inf
        if self._deadline is not None:
            # What cannot be killed at once (it waits for a disk, or is another's) is tried again, ever more rarely.
            due = min(due, self._deadline if self._deadline > now else now + KILL_INTERVAL * min(self._kills, 100))
        elif self._is_leaving:
            due = min(due, self._ended + LEFTOVER_PATIENCE)
        return None if due == math.inf else 1000 * max(due - now, 0)

    def _end(self, grace: float) -> None:
        """Ask everything to end, or shorten the grace if that was done."""
        deadline = time.monotonic() + grace
        if self._deadline is not None:
            self._deadline = min(self._deadline, deadline)
            return
        self._deadline = deadline
        # A sandbox ends with its first process, at once: that one is not told, so that those inside have their grace.
        group = self._pid if self._status is None and not self._is_sandboxed else None
        spared = self._pid if self._is_sandboxed else None
        for number in (signal.SIGTERM, signal.SIGCONT):  # what is stopped cannot hear SIGTERM
            _signal_descendants(number, group, spared)

    def _serve(self, descriptor: int) -> None:
        if descriptor == self._wake:
            os.read(self._wake, 4096)
        elif descriptor == self._listener.fileno():
            self._accept()
        elif descriptor == self._stdin.descriptor:
            self._stdin.flush()
        elif (client := self._clients.get(descriptor)) is not None:
            requests = client.read()
            for request in requests:
                self._handle(client, request)
            if not client.is_open:
                self._poll.unregister(descriptor)
                del self._clients[descriptor]

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self._clients[connection.fileno()] = Lines(connection, is_stranger=is_stranger(connection))
        self._poll.register(connection, select.POLLIN)

    def _handle(self, client: Lines, request: dict[str, object]) -> None:
        match request.get("op"):
            case _ if client.is_stranger:
                client.answer(request, error="unavailable", message=f"the supervisor does not answer: {STRANGER}")
            case "ping":
                client.answer(request, pid=self._pid)
            case "send":
                client.answer(request, **self._stdin.take(request, is_over=self._status is not None))
            case "terminate":
                self._waiting.append((client, request))
                self._reason = self._reason or "ended by terminate"
                self._end(float(str(request.get("grace_seconds", 0))))
            case unknown:
                client.answer(request, error="failed", message=f"a supervisor knows no {unknown!r}")

    def _watch_input(self) -> None:
        """Look at the agent's standard input only while something waits for it: otherwise it is always ready."""
        wanted = self._stdin.descriptor if self._stdin.has_waiting else -1
        if wanted == self._watched:
            return
        if self._watched >= 0:
            self._poll.unregister(self._watched)
        if wanted >= 0:
            self._poll.register(wanted, select.POLLOUT)
        self._watched = wanted

    def _asked_to_stop(self, *_: object) -> None:
        self._stop = True

    def _write_exit(self) -> None:
        status = self._status or 0
        signalled = os.WIFSIGNALED(status)
        ended: dict[str, object] = {
            "status": "exited",
            "exit_code": None if signalled else os.waitstatus_to_exitcode(status),
            "signal": signal_name(os.WTERMSIG(status)) if signalled else None,
            "reason": self._reason,
            "limit": self._limit,
            "ended_at": time.time(),
            "input_keys": list(self._stdin.keys),
        }
        for _ in range(EXIT_ATTEMPTS):
            try:
                _files.write_json(".", "exit.json", ended, replace=False)
                return
            except FileNotFoundError:
                return  # the agent's folder was removed: nobody is left to read it
            except OSError as error:
                print(f"{os.getcwd()}: exit.json: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the keeper's log
                time.sleep(1)  # a full disk may have room again


def _wake_on_signals(on_stop: object) -> int:
    """A descriptor that becomes readable when a child ended or this process was asked to stop."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_stop)  # type: ignore[arg-type]
    return reader


def _signal_descendants(number: int, group: int | None, spared: int | None) -> None:
    """Signal the command's group in one stroke, while its number is surely its own, then whoever left the group."""
    if group is not None:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    tree = set(_proc.walk(os.getpid()))
    for pid in tree:
        found = _proc.stat(pid)
        if found is not None and pid != spared and (group is None or found.group != group):
            _proc.send_signal(pid, number, lambda found: found.parent in tree or found.parent == os.getpid())


def _kill_descendants() -> None:
    own = os.getpid()
    _proc.kill_family(lambda: _proc.walk(own), lambda found, family: found.parent == own or found.parent in family)


def _withdraw() -> None:
    """Nothing was started and nothing will be: without its record, no retry can start something in this folder."""
    _unlink("record.json")
    _unlink(CONTROL)


def _tell(report: socket.socket, **members: object) -> None:
    Lines(report).answer({}, **members)


def _unlink(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
