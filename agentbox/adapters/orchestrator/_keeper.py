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

import contextlib
import ctypes
import fcntl
import functools
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _blanks, _child, _files, _proc, _remains, _supervisor
    from agentbox.adapters.orchestrator._burials import Burials, is_started, living, note, supervisor_of
    from agentbox.adapters.orchestrator._children import Child
    from agentbox.adapters.orchestrator._lines import STRANGER, Lines, is_stranger, listen
    from agentbox.adapters.orchestrator._turns import Turns
else:
    import _blanks
    import _child
    import _files
    import _proc
    import _remains
    import _supervisor
    from _burials import Burials, is_started, living, note, supervisor_of
    from _children import Child
    from _lines import STRANGER, Lines, is_stranger, listen
    from _turns import Turns

__all__ = ["PROTOCOL", "SOCKET", "main"]

PROTOCOL = 3
SOCKET = "keeper.sock"
FIRST_CLIENT_SECONDS = 2.0
BURIAL_SECONDS = 0.01
SPARE_SECONDS = 2.0
"""How long a supervisor stands by for the next start: starts come in rows, and an idle folder costs nothing more."""

SPARE_BYTES = 64 * 1024
"""The longest request that surely fits into a socket's buffer: a keeper never waits for a spare to read."""

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36

Request = dict[str, object]


