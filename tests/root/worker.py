"""
A program that works with one slot and tells what was acknowledged: `python worker.py <slot> <state folder>`.

It is told what to do, a line at a time, on standard input, which is a socket, and answers there. So `write`, into which
faults are injected, is a call that only the adapter makes. Each answer is a line, `done` the last:

    ack <what> <id>             an acknowledged write
    end <id> <status> <code>    how an agent ended
    err <class> <what> <text>   an error, for whoever called the slot
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agentbox.testing import open_slot
from agentbox_contracts.events import Event
from agentbox_contracts.orchestrator import AgentSpec

MANIFEST = """
[adapters]
beads = "local-sqlite"
events = "local-jsonl"
orchestrator = "local-process-manager"
[orchestrator.local-process-manager]
keeper_idle_seconds = 0.2
"""
ROUNDS = 4


class Worker:
    """The slot, while it is open, and the line to whoever tells what to do."""

    def __init__(self, slot: str, folder: Path, line: socket.socket) -> None:
        self._slot = slot
        self._folder = folder
        self._line = line
        self._adapter: Any = None
        self._stack = AsyncExitStack()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while words := (await loop.sock_recv(self._line, 65536)).decode().split():
            await getattr(self, words[0])(*words[1:])
            self.say("done")

    def say(self, *words: object) -> None:
        """Tell, in one piece, so that what was acknowledged before a kill is known."""
        self._line.sendall((" ".join(str(word).replace("\n", " ") for word in words) + "\n").encode())

    async def tried(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The result, acknowledged, or None and the error told."""
        try:
            result = await call()
        except Exception as error:
            self.say("err", type(error).__name__, what, error)
            return None
        self.say("ack", what, getattr(result, "id", "-"))
        return result

    async def open(self) -> None:
        self._adapter = await self.tried(
            "open", lambda: self._stack.enter_async_context(open_slot(MANIFEST, self._slot, folder=self._folder))
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def work(self) -> None:
        """Several at once, so that they share what can be shared."""
        one = {"beads": self.bead, "events": self.event}.get(self._slot, self.agent)
        await asyncio.gather(*(one() for _ in range(ROUNDS)))

    async def bead(self) -> None:
        beads = self._adapter
        epic = await self.tried("created", lambda: beads.create_epic(title="an epic", description="x" * 3000))
        if epic is None:
            return
        bead = await self.tried("created", lambda: beads.create_child(parent_id=epic.id, title="a child"))
        if bead is not None and await self.tried("claimed", lambda: beads.claim(bead.id, actor="ada")):
            await self.tried("closed", lambda: beads.close(bead.id, actor="ada"))

    async def event(self) -> None:
        events = self._adapter
        await self.tried("said", lambda: events.dispatch(Event(type="test.said", source="test", data="x" * 3000)))

    async def read(self) -> None:
        if self._slot == "beads":
            await self.tried("read", lambda: self._adapter.get_ready(limit=10))
        elif self._slot == "events":
            await self.tried("read", lambda: self._adapter.read(limit=10))
        else:
            await self.tried("read", self._adapter.list_agents)

    async def agent(self) -> None:
        spec = AgentSpec(command="/bin/sh", args=("-c", "echo hello; exit 3"))
        agent = await self.tried("spawned", lambda: self._adapter.spawn(spec))
        if agent is not None:
            await self.tried("ended", lambda: self.ended(agent.id))

    async def follow(self, *agent_ids: str) -> None:
        """To the end of each, which must have been acknowledged."""
        for agent_id in agent_ids:
            await self.tried("ended", lambda agent_id=agent_id: self.ended(agent_id))  # type: ignore[misc]

    async def ended(self, agent_id: str) -> Any:
        async for _ in self._adapter.stream(agent_id):
            pass
        agent = await self._adapter.status(agent_id)
        self.say("end", agent.id, agent.status, agent.exit_code)
        return agent


async def main() -> None:
    line = socket.socket(fileno=0)
    line.setblocking(False)
    worker = Worker(sys.argv[1], Path(sys.argv[2]), line)
    worker.say("done")
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(main())
