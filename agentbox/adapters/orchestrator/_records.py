"""Agents as files: a folder each, with the record, and how it started and ended once it has."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

import attrs
import msgspec

from agentbox.adapters.orchestrator import _blanks, _files, _proc
from agentbox.adapters.orchestrator._folder import translated
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AdapterFailed, InvalidInput, NotFound
from agentbox_contracts.orchestrator import Agent, AgentStatus, LimitName

__all__ = ["Ended", "Record", "Records", "Started", "instant", "is_unsettled"]

# No vowels and no look-alikes: ids are read aloud and never spell anything.
ALPHABET = "23456789bcdfghjkmnpqrstvwxyz"
START_SECONDS = 30.0
KEEPERLESS_SECONDS = 5.0

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Record:
    """`record.json`: what was asked for. Of the environment only the names are kept."""

    id: str
    command: str
    args: tuple[str, ...]
    cwd: str
    name: str | None
    bead_id: str | None
    session_id: str | None
    execution_id: str | None
    stdin: Literal["null", "pipe"]
    env_names: tuple[str, ...]
    created_at: float


@attrs.frozen(kw_only=True)
class Started:
    """`started.json`: the command's process and its supervisor's, named so that no other can be mistaken for them."""

    pid: int
    ticks: int
    supervisor_pid: int
    supervisor_ticks: int
    boot_id: str
    started_at: float


@attrs.frozen(kw_only=True)
class Ended:
    """`exit.json`: how it ended, and which input it took. Once written, nothing of the agent is alive."""

    status: Literal["exited", "lost"]
    exit_code: int | None
    signal: str | None
    reason: str
    ended_at: float
    limit: LimitName | None = None
    input_keys: tuple[str, ...] = ()


class Records:
    """The agents of one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._boot_id = _proc.boot_id()
        self._created: dict[str, float] = {}

    def home(self, agent_id: str) -> str:
        """The agent's own folder. Raises NotFound for what cannot be an id."""
        name = agent_id.removeprefix("ag-")
        if name == agent_id or not name or name.strip(ALPHABET):
            raise _unknown(agent_id)
        return f"{self.folder}/{agent_id}"

    def create(self, record: Record) -> Record:
        """Write *record* under a new id. It is durable before it is started: its supervisor sees to that."""
        while True:
            agent_id = f"ag-{_name(secrets.randbits(64))}"
            home = f"{self.folder}/{agent_id}"
            if not os.path.exists(home) and _blanks.home_taken(self.folder, home):  # noqa: PTH110 - a Path costs more
                break
            try:
                os.mkdir(home, 0o700)  # noqa: PTH102 - or the making
                break
            except FileExistsError:
                continue
        record = attrs.evolve(record, id=agent_id)
        _files.put_json(self.home(agent_id), "record.json", attrs.asdict(record))
        return record

    def hasten(self, agent_id: str) -> None:
        """Begin to make a record durable: while its supervisor gets ready to, the disk is idle."""
        with contextlib.suppress(OSError):
            _files.sync(f"{self.home(agent_id)}/record.json")

    def remove(self, agent_id: str) -> None:
        """Forget an agent of which nothing was ever started."""
        shutil.rmtree(self.home(agent_id), ignore_errors=True)

    def record(self, agent_id: str) -> Record:
        """What was asked for. Raises NotFound."""
        record = self._read(f"{self.home(agent_id)}/record.json", Record)
        if record is None:
            raise _unknown(agent_id)
        return record

    def started(self, agent_id: str) -> Started | None:
        """How it started, None when it did not."""
        return self._read(f"{self.home(agent_id)}/started.json", Started)

    def ended(self, agent_id: str) -> Ended | None:
        """How it ended, None when that has not been written."""
        return self._read(f"{self.home(agent_id)}/exit.json", Ended)

    def agent(self, agent_id: str) -> Agent:
        """The agent as it stands. Raises NotFound, AdapterUnavailable."""
        with translated(f"what is known of {agent_id}"):
            return self._stands(agent_id)

    def _stands(self, agent_id: str) -> Agent:
        record, trouble = self._known(agent_id)
        started, more = _tolerant(self.started, agent_id)
        alive = started is not None and self._is_supervised(started)
        # Read after the look at the supervisor: one that has gone since wrote this before it went.
        ended, last = _tolerant(self.ended, agent_id)
        trouble = _joined(trouble, more, last)
        if ended is not None:
            return _agent(record, started, ended.status, _joined(ended.reason, trouble), ended)
        if started is None:
            return _agent(record, None, "lost", trouble) if trouble else self._unstarted(record)
        if alive:
            return _agent(record, started, "running", trouble)
        return _agent(record, started, "lost", _joined(self._why_lost(started), trouble))

    def _known(self, agent_id: str) -> tuple[Record, str]:
        """What was asked for, or, where that was damaged, a record that knows nothing of it, and what is wrong."""
        home = self.home(agent_id)
        try:
            return self.record(agent_id), ""
        except AdapterFailed as error:
            return _nameless(agent_id, home), error.message
        except NotFound:
            if not Path(home, "started.json").exists():
                raise  # it is being written just now, or was withdrawn
            return _nameless(agent_id, home), f"{home}/record.json is missing or empty"

    def page(self, wanted: Mapping[str, str | None], limit: int, after: str | None) -> Page[Agent]:
        """A page of agents with all that is *wanted*, the newest first."""
        wanted = {name: value for name, value in wanted.items() if value is not None}
        items: list[Agent] = []
        for agent_id in self._newest_first(after):
            if len(items) == limit:
                return Page(items=items, next=items[-1].id)
            try:
                agent = self.agent(agent_id)
            except NotFound:
                continue
            if all(getattr(agent, name) == value for name, value in wanted.items()):
                items.append(agent)
        return Page(items=items)

    def _newest_first(self, after: str | None) -> list[str]:
        present = [entry.name for entry in Path(self.folder).glob("ag-*")]
        known = self._created
        self._created = {name: at for name in present if (at := known.get(name) or self._created_at(name))}
        order = sorted(self._created, key=lambda name: (self._created[name], name), reverse=True)
        if after is None:
            return order
        if after not in self._created:
            raise InvalidInput(f"after: there is no agent {after}", resource="agent", id=after)
        return order[order.index(after) + 1 :]

    def _created_at(self, agent_id: str) -> float | None:
        try:
            return self._known(agent_id)[0].created_at
        except NotFound:
            return None  # being written just now, or withdrawn

    def _unstarted(self, record: Record) -> Agent:
        age = time.time() - record.created_at
        if age < KEEPERLESS_SECONDS or (age < START_SECONDS and self._has_keeper()):
            return _agent(record, None, "starting")
        return _agent(record, None, "lost", "it was never started: whoever was about to start it is gone")

    def _has_keeper(self) -> bool:
        keeper = _files.read_json(f"{self.folder}/keeper.json") or {}
        pid, ticks = keeper.get("pid"), keeper.get("ticks")
        is_ours = keeper.get("boot_id") == self._boot_id
        return is_ours and isinstance(pid, int) and isinstance(ticks, int) and _proc.is_alive(pid, ticks)

    def _is_supervised(self, started: Started) -> bool:
        same_boot = started.boot_id == self._boot_id
        return same_boot and _proc.is_alive(started.supervisor_pid, started.supervisor_ticks)

    def _why_lost(self, started: Started) -> str:
        if started.boot_id != self._boot_id:
            return "the machine was restarted while it ran"
        if _proc.is_alive(started.pid, started.ticks):
            return f"its supervisor (pid {started.supervisor_pid}) is gone; the command (pid {started.pid}) still runs"
        return f"its supervisor (pid {started.supervisor_pid}) is gone, and with it how the command ended"

    def _read(self, path: str, kind: type[T]) -> T | None:
        data = _files.read_bytes(path)
        if not data:  # empty when the machine stopped before the file was durable: then nothing had come of it
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise AdapterFailed(f"{path} cannot be understood: {error}") from error


