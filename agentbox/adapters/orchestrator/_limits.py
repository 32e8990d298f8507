"""
The limits of one agent as its supervisor holds them: over the whole tree, by looking. Standard library only.

The kernel's own limits are no help for most of this: an rlimit is one process's or one user's, and a fork away from
either. So the supervisor looks at the tree, and what exceeds a limit between two looks is seen at the next.
"""

# ruff: noqa: PTH116
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import ctypes
import math
import os
import resource
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files, _proc
else:
    import _files
    import _proc

__all__ = ["GENTLE", "Limits", "hold_by_kernel", "why_not"]

LOOK_SECONDS = 0.05
SHARE = 20
"""A look takes at most this part of the time, as a divisor: a large tree is looked at less often."""

GENTLE = frozenset({"wall_seconds", "idle_seconds"})
"""Limits that leave time for last words; whoever uses too much of something gets no more of it."""

LOOKED_FOR = ("output_bytes", "memory_bytes", "cpu_seconds", "processes")
OF_THE_TREE = frozenset({"memory_bytes", "cpu_seconds", "processes"})
TICKS = os.sysconf("SC_CLK_TCK")
CAP_SYS_RESOURCE = 24
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24


class Limits:
    """What the agent may use, and what it has used. *spared* of its processes are not its own but its sandbox's."""

    def __init__(self, bounds: dict[str, float], spared: int = 0) -> None:
        self._bounds = bounds
        self._spared = spared
        self._started = self._heard = self._looked = time.monotonic()
        self._interval = LOOK_SECONDS
        self._output = 0
        self._cpu = 0.0
        self._uncounted = 0.0

    def due(self) -> float:
        """When to look next, on the monotonic clock."""
        moments = [math.inf]
        if "wall_seconds" in self._bounds:
            moments.append(self._started + self._bounds["wall_seconds"])
        if "idle_seconds" in self._bounds:
            moments.append(self._heard + self._bounds["idle_seconds"])
        if any(name in self._bounds for name in LOOKED_FOR):
            moments.append(self._looked + self._interval)
        return min(moments)

    def exceeded(self) -> tuple[str, str] | None:
        """The limit that is exceeded, if one is, and a sentence about it."""
        began = time.monotonic()
        used = self._used(began)
        self._looked = time.monotonic()
        self._interval = max(LOOK_SECONDS, SHARE * (self._looked - began))
        for name, value in used.items():
            if value > self._bounds[name]:
                return name, _sentence(name, value, self._bounds[name])
        return None

    def _used(self, now: float) -> dict[str, float]:
        used = {"wall_seconds": now - self._started, "idle_seconds": self._silence(now), "output_bytes": self._output}
        if OF_THE_TREE & self._bounds.keys():
            used.update(self._of_the_tree())
        return {name: value for name, value in used.items() if name in self._bounds}

    def _silence(self, now: float) -> float:
        """How long nothing has been written."""
        output, written = 0, 0.0
        for name in ("stdout.log", "stderr.log"):
            size, at = _written(name)
            output, written = output + size, max(written, at)
        if output != self._output:
            # When it was written is told by another clock, which may be set: it must lie between two looks.
            self._heard = max(self._looked, min(now, now - (time.time() - written)))
            self._output = output
        return now - self._heard

    def _of_the_tree(self) -> dict[str, float]:
        tree = [found for pid in _proc.walk(os.getpid()) if (found := _proc.stat(pid)) is not None]
        used: dict[str, float] = {"processes": sum(found.state not in "ZX" for found in tree) - self._spared}
        if "cpu_seconds" in self._bounds:
            used["cpu_seconds"] = self._cpu_seconds(sum(found.cpu_ticks for found in tree) / TICKS)
        if "memory_bytes" in self._bounds:
            used["memory_bytes"] = self._memory_bytes([found.pid for found in tree])
        return used

    def _cpu_seconds(self, running: float) -> float:
        """
        What the tree has used, *running* being what those have who are still there, and whom they have waited for.

        It never grows less: where it seems to, somebody was not waited for, and is counted as far as it was seen.
        """
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = usage.ru_utime + usage.ru_stime + running
        self._uncounted += max(self._cpu - (total + self._uncounted), 0.0)
        self._cpu = total + self._uncounted
        return self._cpu

    def _memory_bytes(self, tree: list[int]) -> int:
        """First what is quick to have, which counts shared pages for everybody; only if that is too much, the truth."""
        total = sum(_kib(f"/proc/{pid}/status", (b"VmRSS:", b"VmSwap:")) for pid in tree)
        if 1024 * total > self._bounds["memory_bytes"]:
            total = sum(_shared_out(pid) for pid in tree)
        return 1024 * total


def hold_by_kernel(bounds: dict[str, float], open_files: tuple[int, int]) -> None:
    """
    Set, in the process that becomes the command, what the kernel itself holds; *open_files* is what it has anyway.

    Raises OSError. Root gives up with it the capability to raise its own limits.
    """
    if "open_files" in bounds:
        most = min(int(bounds["open_files"]), open_files[1])
        open_files = (most, most)
        _give_up_raising()
    resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    if "cpu_seconds" in bounds:  # for the case that the supervisor is killed: otherwise the tree's sum comes first
        seconds = math.ceil(bounds["cpu_seconds"]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _give_up_raising() -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    is_able = os.geteuid() == 0 and prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) == 1
    if is_able and prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the limit open_files cannot be held: root could raise it again")


def why_not(bounds: dict[str, float]) -> str:
    """Why these limits cannot be held on this machine; empty when they can."""
    needed = sorted(OF_THE_TREE & bounds.keys())
    own = f"/proc/self/task/{os.getpid()}/children"
    if needed and _files.read_bytes(own) is None:
        return f"{needed[0]} cannot be held here: the kernel does not tell a process's children ({own})"
    return ""


def _written(name: str) -> tuple[int, float]:
    """How long a file is, and when it was last written."""
    try:
        found = os.stat(name)
    except FileNotFoundError:  # the agent's folder was removed
        return 0, 0.0
    return found.st_size, found.st_mtime


def _kib(path: str, names: tuple[bytes, ...]) -> int:
    """The sum of the lines *names* of a file in /proc; nothing of a process that is gone."""
    try:
        data = _files.read_bytes(path) or b""
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in data.split(b"\n") if line.startswith(names))


def _shared_out(pid: int) -> int:
    """A process's memory in KiB, each page divided by the number of those who share it."""
    exact = _kib(f"/proc/{pid}/smaps_rollup", (b"Pss:", b"SwapPss:"))
    return exact or _kib(f"/proc/{pid}/status", (b"VmRSS:", b"VmSwap:"))


def _sentence(name: str, value: float, bound: float) -> str:
    return f"its limit {name} is {_told(bound)}, and it came to {_told(value)}: {_told(value - bound)} too much"


def _told(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:.3f}".rstrip("0")
