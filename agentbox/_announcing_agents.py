"""Facts about agents, found in the orchestrator's records: also those of agents that ended while no app was open."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import cast

from agentbox._announcing_delivery import Delivery
from agentbox.resolver import Slot
from agentbox_contracts.context import fitting
from agentbox_contracts.contract import Instant
from agentbox_contracts.errors import NotFound
from agentbox_contracts.events import Event
from agentbox_contracts.orchestrator import Agent, Orchestrator
from agentbox_contracts.vocabulary import AgentExited, AgentLost, AgentSpawned, Fact, data_of, source_of

__all__ = ["Agents"]

log = logging.getLogger("agentbox.announcing")

LOOK_SECONDS = 1.0
FIRST_LOOK, PAGE = 20, 200
BATCH = 500


class Agents:
    """
    Looks at the records every second and tells what is new in them.

    The id of an event is made from the agent and the fact, so that two apps that tell the same are one event. What was
    told is noted in a file of the state folder, because the log remembers ids for a while only.
    """

    def __init__(self, slot: Slot, delivery: Delivery, notes: Path) -> None:
        self._slot = slot
        self._delivery = delivery
        self._notes = _Notes(notes)
        self._known: set[str] = set()
        self._alive: set[str] = set()
        self._is_complete = False

    async def run(self) -> None:
        """Look and tell until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Tell what is new now. What cannot be told is found again the next time."""
        # Past dispatch: the app's own look every second is nobody's call and would drown the calls in log and metrics.
        adapter = self._slot.adapter.adapter
        # Agents of a host are the host's to tell.
        if not adapter.enabled or self._slot.choice.impl == "external":
            return
        try:
            found = await self._found(cast("Orchestrator", adapter))
            told = await asyncio.to_thread(self._notes.read)
            if await self._tell(found, told):
                self._known.update(agent.id for agent in found)
                self._alive = {agent.id for agent in found if agent.is_alive}
                self._is_complete = True
        except Exception as error:  # whatever it is, the next look must come
            log.warning("agents not looked at: %s", error, extra={"impl": adapter.impl, "reason": str(error)})

    async def _found(self, orchestrator: Orchestrator) -> list[Agent]:
        """Agents that are new to us and those that were alive, the oldest first."""
        found: dict[str, Agent] = {}
        after, limit = None, FIRST_LOOK
        while True:
            page = await orchestrator.list_agents(limit=limit, after=after)
            fresh = {agent.id for agent in page.items} - self._known
            found |= {agent.id: agent for agent in page.items if agent.id in fresh or agent.id in self._alive}
            if page.next is None or (self._is_complete and not fresh):
                break
            after, limit = page.next, PAGE
        for agent_id in self._alive - set(found):
            try:
                found[agent_id] = await orchestrator.status(agent_id)
            except NotFound:
                continue
        return sorted(found.values(), key=lambda agent: agent.created_at)

    async def _tell(self, found: Sequence[Agent], told: Set[str]) -> bool:
        events = [event for agent in found for event in _events(agent) if event.id not in told]
        for start in range(0, len(events), BATCH):
            batch = events[start : start + BATCH]
            if not await self._delivery.deliver(batch):
                return False
            await asyncio.to_thread(self._notes.add, [str(event.id) for event in batch])
        return True


class _Notes:
    """The ids of what was told, one a line, appended by every app of the state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: set[str] = set()
        self._read = 0

    def read(self) -> Set[str]:
        """All ids, read from where the last reading ended. It is asked every second, so this is no copy."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._ids.update(whole.decode(errors="replace").split("\n"))
            self._read += len(whole) + len(newline)
        return self._ids

    def add(self, ids: Sequence[str]) -> None:
        self._ids.update(ids)  # so that a file that cannot be written has nothing told again every second
        with self._path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            # Behind what a crash or a full disk has torn, the first id would be part of that line, and told again.
            torn = file.read() not in (b"", b"\n")
            file.write(("\n" * torn + "".join(f"{event_id}\n" for event_id in ids)).encode())


def _events(agent: Agent) -> Iterator[Event]:
    if agent.started_at is not None or not agent.is_alive:
        spawned = AgentSpawned(agent_id=agent.id, command=agent.command, name=agent.name, bead_id=agent.bead_id)
        yield _event(agent, spawned, agent.started_at or agent.created_at)
    if agent.status == "exited":
        yield _event(
            agent,
            AgentExited(
                agent_id=agent.id,
                exit_code=agent.exit_code,
                signal=agent.signal,
                reason=agent.reason,
                name=agent.name,
                bead_id=agent.bead_id,
            ),
            agent.ended_at,
        )
    elif agent.status == "lost":
        lost = AgentLost(agent_id=agent.id, reason=agent.reason, name=agent.name, bead_id=agent.bead_id)
        yield _event(agent, lost, agent.ended_at)


def _event(agent: Agent, fact: Fact, at: Instant | None) -> Event:
    # Ids of agents are short and may come again in another state folder; with the moment of the record they do not.
    record = f"{agent.id}@{agent.created_at.timestamp():.6f}"
    return Event(
        id=f"{record}:{fact.type.rpartition('.')[2]}",
        type=fact.type,
        source=source_of(fact.type),
        subject=agent.id,
        time=at,
        session_id=fitting(agent.session_id),
        execution_id=fitting(agent.execution_id),
        data=data_of(fact),
    )
