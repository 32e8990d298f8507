"""The promises of the orchestrator port, clause by clause."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts.errors import Conflict, InvalidInput, NotFound, SpawnError
from agentbox_contracts.orchestrator import Agent, AgentEvent, AgentSpec, Orchestrator
from agentbox_contracts.suites.lifecycle import LifecycleSuite, OpenAdapter

# A tree that does what it can to survive: a grandchild in a session of its own, double-forked, deaf to SIGTERM.
HOSTILE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        break
print(os.getpid(), flush=True)
time.sleep(600)
"""


def script(text: str, *args: str, **fields: Any) -> AgentSpec:
    """An agent that runs Python *text*."""
    return AgentSpec(command=sys.executable, args=("-c", text, *args), **fields)


async def events_of(adapter: Orchestrator, agent: Agent, after: str | None = None) -> list[AgentEvent]:
    """Everything the agent did, heartbeats left out."""
    async with asyncio.timeout(60):
        return [event async for event in adapter.stream(agent.id, after=after) if event.type != "heartbeat"]


def output(events: list[AgentEvent], stream: str = "stdout") -> bytes:
    """What the agent wrote to *stream*."""
    return b"".join(event.data for event in events if event.type == stream)


def is_alive(pid: int) -> bool:
    """Whether a process runs, zombies not counted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


class OrchestratorSuite(LifecycleSuite):
    """Every clause runs against every adapter of the slot, with real processes."""

    slot = "orchestrator"

    async def any_read(self, adapter: Orchestrator) -> Any:
        return await adapter.spawn(script("pass"))

    async def test_an_agent_starts_speaks_and_ends(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
        events = await events_of(adapter, agent)
        ended = await adapter.status(agent.id)

        assert [events[0].type, events[-1].type] == ["started", "exited"]
        assert (output(events), output(events, "stderr")) == (b"out\n", b"err\n")
        assert (events[-1].exit_code, ended.status, ended.exit_code) == (3, "exited", 3)
        assert ended.ended_at is not None

    async def test_an_agent_that_a_signal_ended_says_which(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script("import os; os.kill(os.getpid(), 9)"))
        await events_of(adapter, agent)
        ended = await adapter.status(agent.id)

        assert (ended.exit_code, ended.signal) == (None, "SIGKILL")

    async def test_every_byte_of_output_arrives_in_order(self, adapter: Orchestrator) -> None:
        text = "import os\nfor n in range(20000): os.write(1, b'%d \\xff\\n' % n)\nos.write(1, b'tail without newline')"
        events = await events_of(adapter, await adapter.spawn(script(text)))

        assert output(events) == b"".join(b"%d \xff\n" % n for n in range(20000)) + b"tail without newline"
        assert max(len(event.data) for event in events) <= 65_536

    async def test_a_stream_goes_on_behind_any_cursor(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script("for n in range(10): print(n)"))
        events = await events_of(adapter, agent)
        for index, event in enumerate(events):
            rest = await events_of(adapter, agent, after=event.cursor)
            assert [(e.type, e.data) for e in rest] == [(e.type, e.data) for e in events[index + 1 :]]

    async def test_a_cursor_that_is_none_is_refused(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script("pass"))

        with pytest.raises(InvalidInput):
            await events_of(adapter, agent, after="nonsense")
        await events_of(adapter, agent)

    @pytest.mark.parametrize(
        "spec",
        [
            AgentSpec(command="no-such-command-anywhere"),
            AgentSpec(command="/etc/hostname"),
            AgentSpec(command=sys.executable, cwd="/no/such/folder"),
        ],
        ids=["missing", "not executable", "no folder"],
    )
    async def test_what_cannot_start_is_a_spawn_error(self, adapter: Orchestrator, spec: AgentSpec) -> None:
        with pytest.raises(SpawnError) as caught:
            await adapter.spawn(spec)
        assert (spec.cwd or spec.command) in caught.value.message
        assert (await adapter.list_agents(status="running")).items == []

    async def test_terminate_leaves_no_descendant(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script(HOSTILE))
        pids: list[int] = []
        async with asyncio.timeout(30):
            async for event in adapter.stream(agent.id):
                if event.type == "stdout":
                    pids.append(int(event.data))
                if len(pids) == 3:
                    break
        ended = await adapter.terminate(agent.id, grace_seconds=0.1)

        assert ended.status == "exited"
        assert not [pid for pid in pids if is_alive(pid)]
        assert await adapter.terminate(agent.id) == ended

    async def test_only_allowed_environment_reaches_the_agent(
        self, adapter: Orchestrator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("AGENTBOX_TEST_SECRET", "hidden")
        spec = script("import os; print(sorted(os.environ.items()))", env={"GIVEN": "s3cret-value"}, cwd=str(tmp_path))
        text = output(await events_of(adapter, await adapter.spawn(spec))).decode()

        assert "hidden" not in text
        assert "s3cret-value" in text
        assert "PATH" in text

    async def test_input_reaches_the_agent_and_ends(self, adapter: Orchestrator) -> None:
        agent = await adapter.spawn(script("import sys; print(sys.stdin.read().upper())", stdin="pipe"))
        await adapter.send(agent.id, b"hello ", key="k")
        await adapter.send(agent.id, b"hello ", key="k")
        await adapter.send(agent.id, b"world", end=True)

        assert output(await events_of(adapter, agent)) == b"HELLO WORLD\n"
        with pytest.raises(Conflict):
            await adapter.send(agent.id, b"more")

    async def test_the_same_key_starts_one_agent(self, open_adapter: OpenAdapter, manifest: str) -> None:
        spec = script("pass")
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            agents = await asyncio.gather(*((one, other)[n % 2].spawn(spec, key="k") for n in range(6)))
            with pytest.raises(Conflict):
                await one.spawn(script("print()"), key="k")
            await events_of(other, agents[0])
            assert [agent.id for agent in (await other.list_agents()).items] == [agents[0].id]

        assert {agent.id for agent in agents} == {agents[0].id}

    async def test_agents_are_listed_newest_first_in_pages(self, adapter: Orchestrator) -> None:
        made = [await adapter.spawn(script("pass")) for _ in range(5)]
        for agent in made:
            await events_of(adapter, agent)
        first = await adapter.list_agents(limit=3)
        second = await adapter.list_agents(limit=3, after=first.next)

        assert [agent.id for agent in (*first.items, *second.items)] == [agent.id for agent in reversed(made)]
        assert second.next is None
        assert len((await adapter.list_agents(status="exited")).items) == 5

    async def test_an_agent_that_is_not_there_is_not_found(self, adapter: Orchestrator) -> None:
        for call in (adapter.status("ag-none"), adapter.terminate("ag-none"), adapter.send("ag-none", b"x")):
            with pytest.raises(NotFound):
                await call
        with pytest.raises(NotFound):
            await anext(adapter.stream("ag-none"))
        with pytest.raises((NotFound, InvalidInput)):
            await adapter.status("../../etc")

    async def test_agents_outlive_the_adapter_that_started_them(self, open_adapter: OpenAdapter, manifest: str) -> None:
        async with open_adapter(manifest) as adapter:
            agent = await adapter.spawn(script("import sys; print(sys.stdin.read())", stdin="pipe"))
        async with open_adapter(manifest) as adapter:
            assert (await adapter.status(agent.id)).status == "running"
            await adapter.send(agent.id, b"still here", end=True)
            assert output(await events_of(adapter, agent)) == b"still here\n"
