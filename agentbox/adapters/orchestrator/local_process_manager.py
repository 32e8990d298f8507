"""Agents as processes of this machine, which outlive whoever started them and never escape whoever ends them."""

from __future__ import annotations

import asyncio
import base64
import functools
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, ClassVar

import attrs
from msgspec import Meta

from agentbox.adapters.orchestrator._client import Answer, KeeperClient, open_line
from agentbox.adapters.orchestrator._environment import environment
from agentbox.adapters.orchestrator._folder import prepared, translated
from agentbox.adapters.orchestrator._keys import Keys
from agentbox.adapters.orchestrator._orphans import end_lost
from agentbox.adapters.orchestrator._output import Follower
from agentbox.adapters.orchestrator._records import Record, Records
from agentbox.adapters.orchestrator._supervisor import CONTROL
from agentbox.adapters.orchestrator._watch import Watch
from agentbox_contracts import contract
from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.contract import BaseAdapter, Durability, Health, Page
from agentbox_contracts.errors import AdapterError, AdapterFailed, AdapterUnavailable, Conflict, NotFound, SpawnError
from agentbox_contracts.orchestrator import CONTRACT, Agent, AgentEvent, AgentSpec, AgentStatus, Orchestrator

__all__ = ["Adapter", "LocalProcessManager", "Settings"]

ARGUMENTS_BOUND = 8 * 1024 * 1024
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
    """Settings of `local-process-manager`. The keeper leaves after `keeper_idle_seconds` without agents and clients."""

    path: Path = Path("agents")
    heartbeat_seconds: Annotated[float, Meta(gt=0)] = 15.0
    keeper_idle_seconds: Annotated[float, Meta(ge=0)] = 5.0


@attrs.frozen
class _Link:
    """What is open between connect and disconnect."""

    records: Records
    keys: Keys
    keeper: KeeperClient
    watch: Watch


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
        draft = _draft(spec)
        await link.keeper.open()  # before the record: what cannot be started now need not be written down
        while True:
            try:
                record = await self._recorded(link, draft, spec, key)
                return await self._started(link, record, spec)
            except NotFound:
                if key is None:
                    raise
                # Another spawn with this key failed meanwhile and withdrew the record.

    def stream(self, agent_id: str, *, after: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        link = self._linked()
        return Follower(link.records, agent_id, link.watch, self.config.heartbeat_seconds).events(after)

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
        return self._linked().records.agent(agent_id)

    async def list_agents(
        self, *, status: AgentStatus | None = None, limit: int = 100, after: str | None = None
    ) -> Page[Agent]:
        records = self._linked().records
        with translated(f"the agents' folder {records.folder}"):
            return await asyncio.to_thread(records.page, status, limit, after)

    async def terminate(self, agent_id: str, *, grace_seconds: float = 10.0) -> Agent:
        link = self._linked()
        while True:
            agent = await self._settled(link, agent_id)
            if agent.ended_at is not None:
                return agent
            if agent.status == "lost":
                await end_lost(link.records, agent_id, grace_seconds)
                continue
            try:
                request: Answer = {"op": "terminate", "grace_seconds": grace_seconds}
                await _ask_supervisor(link.records.home(agent_id), request)
            except OSError:
                await asyncio.sleep(PAUSE_SECONDS)  # it has just ended, or its supervisor was killed: look again

    def _linked(self) -> _Link:
        if self._link is None:
            raise AdapterUnavailable(f"{self.slot} {self.impl} is not connected")
        return self._link

    async def _recorded(self, link: _Link, draft: Record, spec: AgentSpec, key: str | None) -> Record:
        """A durable record for *draft*, withdrawn when the caller leaves before it has been handed on."""
        create = functools.partial(link.records.create, draft)
        if key is not None:
            create = functools.partial(link.keys.create, draft, spec, key)
        with translated(f"the agents' folder {link.records.folder}"):
            creating = asyncio.ensure_future(asyncio.to_thread(create))
            try:
                return await asyncio.shield(creating)
            except asyncio.CancelledError:
                record = await creating
                if key is None:  # with a key others may have found it: who asks again with it starts it
                    await asyncio.to_thread(link.records.remove, record.id)
                raise

    async def _started(self, link: _Link, record: Record, spec: AgentSpec) -> Agent:
        """Have *record* started, unless that was done. Raises NotFound when it was withdrawn."""
        answer = await link.keeper.ask(_start_request(record, link.records.home(record.id), spec))
        if answer.get("error") in ("spawn", "disk"):  # surely nothing runs
            await asyncio.to_thread(link.records.remove, record.id)
        _raise_error(answer, spec.command)
        return await self._settled(link, record.id)

    async def _settled(self, link: _Link, agent_id: str) -> Agent:
        """The agent once it is known whether it started."""
        while (agent := link.records.agent(agent_id)).status == "starting":
            with link.watch.on(link.records.home(agent_id)) as change:
                if link.records.started(agent_id) is None:
                    await change.wait(1.0)
        return agent


Adapter = LocalProcessManager


def _draft(spec: AgentSpec) -> Record:
    """The record of *spec*, before it has an id. Raises SpawnError for what no kernel would start."""
    size = sum(len(text) for text in (spec.command, *spec.args, *spec.env, *spec.env.values()))
    if size > ARGUMENTS_BOUND:
        raise SpawnError(f"{spec.command}: {size:,} characters of arguments and environment are more than fit")
    try:
        cwd = str(Path(spec.cwd or "").absolute())
    except FileNotFoundError:
        raise SpawnError(f"{spec.command}: no cwd was given, and this process's own does not exist") from None
    return Record(
        id="",
        command=spec.command,
        args=spec.args,
        cwd=cwd,
        name=spec.name,
        bead_id=spec.bead_id,
        session_id=session_id.get(),
        execution_id=execution_id.get(),
        stdin=spec.stdin,
        env_names=tuple(sorted(spec.env)),
        created_at=time.time(),
    )


def _start_request(record: Record, home: str, spec: AgentSpec) -> Answer:
    return {
        "op": "start",
        "id": record.id,
        "argv": [spec.command, *spec.args],
        "env": environment(record, home, spec.env),
        "cwd": record.cwd,
        "stdin": spec.stdin,
    }


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
