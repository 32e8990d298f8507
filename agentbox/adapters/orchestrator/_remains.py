"""What a killed supervisor left: found by its marker, ended, and written down. Standard library only."""

# ruff: noqa: PTH109, PTH110, PTH208
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files, _proc
else:
    import _files
    import _proc

__all__ = ["LOCK", "is_settled", "marker", "settle", "signal_name"]

LOCK = "."
"""The agent's folder itself: a file more would have to be made for each agent."""
PAUSE_SECONDS = 0.01


def marker(agent_id: str, home: str) -> dict[str, str]:
    """The variables that tell an agent's processes from everybody else's."""
    return {"AGENTBOX_AGENT_ID": agent_id, "AGENTBOX_AGENT_HOME": home}


def is_settled(agent_id: str) -> bool:
    """Whether all is known of the agent in the working directory's folder of that name, or nothing ever will be."""
    return os.path.exists(f"{agent_id}/exit.json") or not os.path.exists(f"{agent_id}/record.json")


def settle(agent_id: str, status: int | None, *, was_ended: bool, is_final: bool) -> None:
    """
    Write down how the agent ended, if its supervisor is gone and did not; first end all that carries its marker.

    *status* is how its command ended, where that was learned; *was_ended* says that processes of it were ended
    already. With *is_final* what was never started never will be.
    """
    home = f"{os.getcwd()}/{agent_id}"
    try:
        os.chdir(home)
        lock = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # somebody is removing the folder
    fcntl.flock(lock, fcntl.LOCK_EX)  # one that is being started is waited for
    if os.path.exists("exit.json"):
        return
    started = _files.read_json("started.json")
    if started is None:
        if is_final:
            _files.sync("record.json", "..")
            _write(None, "lost", "it was never started: it was ended first, or whoever was about to start it is gone")
        return
    if started["boot_id"] != _proc.boot_id():
        _write(None, "lost", "the machine was restarted while it ran")
    elif not _proc.is_alive(_number(started, "supervisor_pid"), _number(started, "supervisor_ticks")):
        _settle_started(agent_id, home, started, status, was_ended)


def _settle_started(agent_id: str, home: str, started: dict[str, object], status: int | None, was_ended: bool) -> None:
    command = _number(started, "pid")
    was_alive = _proc.is_alive(command, _number(started, "ticks"))
    found = _kill_marked(agent_id, home)
    if status is None and was_alive and command in found:
        status = signal.SIGKILL
    left = "what was left of it was ended" if was_ended or found else "nothing of it was left"
    reason = f"its supervisor (pid {started['supervisor_pid']}) was killed; {left}"
    _write(status, "lost" if status is None else "exited", reason)


def _write(status: int | None, kind: str, reason: str) -> None:
    signalled = status is not None and os.WIFSIGNALED(status)
    ended: dict[str, object] = {
        "status": kind,
        "exit_code": None if status is None or signalled else os.waitstatus_to_exitcode(status),
        "signal": signal_name(os.WTERMSIG(status)) if status is not None and signalled else None,
        "reason": reason,
        "ended_at": time.time(),
    }
    _files.write_json(".", "exit.json", ended, replace=False)


def signal_name(number: int) -> str:
    """A signal's name, real-time ones too."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _kill_marked(agent_id: str, home: str) -> set[int]:
    """Kill those that carry the marker, and their descendants, whose environment may have been cleared."""
    wanted = {f"{name}={value}".encode() for name, value in marker(agent_id, home).items()}

    def find() -> Iterator[int]:
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            if _is_marked(pid, wanted):
                yield pid
                yield from _proc.walk(pid)

    ended: set[int] = set()
    while found := _proc.kill_family(find, lambda seen, family: seen.parent in family or _is_marked(seen.pid, wanted)):
        ended |= found
        time.sleep(PAUSE_SECONDS)
    return ended


def _is_marked(pid: int, wanted: set[bytes]) -> bool:
    try:
        environ = _files.read_bytes(f"/proc/{pid}/environ")
    except OSError:
        return False  # another user's, or a kernel thread
    return environ is not None and wanted <= set(environ.split(b"\0"))


def _number(started: dict[str, object], name: str) -> int:
    return int(str(started[name]))
