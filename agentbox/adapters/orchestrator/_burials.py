"""Agents whose supervisors were killed, as the keeper sees to them; and which agents live. Standard library only."""

# ruff: noqa: PTH102, PTH108, PTH110, PTH208
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator import _files, _proc
    from agentbox.adapters.orchestrator._lines import Lines
else:
    import _files
    import _proc
    from _lines import Lines

__all__ = ["Burials", "is_started", "living", "note", "supervisor_of"]

LIVE = "live"
"""A folder with an entry for every agent that has been started and is not known to have ended, so that a keeper need
not look at all that ever were."""


class Burials:
    """
    Agents that have no supervisor any more, and who waits to hear how they ended.

    What is left of them are children of the keeper that it has not made; it ends them. What had another keeper's
    supervisor went elsewhere, and is found by its marker, which takes a helper.
    """

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self._asked: dict[str, list[tuple[Lines, dict[str, object]]]] = {}
        self._statuses: dict[int, int] = {}
        self._has_killed = False
        self._is_littered = False

    @property
    def is_busy(self) -> bool:
        """Whether there is something to be ended or waited for."""
        return bool(self.waiting) or self._is_littered

    def tidy(self) -> None:
        """See to it that no child is left that the keeper has not made, whosever it was."""
        self._is_littered = True

    def add(self, agent_id: str) -> None:
        """See to it that the agent ends, and that it is written down how."""
        self.waiting.add(agent_id)

    def wait(self, agent_id: str, client: Lines, request: dict[str, object]) -> None:
        """Answer *request* when that is done."""
        self._asked.setdefault(agent_id, []).append((client, request))

    def is_final(self, agent_id: str) -> bool:
        """Whether somebody has asked that it be over, started or not."""
        return any(request.get("final") for _, request in self._asked.get(agent_id, ()))

    def over(self, agent_id: str) -> None:
        """Nothing remains to be done about the agent."""
        with contextlib.suppress(OSError):
            os.unlink(f"{LIVE}/{agent_id}")
        for client, request in self._asked.pop(agent_id, ()):
            client.answer(request, ok=True)

    def advance(self, known: set[int]) -> list[tuple[str, int | None, bool]]:
        """
        End what was left, *known* being the children that the keeper has made.

        The answer is the agents of which nothing is left among the keeper's children, each with how its command ended,
        if that was learned, and whether anything had to be ended.
        """
        if not self.is_busy:
            return []
        strays = [pid for pid in _proc.children(os.getpid()) if pid not in known and not self._reap(pid)]
        if strays:
            self._kill(strays)
            return []
        done = [(agent_id, self._statuses.get(_command_of(agent_id)), self._has_killed) for agent_id in self.waiting]
        self.waiting, self._statuses, self._has_killed, self._is_littered = set(), {}, False, False
        return done

    def _reap(self, pid: int) -> bool:
        """Whether *pid* has ended; then it is known how."""
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped:
            self._statuses[reaped] = status
        return reaped != 0

    def _kill(self, strays: list[int]) -> None:
        own = os.getpid()

        def find() -> Iterator[int]:
            for pid in strays:
                yield pid
                yield from _proc.walk(pid)

        _proc.kill_family(find, lambda found, family: found.parent in family or found.parent == own)
        self._has_killed = True


def note(agent_id: str) -> None:
    """Take note that the agent lives."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(LIVE, 0o700)
    with contextlib.suppress(FileExistsError, FileNotFoundError):  # noted already; removed meanwhile
        # Another name of a file there is, not a file more: ext4 is slow at making files where many were just removed.
        os.link(f"{agent_id}/record.json", f"{LIVE}/{agent_id}")


def living() -> list[str]:
    """The agents that were noted."""
    try:
        return os.listdir(LIVE)
    except OSError:
        return []


def is_started(agent_id: str) -> bool:
    """Whether the agent's command was ever started."""
    return os.path.exists(f"{agent_id}/started.json")


def supervisor_of(agent_id: str) -> int | None:
    """A descriptor of the process that stands over the agent, None when there is none."""
    started = _started(agent_id)
    pid, ticks = started.get("supervisor_pid"), started.get("supervisor_ticks")
    if not isinstance(pid, int) or not isinstance(ticks, int):
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if _proc.is_alive(pid, ticks):  # looked at now that the descriptor pins it: the number may be a stranger's
        return descriptor
    os.close(descriptor)
    return None


def _command_of(agent_id: str) -> int:
    return int(str(_started(agent_id).get("pid", 0)))


def _started(agent_id: str) -> dict[str, object]:
    """How it started, nothing where that cannot be read: a disk that fails must not take the keeper along."""
    try:
        return _files.read_json(f"{agent_id}/started.json") or {}
    except (OSError, ValueError):
        return {}
