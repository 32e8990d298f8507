"""Ending what a dead supervisor left: its processes are known by a marker in their environment."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from agentbox.adapters.orchestrator import _files, _proc
from agentbox.adapters.orchestrator._environment import marker
from agentbox.adapters.orchestrator._records import Records

__all__ = ["end_lost", "marked"]

INTERVAL = 0.02


async def end_lost(records: Records, agent_id: str, grace_seconds: float) -> None:
    """
    End every process of an agent without a supervisor, and write down that nothing of it is left.

    How the command ended stays unknown, unless it took SIGKILL to end it.
    """
    home, started = records.home(agent_id), records.started(agent_id)
    killed = False
    told: set[int] = set()
    deadline = time.monotonic() + grace_seconds
    while left := await asyncio.to_thread(_signal_marked, agent_id, home, signal.SIGTERM, told):
        if time.monotonic() >= deadline:
            killed = started is not None and _proc.is_alive(started.pid, started.ticks)
            break
        told |= left
        await asyncio.sleep(INTERVAL)
    await asyncio.to_thread(_kill_marked, agent_id, home)
    await asyncio.to_thread(_files.write_json, home, "exit.json", _ended(killed), replace=False)


def _ended(killed: bool) -> dict[str, object]:
    return {
        "status": "exited" if killed else "lost",
        "exit_code": None,
        "signal": "SIGKILL" if killed else None,
        "reason": "it had lost its supervisor; whatever was left of it was ended by terminate",
        "ended_at": time.time(),
    }


def marked(agent_id: str, home: str) -> set[int]:
    """The processes that carry the marker, and their descendants, whose environment may have been cleared."""
    wanted = {f"{name}={value}".encode() for name, value in marker(agent_id, home).items()}
    found = {pid for pid in _processes() if _is_marked(pid, wanted)}
    for pid in list(found):
        found.update(_proc.walk(pid))
    return {pid for pid in found if (seen := _proc.stat(pid)) is not None and seen.state not in "ZX"}


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _signal_marked(agent_id: str, home: str, number: int, told: set[int]) -> set[int]:
    """Signal those that have not been told yet; the answer is all that are still there."""
    wanted = {f"{name}={value}".encode() for name, value in marker(agent_id, home).items()}
    family = marked(agent_id, home)
    for pid in family - told:
        _signal(pid, number, wanted, family)
    return family


def _kill_marked(agent_id: str, home: str) -> None:
    while _signal_marked(agent_id, home, signal.SIGKILL, set()):
        time.sleep(INTERVAL)


def _signal(pid: int, number: int, wanted: set[bytes], family: set[int]) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Looked at again now that the descriptor pins the process: the number may have become a stranger's.
        seen = _proc.stat(pid)
        if _is_marked(pid, wanted) or (seen is not None and seen.parent in family):
            signal.pidfd_send_signal(descriptor, number)
            if number == signal.SIGTERM:
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


def _is_marked(pid: int, wanted: set[bytes]) -> bool:
    try:
        environ = _files.read_bytes(f"/proc/{pid}/environ")
    except OSError:
        return False  # another user's, or a kernel thread
    return environ is not None and wanted <= set(environ.split(b"\0"))
