"""Agents that do what they can to be lost sight of, and what everybody is told of them nevertheless."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import attrs
import pytest

from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.errors import AdapterUnavailable, SpawnError
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import (
    Agents,
    events_of,
    eventually,
    output,
    pids_of,
)
from agentbox_contracts.suites._orchestrator_input import fill
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenProcess

__all__ = ["HostileClauses", "flood"]

FLOOD_BYTES = 8 << 20
# Bounded, so that no harm is done where nobody ends it: each child forks a successor and leaves.
BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 20
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        while time.monotonic() < end:
            if os.fork(): os._exit(0)
            time.sleep(0.002)
        os._exit(0)
os.write(1, b"%d\\n" % os.getpid())
while True: signal.pause()
"""
FLOOD = """
import os, sys
left, block = int(sys.argv[1]), bytes(range(10)) + bytes(range(11, 256))
block *= 300
while left > 0:
    left -= os.write(1, block[:left])
"""
CLEAN = "import os\nprint(len(os.listdir('/proc/self/fd')), oct(os.umask(0)), os.getsid(0) == os.getpid())"
WAITING = 'while [ ! -e "$1" ]; do sleep 0.01; done; echo spoke; exit 5'
SILENT = 'exec >&- 2>&- <&-; : > "$2"; while [ ! -e "$1" ]; do sleep 0.01; done; exit 4'