def is_unsettled(agent: Agent) -> bool:
    """Whether the agent has lost its supervisor, and the keeper has not yet seen to its end."""
    return agent.status == "lost" and agent.started_at is not None and agent.ended_at is None


def _tolerant(read: Callable[[str], T | None], agent_id: str) -> tuple[T | None, str]:
    """What *read* finds; where it finds damage, None and what is wrong. One damaged file must not hide an agent."""
    try:
        return read(agent_id), ""
    except AdapterFailed as error:
        return None, error.message


def _nameless(agent_id: str, home: str) -> Record:
    return Record(
        id=agent_id,
        command="unknown",
        args=(),
        cwd="",
        name=None,
        bead_id=None,
        session_id=None,
        execution_id=None,
        stdin="null",
        env_names=(),
        created_at=Path(home).stat().st_mtime,
    )


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _name(number: int) -> str:
    letters = []
    for _ in range(8):
        number, place = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[place])
    return "".join(letters)


def instant(seconds: float) -> datetime:
    """A moment from the epoch's seconds."""
    return datetime.fromtimestamp(seconds, UTC)


def _agent(
    record: Record, started: Started | None, status: AgentStatus, reason: str = "", ended: Ended | None = None
) -> Agent:
    return Agent(
        id=record.id,
        status=status,
        command=record.command,
        args=record.args,
        name=record.name,
        cwd=record.cwd,
        bead_id=record.bead_id,
        session_id=record.session_id,
        execution_id=record.execution_id,
        pid=started.pid if started else None,
        exit_code=ended.exit_code if ended else None,
        signal=ended.signal if ended else None,
        reason=reason,
        limit=ended.limit if ended else None,
        created_at=instant(record.created_at),
        started_at=instant(started.started_at) if started else None,
        ended_at=instant(ended.ended_at) if ended else None,
    )


def _unknown(agent_id: str) -> NotFound:
    return NotFound(f"there is no agent {agent_id!r}", resource="agent", id=agent_id)
