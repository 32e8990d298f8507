"""Processes as /proc shows them. Standard library only: the keeper loads it too."""

# ruff: noqa: PTH208
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files
else:
    import _files  # in the keeper, which runs as a file and must not load the package

__all__ = ["Stat", "boot_id", "children", "is_alive", "kill_family", "send_signal", "stat", "walk"]

STOP_ROUNDS = 100


class Stat:
    """
    What the kernel says of one process. `ticks` is its start, which with the pid names it for as long as we run;
    `cpu_ticks` is what it has used, and its children whom it has waited for.
    """

    __slots__ = ("cpu_ticks", "group", "parent", "pid", "state", "ticks")

    def __init__(self, pid: int, line: bytes) -> None:
        fields = line[line.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.cpu_ticks = sum(map(int, fields[11:15]))
        self.ticks = int(fields[19])


def stat(pid: int) -> Stat | None:
    """The process *pid*, None when there is none."""
    line = _files.read_bytes(f"/proc/{pid}/stat")
    return Stat(pid, line) if line else None


def is_alive(pid: int, ticks: int) -> bool:
    """Whether the very process that started at *ticks* still runs. A zombie does not: nobody may ever reap it."""
    found = stat(pid)
    return found is not None and found.ticks == ticks and found.state not in "ZX"


def boot_id() -> str:
    """What tells this boot of the machine from every other."""
    return (_files.read_bytes("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def walk(pid: int) -> Iterator[int]:
    """The children of *pid* and theirs, each as soon as it is seen. One walk may miss some: repeat it."""
    seen: set[int] = set()
    front = [pid]
    while front:
        for child in children(front.pop()):
            if child not in seen:
                seen.add(child)
                front.append(child)
                yield child


def send_signal(pid: int, number: int, is_ours: Callable[[Stat], bool]) -> None:
    """
    Signal *pid*, provided that it is there and *is_ours* says so of it.

    Between finding a pid and signalling it the process may be gone and the number a stranger's. The descriptor pins
    the process; the look at it comes after, so a stranger is never hit.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            found = stat(pid)
            if found is not None and is_ours(found):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def kill_family(find: Callable[[], Iterable[int]], is_ours: Callable[[Stat, set[int]], bool]) -> set[int]:
    """
    Kill all that *find* finds and *is_ours* confirms, given those already found; they are the answer.

    Each is stopped as soon as it is found, until no new one turns up, so that none can fork while others are killed.
    """
    family: set[int] = set()
    for _ in range(STOP_ROUNDS):
        known = len(family)
        for pid in find():
            if pid not in family:
                family.add(pid)
                send_signal(pid, signal.SIGSTOP, lambda found: is_ours(found, family))
        if len(family) == known:
            break
    for pid in family:
        send_signal(pid, signal.SIGKILL, lambda found: is_ours(found, family))
    return family


def children(pid: int) -> list[int]:
    """The children of *pid* as they are now."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    lists = (_files.read_bytes(f"/proc/{pid}/task/{thread}/children") or b"" for thread in threads)
    return [int(child) for children in lists for child in children.split()]
