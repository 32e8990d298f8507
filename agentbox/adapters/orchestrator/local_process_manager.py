"""Agents as processes of this machine, which outlive whoever started them and never escape whoever ends them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Annotated, ClassVar

import attrs
from msgspec import Meta

from agentbox.adapters._watch import Watch
from agentbox.adapters.orchestrator._client import Answer, KeeperClient, open_line
from agentbox.adapters.orchestrator._folder import prepared, translated
from agentbox.adapters.orchestrator._keys import Keys
from agentbox.adapters.orchestrator._output import Follower
from agentbox.adapters.orchestrator._records import Record, Records, is_unsettled
from agentbox.adapters.orchestrator._request import completed, draft, start_request
from agentbox.adapters.orchestrator._supervisor import CONTROL
from agentbox_contracts import contract
from agentbox_contracts.contract import BaseAdapter, Durability, Health, Page
from agentbox_contracts.errors import AdapterError, AdapterFailed, AdapterUnavailable, Conflict, NotFound, SpawnError
from agentbox_contracts.orchestrator import (
    CONTRACT,
    Agent,
    AgentEvent,
    AgentSpec,
    AgentStatus,
    Limits,
    Orchestrator,
    SandboxName,
)

__all__ = ["Adapter", "LocalProcessManager", "Settings"]

PAUSE_SECONDS = 0.01
ERRORS: dict[object, type[AdapterError]] = {
    "spawn": SpawnError,
    "gone": NotFound,
    "conflict": Conflict,
    "unavailable": AdapterUnavailable,
    "disk": AdapterUnavailable,
}


@attrs.frozen(kw_only=True)
class Settings(contract.Settings):
    """
    Settings of `local-process-manager`. The keeper leaves after `keeper_idle_seconds` without agents and clients.

    `limits`, `sandbox` and `sandbox_network` hold for what a spec leaves open. With `max_agents` a spawn waits for its
    turn while as many run in the folder, whoever started them; `max_waiting` is how many of one caller's may wait.
    """

    path: Path = Path("agents")
    heartbeat_seconds: Annotated[float, Meta(gt=0)] = 15.0
    keeper_idle_seconds: Annotated[float, Meta(ge=0)] = 5.0
    limits: Limits = attrs.field(factory=Limits)
    max_agents: Annotated[int, Meta(ge=1)] | None = None
    max_waiting: Annotated[int, Meta(ge=0)] = 1000
    sandbox: SandboxName = "none"
    sandbox_network: bool = False


@attrs.frozen
class _Link:
    """What is open between connect and disconnect."""

    records: Records
    keys: Keys
    keeper: KeeperClient
    watch: Watch


class _TurnLost(Exception):
    """The keeper that gave the turn is dead; nothing was started."""


class LocalProcessManager(BaseAdapter, Orchestrator):
    """
    The orchestrator on this machine.

    Agents live on when this process ends, however it ends; whoever opens the same folder next finds them. This process
    reaps nothing and is parent of nothing: a keeper, shared by all who use the folder, has a supervisor for each agent.
    """

    settings_class: ClassVar[type[contract.Settings]] = Settings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability: Durability = "fsync"
    config: Settings

    _link: _Link | None = None

    @property
    def location(self) -> str:
        """The folder that holds records and output."""
        return self._link.records.folder if self._link else str(self.config.path)

    async def connect(self) -> None:
        """Take the folder into use and find its keeper, or start one."""
        if self._link is not None:
            return
        folder = await asyncio.to_thread(prepared, self.config.path)
        keeper = KeeperClient(folder, self.config.keeper_idle_seconds)
        await keeper.open()
        records = Records(folder)
        self._link = _Link(records, Keys(records), keeper, Watch())

    async def disconnect(self) -> None:
        """Let go of the keeper. Agents live on; streams under way end with AdapterUnavailable."""
        link, self._link = self._link, None
        if link is not None:
            link.keeper.close()
            link.watch.close()

    async def health(self) -> Health:
        """Whether the folder is there and its keeper answers; one that has gone is started again."""
        try:
            link = self._linked()
            await link.keeper.ask({"op": "hello"})
            with translated(f"the agents' folder {link.records.folder}"):
                Path(link.records.folder).stat()
        except AdapterError as error:
            return Health("degraded", error.message)
        return Health("healthy")

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Agent:
        link = self._linked()
        whole = completed(spec, self.config.limits, self.config.sandbox, self.config.sandbox_network)
        record = draft(spec)
        bound = await self._bound(link, key)
        # Before the record: what cannot be started now need not be written down, and who waits is no agent yet.
        await link.keeper.open()
        while True:
            async with link.keeper.turn(bound, self.config.max_waiting, record.session_id) as ticket:

                def begin(made: Record, ticket: int | None = ticket) -> None:
                    link.keeper.tell(start_request(made, link.records.home(made.id), whole, ticket))

                try:
                    made = await self._recorded(link, record, spec, key, begin)
                    return await self._started(link, made, whole, ticket)
                except NotFound:
                    if key is None:
                        raise
                    # Another spawn with this key failed meanwhile and withdrew the record.
                except _TurnLost:
                    if key is None:
                        await asyncio.to_thread(link.records.remove, made.id)

    def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        link = self._linked()
        look = functools.partial(self._looked_up, link)
        return Follower(link.records, agent_id, link.watch, self.config.heartbeat_seconds, look).events(after)

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> None:
        link = self._linked()
        agent = await self._settled(link, agent_id)
        if not agent.is_alive:
            return _check_taken(link.records, agent, key)
        request: Answer = {"op": "send", "data": base64.b64encode(data).decode(), "end": end, "key": key}
        try:
            answer = await _ask_supervisor(link.records.home(agent_id), request)
        except OSError as error:
            agent = link.records.agent(agent_id)
            if not agent.is_alive:
                return _check_taken(link.records, agent, key)
            raise AdapterUnavailable(f"{agent_id}: its supervisor does not answer: {error}", id=agent_id) from error
        _raise_error(answer, agent_id)

    async def status(self, agent_id: str) -> Agent:
        return await self._looked_up(self._linked(), agent_id)

    async def list_agents(
        self,
        *,
        status: AgentStatus | None = None,
        name: str | None = None,
        bead_id: str | None = None,
        session_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Agent]:
        link = self._linked()
        wanted = {"status": status, "name": name, "bead_id": bead_id, "session_id": session_id}
        with translated(f"the agents' folder {link.records.folder}"):
            page = await asyncio.to_thread(link.records.page, wanted, limit, after)
            unsettled = [agent.id for agent in page.items if is_unsettled(agent)]
            if not unsettled:
                return page
            for agent_id in unsettled:
                await self._looked_up(link, agent_id)
            return await asyncio.to_thread(link.records.page, wanted, limit, after)

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Agent:
        link = self._linked()
        while True:
            agent = await self._looked_up(link, agent_id)
            if agent.ended_at is not None:
                return agent
            # Also one that seems lost: where only its files are damaged, its supervisor knows it.
            if agent.status != "starting" and await self._has_ended(link, agent_id, grace_seconds):
                continue
            if agent.status != "running":
                await link.keeper.ask({"op": "settle", "id": agent_id, "final": True})
                if not (settled := link.records.agent(agent_id)).is_alive:
                    return settled
            await asyncio.sleep(PAUSE_SECONDS)  # it was being started, has just ended, or its supervisor was killed

    async def _has_ended(self, link: _Link, agent_id: str, grace_seconds: float) -> bool:
        """Let the supervisor end the agent; False where there is none."""
        try:
            request: Answer = {"op": "terminate", "grace_seconds": grace_seconds}
            await _ask_supervisor(link.records.home(agent_id), request)
        except OSError:
            return False
        return True

    def _linked(self) -> _Link:
        if self._link is None:
            raise AdapterUnavailable(f"{self.slot} {self.impl} is not connected")
        return self._link

    async def _bound(self, link: _Link, key: str | None) -> int | None:
        """How many agents may run for a spawn to start one; None for what needs no turn, such as a repetition."""
        if self.config.max_agents is None or key is None:
            return self.config.max_agents
        return None if await asyncio.to_thread(link.keys.has_started, key) else self.config.max_agents

    async def _recorded(
        self, link: _Link, record: Record, spec: AgentSpec, key: str | None, begin: Callable[[Record], None]
    ) -> Record:
        """
        *record*, durable under a new id. When the caller leaves meanwhile it is withdrawn.

        With a key others may have found it already, and it is started with *begin* instead.
        """
        create = functools.partial(link.records.create, record)
        if key is not None:
            create = functools.partial(link.keys.create, record, spec, key)
        with translated(f"the agents' folder {link.records.folder}"):
            creating = asyncio.ensure_future(asyncio.to_thread(create))
            try:
                return await asyncio.shield(creating)
            except asyncio.CancelledError:
                record = await creating
                if key is None:
                    await asyncio.to_thread(link.records.remove, record.id)
                else:
                    begin(record)
                raise

    async def _looked_up(self, link: _Link, agent_id: str) -> Agent:
        """The agent as it stands; when it has lost its supervisor, as the keeper found it and wrote it down."""
        agent = link.records.agent(agent_id)
        if is_unsettled(agent):
            with contextlib.suppress(AdapterUnavailable):
                await link.keeper.ask({"op": "settle", "id": agent_id})
            agent = link.records.agent(agent_id)
        return agent

    async def _started(self, link: _Link, record: Record, spec: AgentSpec, ticket: int | None) -> Agent:
        """Have *record* started, unless that was done. Raises NotFound when it was withdrawn."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.run_in_executor, None, link.records.hasten, record.id)
        answer = await link.keeper.ask(start_request(record, link.records.home(record.id), spec, ticket))
        if answer.get("error") == "turn":
            raise _TurnLost
        if answer.get("error") in ("spawn", "disk"):  # surely nothing runs
            await asyncio.to_thread(link.records.remove, record.id)
        _raise_error(answer, spec.command)
        return await self._settled(link, record.id)

    async def _settled(self, link: _Link, agent_id: str) -> Agent:
        """The agent once it is known whether it started."""
        while (agent := await self._looked_up(link, agent_id)).status == "starting":
            with link.watch.on(link.records.home(agent_id)) as change:
                if link.records.started(agent_id) is None:
                    await change.wait(1.0)
        return agent


Adapter = LocalProcessManager


async def _ask_supervisor(home: str, request: Answer) -> Answer:
    line = await open_line(home, CONTROL)
    try:
        return await line.ask(request)
    finally:
        line.close()


def _raise_error(answer: Answer, what: str) -> None:
    if "error" in answer:
        raise ERRORS.get(answer["error"], AdapterFailed)(f"{what}: {answer.get('message')}")


def _check_taken(records: Records, agent: Agent, key: str | None) -> None:
    """Raise Conflict for an agent that is over, unless it had taken the input of that *key* before."""
    ended = records.ended(agent.id)
    if ended is not None and key in ended.input_keys:
        return
    how = f"is lost: {agent.reason}" if agent.status == "lost" else "has ended"
    raise Conflict(f"{agent.id} {how}", resource="agent", id=agent.id)
