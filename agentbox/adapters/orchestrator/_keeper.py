"""
The keeper: one process per state folder, parent of every supervisor. Run as a file, with the standard library only.

    python -E -S -s _keeper.py <folder> <idle seconds>

The caller is left at once (two forks), so that it never has a child to reap. The first line of output is the result:
`ready`, `taken` when another keeper holds the folder, or what went wrong. It ends by itself when it has had neither a
client nor a supervisor for the idle seconds.
"""

# ruff: noqa: PTH108
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _child, _files, _proc, _supervisor
    from agentbox.adapters.orchestrator._lines import Lines, listen
else:
    import _child
    import _files
    import _proc
    import _supervisor
    from _lines import Lines, listen

__all__ = ["PROTOCOL", "SOCKET", "main"]

PROTOCOL = 1
SOCKET = "keeper.sock"
FIRST_CLIENT_SECONDS = 2.0
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


class Start:
    """A supervisor, and the request that waits to hear from it."""

    def __init__(self, pid: int, client: Lines, request: dict[str, object]) -> None:
        self.pid = pid
        self.client = client
        self.request = request


class Keeper:
    """The loop. It never blocks: what takes time is done by supervisors."""

    def __init__(self, listener: socket.socket, idle_seconds: float, open_files: tuple[int, int]) -> None:
        self._listener = listener
        self._idle_seconds = idle_seconds
        self._open_files = open_files
        self._clients: dict[int, Lines] = {}
        self._starts: dict[int, Start] = {}
        self._reports: dict[int, Lines] = {}
        self._prctl = ctypes.CDLL(None).prctl
        self._prctl(PR_SET_NAME, b"agentbox-keeper")
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        """Serve until nobody needs a keeper any more."""
        idle_since = time.monotonic() + FIRST_CLIENT_SECONDS
        while True:
            left = None
            if not self._clients and not self._starts:
                left = idle_since + self._idle_seconds - time.monotonic()
                if left <= 0:
                    return
            for descriptor, _ in self._epoll.poll(left):
                self._handle(descriptor)
                idle_since = time.monotonic()

    def _handle(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._listen_to(descriptor)
        elif descriptor in self._reports:
            self._hear_supervisor(descriptor)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self._clients[connection.fileno()] = Lines(connection)
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    def _listen_to(self, descriptor: int) -> None:
        client = self._clients[descriptor]
        for request in client.read():
            self._answer(client, request)
        if not client.is_open:
            del self._clients[descriptor]

    def _answer(self, client: Lines, request: dict[str, object]) -> None:
        match request.get("op"):
            case "hello":
                client.answer(request, protocol=PROTOCOL, pid=os.getpid())
            case "start":
                try:
                    self._start(client, request)
                except (OSError, KeyError) as error:
                    client.answer(request, error="unavailable", message=f"no supervisor can be started: {error!r}")
            case unknown:
                client.answer(request, error="failed", message=f"this keeper knows no {unknown!r}")

    def _start(self, client: Lines, request: dict[str, object]) -> None:
        command = _child.Command(request, self._open_files)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become_supervisor(str(request["id"]), command, theirs)
        theirs.close()
        self._starts[ours.fileno()] = Start(pid, client, {"n": request.get("n")})
        self._reports[ours.fileno()] = Lines(ours)
        self._epoll.register(ours.fileno(), select.EPOLLIN)

    def _hear_supervisor(self, descriptor: int) -> None:
        """Pass on how the start went; the end of the line is the end of the supervisor."""
        start, report = self._starts[descriptor], self._reports[descriptor]
        for news in report.read():
            start.client.answer(start.request, **{name: value for name, value in news.items() if name != "n"})
            start.request = {}
        if report.is_open:
            return
        if start.request:
            start.client.answer(start.request, error="unavailable", message="its supervisor ended before it started")
        del self._starts[descriptor], self._reports[descriptor]
        os.waitpid(start.pid, 0)

    def _become_supervisor(self, agent_id: str, command: _child.Command, report: socket.socket) -> None:
        """Turn this child into the supervisor of *agent_id*; never returns."""
        try:
            os.setsid()
            self._let_go_of_descriptors(report.fileno())
            self._prctl(PR_SET_NAME, b"agentbox-superv")
            if self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
                raise OSError("the kernel refuses PR_SET_CHILD_SUBREAPER")
            _supervisor.supervise(agent_id, command, report)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _let_go_of_descriptors(self, kept: int) -> None:
        """Close whatever was the keeper's. The objects forget theirs first, lest they close a successor's number."""
        for line in (*self._clients.values(), *self._reports.values()):
            if line.is_open:
                line.socket.detach()
        self._listener.detach()
        self._epoll.close()
        os.closerange(3, kept)
        os.closerange(kept + 1, 1 << 20)


def main(folder: str, idle_seconds: float) -> None:
    """Leave the caller, take the folder, serve it. Returns when the keeper's work is done, or at once as the loser."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.chdir(folder)
    lock = os.open("keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("taken")
        return
    _reset_signals()
    _remove_socket()
    keeper = Keeper(listen(SOCKET), idle_seconds, _raise_open_files())
    _write_identity()
    _say("ready")
    _leave_output()
    # A collection in a supervisor would copy every page it shares with the keeper; one here would leave holes in them.
    gc.freeze()
    keeper.serve()
    # The lock goes with the process, after the socket: a successor's socket is never removed.
    _remove_socket()


def _reset_signals() -> None:
    """Whatever the caller blocked or ignored is none of the agents' business."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in _child.IGNORED else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _raise_open_files() -> tuple[int, int]:
    """Allow as many agents as may be; agents get back what the keeper was given."""
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (given[1], given[1]))
    return given


def _write_identity() -> None:
    own = _proc.stat(os.getpid())
    ticks = own.ticks if own else 0
    _files.write_json(".", "keeper.json", {"pid": os.getpid(), "ticks": ticks, "boot_id": _proc.boot_id()})


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def _leave_output() -> None:
    """From here on complaints go to a file: whoever started the keeper waits for the end of its output."""
    log = os.open("keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for source, target in ((nowhere, 0), (nowhere, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nowhere)


def _remove_socket() -> None:
    try:
        os.unlink(SOCKET)
    except FileNotFoundError:
        return


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