class HostileClauses:
    """Process trees, output and input at their worst; and what an agent is given."""

    @clause("orchestrator.terminate.fork-bomb")
    async def test_processes_that_never_stay_are_ended(self, adapter: Orchestrator, agents: Agents) -> None:
        """When terminate returns nothing is alive of an agent whose processes fork and leave all the time."""
        agent = await adapter.spawn(agents.python(BOMB))
        await pids_of(adapter, agent.id, 1)
        await adapter.terminate(agent.id, grace_seconds=0)

        assert agents.running() == set()

    @clause("orchestrator.stream.flood")
    async def test_a_flood_arrives_whole(self, adapter: Orchestrator, agents: Agents) -> None:
        """Megabytes without a newline, and of bytes that are no text, arrive whole and in order."""
        await flood(adapter, agents, FLOOD_BYTES)

    @clause("orchestrator.stream.closed")
    async def test_an_agent_that_closes_its_output_is_still_seen(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """An agent that has closed its input and output is still running, and its exit is known."""
        go, closed = tmp_path / "go", tmp_path / "closed"
        agent = await adapter.spawn(agents.shell(SILENT, str(go), str(closed)))

        async def is_closed() -> bool:
            return closed.exists()

        assert await eventually(is_closed, seconds=10)
        before = await adapter.status(agent.id)
        go.touch()
        events = await events_of(adapter, agent.id)

        assert (before.status, events[-1].exit_code) == ("running", 4)

    @clause("orchestrator.spawn.instant")
    async def test_agents_that_end_at_once_are_seen(self, adapter: Orchestrator, agents: Agents) -> None:
        """Of agents that end at once all is known: that they started, what they said, how they ended."""
        made = await asyncio.gather(*(adapter.spawn(agents.shell(f"echo {n}; exit {n}")) for n in range(20)))
        told = await asyncio.gather(*(events_of(adapter, agent.id) for agent in made))

        assert [(events[0].type, output(events), events[-1].exit_code) for events in told] == [
            ("started", b"%d\n" % n, n) for n in range(20)
        ]

    @clause("orchestrator.spawn.dead-folder")
    async def test_a_folder_that_is_gone_or_none_is_a_spawn_error(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """A folder that was removed, or is a file, is a SpawnError."""
        removed, file = tmp_path / "removed", tmp_path / "file"
        removed.mkdir()
        removed.rmdir()
        file.touch()
        for folder in (removed, file):
            with pytest.raises(SpawnError):
                await adapter.spawn(agents.spec("true", cwd=str(folder)))

    @clause("orchestrator.spawn.clean")
    async def test_an_agent_starts_clean(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent has a session of its own, the umask 022, and no open file but its standard three."""
        agent = await adapter.spawn(agents.python(CLEAN))

        # One more is the list of open files itself.
        assert output(await events_of(adapter, agent.id)) == b"4 0o22 True\n"

    @clause("orchestrator.environment.identity")
    async def test_an_agent_is_told_who_it_is(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent finds its id, and the session, execution and bead that it works for, in its environment."""
        text = 'echo "$AGENTBOX_AGENT_ID $AGENTBOX_SESSION_ID $AGENTBOX_EXECUTION_ID $AGENTBOX_BEAD_ID"'
        tokens = session_id.set("session-2"), execution_id.set("execution-2")
        try:
            agent = await adapter.spawn(agents.shell(text, bead_id="bd-7k2f"))
        finally:
            session_id.reset(tokens[0])
            execution_id.reset(tokens[1])

        assert output(await events_of(adapter, agent.id)).decode() == f"{agent.id} session-2 execution-2 bd-7k2f\n"

    @clause("orchestrator.input.unread", needs=("send",))
    async def test_input_that_is_never_read_holds_nobody_up(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """An agent that never reads its input runs, speaks and ends as any other."""
        go = tmp_path / "go"
        agent = await adapter.spawn(agents.shell(WAITING, str(go), stdin="pipe"))
        with pytest.raises(AdapterUnavailable):
            await fill(adapter, agent.id)
        go.touch()
        events = await events_of(adapter, agent.id)

        assert (output(events), events[-1].exit_code) == (b"spoke\n", 5)

    @clause("orchestrator.list.filters")
    async def test_agents_are_found_by_what_they_are(self, adapter: Orchestrator, agents: Agents) -> None:
        """Only agents with the name, the bead and the session that were asked for are listed, and all of them."""
        session = f"session-{agents.mark}"[:100]
        token = session_id.set(session)
        try:
            mine = [(await adapter.spawn(agents.spec("true", bead_id=bead))).id for bead in ("bd-1", "bd-2")]
        finally:
            session_id.reset(token)
        other = (await adapter.spawn(agents.spec("true", bead_id="bd-1"))).id
        await adapter.spawn(agents.spec("true", bead_id="bd-1", name=f"not-{agents.mark}"[:200]))
        found = [
            [agent.id for agent in (await adapter.list_agents(name=agents.mark, bead_id=bead, session_id=who)).items]
            for bead, who in ((None, None), ("bd-1", None), (None, session), ("bd-1", session))
        ]

        assert found == [[other, *mine[::-1]], [other, mine[0]], mine[::-1], [mine[0]]]

    @clause("orchestrator.crash.agreement")
    async def test_all_agree_on_the_agents_of_the_dead(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Whoever asks about the agents of a process that died is told the same, also of those that end later."""
        async with open_process(manifest) as dying:
            specs = [agents.sleep(), agents.shell("echo one; exit 3"), agents.shell("sleep 0.2; kill -9 $$")]
            made = [await dying.spawn(spec) for spec in specs]
            await dying.kill()

        async def are_over() -> bool:
            return not any([(await adapter.status(agent.id)).is_alive for agent in made[1:]])

        async with open_process(manifest) as other:
            assert await eventually(are_over, seconds=10)
            assert await agents.listed(other) == await agents.listed(adapter)
            ended = await other.terminate(made[0].id)
            told = {agent.id: agent for agent in await agents.listed(adapter)}
        assert told[made[0].id] == ended
        endings = [(told[agent.id].exit_code, told[agent.id].signal) for agent in made[1:]]
        assert endings == [(3, None), (None, "SIGKILL")]


async def flood(adapter: Orchestrator, agents: Agents, size: int) -> None:
    """See that *size* bytes without a newline arrive."""
    spec = agents.python(FLOOD)
    agent = await adapter.spawn(attrs.evolve(spec, args=(*spec.args, str(size))))
    block = (bytes(range(10)) + bytes(range(11, 256))) * 300
    told, wanted, left = hashlib.sha256(), hashlib.sha256(), size
    count = 0
    async for event in adapter.stream(agent.id):
        if event.type == "stdout":
            told.update(event.data)
            count += len(event.data)
    while left > 0:
        wanted.update(block[:left])
        left -= len(block)

    assert (count, told.hexdigest()) == (size, wanted.hexdigest())