class Keeper:
    """The loop. It never blocks: what takes time is done by supervisors and helpers."""

    def __init__(self, listener: socket.socket, idle_seconds: float, open_files: tuple[int, int]) -> None:
        self._listener = listener
        self._idle_seconds = idle_seconds
        self._open_files = open_files
        self._clients: dict[int, Lines] = {}
        self._behind: set[Lines] = set()
        self._children: dict[int, Child] = {}
        self._reports: dict[int, Lines] = {}
        self._adopted: dict[int, str] = {}
        self._spare: int | None = None
        self._wants_spare = False
        self._spare_until = 0.0
        self._turns = Turns()
        self._burials = Burials()
        self._prctl = ctypes.CDLL(None).prctl
        self._prctl(PR_SET_NAME, b"agentbox-keeper")
        # What a killed supervisor leaves comes to the keeper then, and to nobody else.
        self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        """Serve until nobody needs a keeper any more."""
        for agent_id in living():
            self._look_at(agent_id)
        idle_since = time.monotonic() + FIRST_CLIENT_SECONDS
        while True:
            left = self._patience(idle_since)
            if left is not None and left < 0:
                return
            for descriptor, _ in self._epoll.poll(left):
                self._handle(descriptor)
                idle_since = time.monotonic()
            with contextlib.suppress(OSError):  # no descriptor to be had, perhaps: tried again
                for agent_id, status, was_ended in self._burials.advance({c.pid for c in self._children.values()}):
                    self._help(agent_id, status, was_ended)
            self._turns.grant(self._running())
            while self._has_lost_some():  # a turn may have been theirs
                self._turns.grant(self._running())
            self._see_to_spare()

    def _patience(self, idle_since: float) -> float | None:
        """Seconds until something has to be done by itself; negative when there is nothing to be done any more."""
        if self._burials.is_busy:
            return BURIAL_SECONDS
        if self._spare is not None:
            return max(self._spare_until - time.monotonic(), 0)
        if self._clients or self._children or self._adopted:
            return None
        left = idle_since + self._idle_seconds - time.monotonic()
        return left if left > 0 else -1

    def _handle(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            self._listen_to(descriptor)
        elif descriptor in self._reports:
            self._hear_child(descriptor)
        elif descriptor in self._adopted:
            self._epoll.unregister(descriptor)
            os.close(descriptor)
            self._look_at(self._adopted.pop(descriptor))

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self._clients[connection.fileno()] = Lines(connection, self._behind, is_stranger(connection))
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    def _listen_to(self, descriptor: int) -> None:
        client = self._clients[descriptor]
        if client.has_unsent and client.flush():
            self._epoll.modify(descriptor, select.EPOLLIN)
        for request in client.read():
            self._answer(client, request)
        if not client.is_open:
            self._lose(client)

    def _has_lost_some(self) -> bool:
        """Forget clients that left while they were answered; those who are only behind get the rest when they can."""
        gone = [client for client in self._behind if not client.is_open]
        for client in self._behind.difference(gone):
            self._epoll.modify(client.number, select.EPOLLIN | select.EPOLLOUT)
        self._behind.clear()
        for client in gone:
            self._lose(client)
        return bool(gone)

    def _lose(self, client: Lines) -> None:
        if self._clients.get(client.number) is client:  # the number may be another's by now
            del self._clients[client.number]
        self._turns.gone(client)

    def _answer(self, client: Lines, request: Request) -> None:
        if client.is_stranger:
            client.answer(request, error="unavailable", message=f"the keeper does not answer: {STRANGER}")
            return
        try:
            self._do(client, request)
        except OSError as error:
            client.answer(request, error="unavailable", message=f"the keeper cannot do that: {error.strerror}")
        except (KeyError, ValueError) as error:
            client.answer(request, error="unavailable", message=f"the keeper cannot do that: {error!r}")

    def _do(self, client: Lines, request: Request) -> None:
        match request.get("op"):
            case "hello":
                client.answer(request, protocol=PROTOCOL, pid=os.getpid())
            case "turn":
                self._turns.ask(client, request, self._running())
            case "leave":
                self._turns.leave(client, request.get("ticket"))
            case "settle":
                self._settle(client, request)
            case "start":
                self._start(client, request)
            case unknown:
                client.answer(request, error="failed", message=f"this keeper knows no {unknown!r}")

    def _start(self, client: Lines, request: Request) -> None:
        agent_id, ticket = str(request["id"]), request.get("ticket")
        if ticket is not None and not self._turns.use(client, ticket) and not is_started(agent_id):
            client.answer(request, error="turn")  # another keeper gave it, and took it along when it died
            return
        note(agent_id)
        line = json.dumps(request).encode() + b"\n"
        child = Child(agent_id, client, {"n": request.get("n")})
        if not self._given_to_spare(child, line):
            self._fork(child, functools.partial(_supervisor.stand_by, line, self._open_files))
        self._wants_spare = True

    def _given_to_spare(self, child: Child, line: bytes) -> bool:
        """Whether a spare has taken what *child* is to do."""
        descriptor = self._spare
        if descriptor is None or len(line) > SPARE_BYTES:
            return False
        self._spare = None
        try:
            self._reports[descriptor].socket.sendall(line)
        except OSError:
            return False  # it was killed
        child.pid = self._children[descriptor].pid
        self._children[descriptor] = child
        return True

    def _see_to_spare(self) -> None:
        """Have a spare when more starts may come and nobody waits for one; let it go when none have come."""
        if self._spare is not None:
            if not self._clients or time.monotonic() >= self._spare_until:
                self._reports[self._spare].socket.shutdown(socket.SHUT_WR)
                self._spare = None
        elif self._wants_spare and not any(child.request for child in self._children.values()):
            self._wants_spare = False
            with contextlib.suppress(OSError):  # no room for another process
                self._spare = self._fork(Child(), functools.partial(_supervisor.stand_by, b"", self._open_files))
                self._spare_until = time.monotonic() + SPARE_SECONDS

    def _help(self, agent_id: str, status: int | None, was_ended: bool) -> None:
        is_final = self._burials.is_final(agent_id)

        def work(report: socket.socket) -> None:
            _remains.settle(agent_id, status, was_ended=was_ended, is_final=is_final)

        try:
            self._fork(Child(agent_id), work)
        except OSError:
            self._burials.add(agent_id)  # no room for another process: tried again

    def _fork(self, child: Child, work: Callable[[socket.socket], None]) -> int:
        """Have a new process do *work*; the descriptor by which it reports."""
        ours, theirs = socket.socketpair()
        child.pid = os.fork()
        if child.pid == 0:
            self._become(theirs, work, b"agentbox-helper" if child.is_helper else b"agentbox-superv")
        theirs.close()
        self._children[ours.fileno()] = child
        self._reports[ours.fileno()] = Lines(ours)
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        return ours.fileno()

    def _hear_child(self, descriptor: int) -> None:
        """Pass on how the start went; the end of the line is the end of the child."""
        child, report = self._children[descriptor], self._reports[descriptor]
        for news in report.read():
            self._tell(child, **{name: value for name, value in news.items() if name != "n"})
        if report.is_open:
            return
        self._tell(child, error="unavailable", message="its supervisor ended before it started")
        del self._children[descriptor], self._reports[descriptor]
        os.waitpid(child.pid, 0)
        if child.is_spare:
            self._spare = None if self._spare == descriptor else self._spare
            _blanks.forget(child.pid)
            self._burials.tidy()  # it may have been killed, and its own child is ours now
            return
        self._look_at(child.agent_id, is_settled=child.is_helper)

    def _tell(self, child: Child, **news: object) -> None:
        if child.client is not None and child.request:
            child.client.answer(child.request, **news)
            child.request = {}

    def _look_at(self, agent_id: str, *, is_settled: bool = False) -> None:
        """See who stands over an agent, and if nobody does, to its end."""
        if self._stands_over(agent_id):
            return
        try:
            watched = supervisor_of(agent_id)
        except OSError:  # what it wrote cannot be read now
            self._burials.add(agent_id)
            return
        if watched is not None:
            self._adopted[watched] = agent_id
            self._epoll.register(watched, select.EPOLLIN)
        elif is_settled or _remains.is_settled(agent_id):
            self._burials.over(agent_id)
        else:
            self._burials.add(agent_id)

    def _settle(self, client: Lines, request: Request) -> None:
        """Answer when all is known of an agent that has no supervisor."""
        agent_id = str(request["id"])
        if (watched := supervisor_of(agent_id)) is not None:
            os.close(watched)
            client.answer(request, ok=True)
            return
        self._burials.wait(agent_id, client, request)
        self._look_at(agent_id)

    def _stands_over(self, agent_id: str) -> bool:
        """Whether a child or an adopted supervisor does, or a helper is seeing to its end."""
        return agent_id in {*self._adopted.values(), *(child.agent_id for child in self._children.values())}

    def _running(self) -> int:
        standing = len(self._adopted) + len(self._burials.waiting)
        return standing + sum(child.is_supervisor for child in self._children.values())

    def _become(self, report: socket.socket, work: Callable[[socket.socket], None], name: bytes) -> None:
        """Turn this child into one that does *work*; never returns."""
        try:
            os.setsid()
            self._let_go_of_descriptors(report.fileno())
            self._prctl(PR_SET_NAME, name)
            if self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
                raise OSError("the kernel refuses PR_SET_CHILD_SUBREAPER")
            work(report)
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
    _blanks.sweep()
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
