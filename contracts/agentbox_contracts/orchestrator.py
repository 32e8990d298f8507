"""Orchestrator: start agents, watch them, end them with everything they started."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Annotated, Literal, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Instant, Key, Page, route

__all__ = ["CONTRACT", "Agent", "AgentEvent", "AgentSpec", "Limits", "Orchestrator"]

AgentStatus = Literal["starting", "running", "exited", "lost"]
LimitName = Literal[
    "wall_seconds", "idle_seconds", "output_bytes", "memory_bytes", "cpu_seconds", "open_files", "processes"
]
SandboxName = Literal["none", "bubblewrap"]

AgentId = Annotated[str, Meta(min_length=1, max_length=120)]
Argument = Annotated[str, Meta(max_length=131_072)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
BeadId = Annotated[str, Meta(min_length=1, max_length=120)]
SessionId = Annotated[str, Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 50)]
Cursor = Annotated[str, Meta(min_length=1, max_length=100)]
Grace = Annotated[float, Meta(ge=0, le=600)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Input = Annotated[bytes, Meta(max_length=1_048_576)]


@attrs.frozen(kw_only=True)
class Limits:
    """
    How much an agent may use, all its processes together; None is what the adapter's settings say, else no limit.

    They hold whether or not anybody is connected. An agent that exceeds one is ended with all that it started, and
    `Agent.limit` and the reason say which and by how much; `open_files` is each process's own, and one more cannot be
    opened. What an adapter cannot enforce where it runs is refused with SpawnError, never left out.
    """

    wall_seconds: Seconds | None = None
    """From its start."""
    idle_seconds: Seconds | None = None
    """Since its last output, on stdout or stderr."""
    output_bytes: Bytes | None = None
    """Of stdout and stderr together."""
    memory_bytes: Bytes | None = None
    """Resident and swapped out; what processes share counts once."""
    cpu_seconds: Seconds | None = None
    """Of processes that run and of those that have ended."""
    open_files: Annotated[int, Meta(ge=3, le=1 << 30)] | None = None
    """Of each process."""
    processes: Annotated[int, Meta(ge=1, le=1 << 22)] | None = None
    """Alive at once."""


@attrs.frozen(kw_only=True)
class AgentSpec:
    """
    What to start: a command, found on the agent's PATH or given as a path, and where.

    The agent's environment is an allow-list of the host's (PATH, HOME, locale, time zone), who it is
    (`AGENTBOX_AGENT_ID`, and where known `AGENTBOX_SESSION_ID`, `AGENTBOX_EXECUTION_ID`, `AGENTBOX_BEAD_ID`,
    `TRACEPARENT`), and `env`, whose values are never stored. `stdin="pipe"` keeps standard input open for `send`;
    otherwise it is empty. In the `bubblewrap` sandbox it can write to `cwd` and to a /tmp of its own, sees no process
    but its own, and reaches the network only with `sandbox_network`; None is what the adapter's settings say.
    """

    command: Annotated[str, Meta(min_length=1, max_length=4096)]
    args: Annotated[tuple[Argument, ...], Meta(max_length=10_000)] = ()
    env: dict[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)], Argument] = attrs.field(
        factory=dict, repr=False
    )
    cwd: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    name: Name | None = None
    bead_id: BeadId | None = None
    stdin: Literal["null", "pipe"] = "null"
    limits: Limits = Limits()
    sandbox: SandboxName | None = None
    sandbox_network: bool | None = None


@attrs.frozen(kw_only=True)
class Agent:
    """
    One agent, as it stood when it was asked for.

    `exited` means that the command and every process it started are gone: `exit_code` is its status, or `signal` the
    name of the signal that ended it. `lost` means that how it ended cannot be known; `reason` says why, and nothing of
    it is left either. `limit` is the limit that ended it, if one did.
    """

    id: str
    status: AgentStatus
    command: str
    args: tuple[str, ...] = ()
    name: str | None = None
    cwd: str | None = None
    bead_id: str | None = None
    session_id: str | None = None
    execution_id: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    limit: LimitName | None = None
    created_at: Instant
    started_at: Instant | None = None
    ended_at: Instant | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it is starting or running."""
        return self.status in ("starting", "running")


@attrs.frozen(kw_only=True)
class AgentEvent:
    """
    One thing an agent did. `data` is a line of output with its newline, or a piece of at most 64 KiB of a longer one.

    `cursor` is what to give `stream(after=…)` to go on behind this event.
    """

    type: Literal["started", "stdout", "stderr", "heartbeat", "exited"]
    agent_id: str
    cursor: str
    at: Instant
    data: bytes = b""
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 become replacement characters."""
        return self.data.decode(errors="replace")


class Orchestrator(Adapter, Protocol):
    """
    The port of the orchestrator slot.

    Every method may also raise what dispatch raises: InvalidInput before anything is started, AdapterTimeout,
    AdapterUnavailable.
    """

    @route("POST", "/v1/agents", status=201)
    @abstractmethod
    async def spawn(self, spec: AgentSpec, *, key: Key | None = None) -> Agent:
        """
        Start an agent. Its record is durable before the process starts. The same key starts it once.

        Where as many agents run as may, the call waits for its turn, and is no agent until then: callers take turns,
        each in the order of its own calls. Whoever is cancelled or dies while waiting leaves the queue.

        Raises:
            SpawnError: The command is missing, not executable, or its folder does not exist; or a limit or the
                sandbox cannot be had on that machine.
            Conflict: The key was used for another spec.
            AdapterDisabled: The adapter does not declare `limits` or `sandbox`, and the spec names one.
            AdapterUnavailable: As many of the caller's spawns wait for their turn as may.
        """

    @route("GET", "/v1/agents/{agent_id}/events")
    @abstractmethod
    def stream(self, agent_id: AgentId, *, after: Cursor | None = None) -> AsyncIterator[AgentEvent]:
        """
        Everything the agent did, from the start or behind *after*, then as it happens; the last event is `exited`.

        Events are in order within stdout and within stderr, between the two by time of observation. A slow reader
        never slows the agent. An agent that is lost ends the stream with an `exited` event that has the reason.

        Raises:
            NotFound: There is no such agent.
            InvalidInput: The cursor is not one of this agent's.
        """

    @route("POST", "/v1/agents/{agent_id}/input")
    @abstractmethod
    async def send(self, agent_id: AgentId, data: Input = b"", *, end: bool = False, key: Key | None = None) -> None:
        """
        Write *data* to the agent's standard input, and with *end* close it. The same key writes once.

        Raises:
            NotFound: There is no such agent.
            Conflict: It has ended, its input is closed, or it was started without `stdin="pipe"`.
            AdapterUnavailable: It does not read, and the input waiting for it is at its bound.
        """

    @route("GET", "/v1/agents/{agent_id}")
    @abstractmethod
    async def status(self, agent_id: AgentId) -> Agent:
        """
        The agent as it stands.

        Raises:
            NotFound: There is no such agent.
        """

    @route("GET", "/v1/agents")
    @abstractmethod
    async def list_agents(
        self,
        *,
        status: AgentStatus | None = None,
        name: Name | None = None,
        bead_id: BeadId | None = None,
        session_id: SessionId | None = None,
        limit: Limit = 100,
        after: AgentId | None = None,
    ) -> Page[Agent]:
        """Agents of this state folder that are all of what is given, the newest first, a page at a time."""

    @route("DELETE", "/v1/agents/{agent_id}")
    @abstractmethod
    async def terminate(self, agent_id: AgentId, *, grace_seconds: Grace = 10.0) -> Agent:
        """
        End the agent and everything it started: SIGTERM to its group, the grace, SIGKILL to whatever is left.

        When it returns, no descendant is alive. Ending an agent that has ended changes nothing.

        Raises:
            NotFound: There is no such agent.
        """


CONTRACT = Contract(
    slot="orchestrator",
    version="1.0.0",
    port=Orchestrator,
    capabilities=frozenset({"keys", "send", "limits", "sandbox", "turns"}),
)
