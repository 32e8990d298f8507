"""Who knows of an agent: everybody who opens the store, for as long as it is there."""

from __future__ import annotations

from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, output, started
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter, OpenProcess

__all__ = ["SharingClauses"]


class SharingClauses:
    """List, and agents that outlive or outrun whoever started them."""

    @clause("orchestrator.list.newest-first")
    async def test_the_newest_come_first(self, adapter: Orchestrator, agents: Agents) -> None:
        """Agents are listed newest first."""
        made = [(await adapter.spawn(agents.spec("true"))).id for _ in range(5)]

        assert [agent.id for agent in await agents.listed(adapter)] == made[::-1]

    @clause("orchestrator.list.pages")
    async def test_pages_follow_each_other(self, adapter: Orchestrator, agents: Agents) -> None:
        """Page follows page to the last, which has no next, with no agent left out or told twice."""
        made = [(await adapter.spawn(agents.spec("true"))).id for _ in range(5)]
        ids: list[str] = []
        after = None
        for _ in range(1000):
            page = await adapter.list_agents(limit=2, after=after)
            ids += [agent.id for agent in page.items if agent.name == agents.mark]
            after = page.next
            if after is None:
                break

        assert (ids, after) == (made[::-1], None)

    @clause("orchestrator.list.limit")
    async def test_a_page_is_no_longer_than_asked_for(self, adapter: Orchestrator, agents: Agents) -> None:
        """A page is as long as was asked for where there are that many, and never longer."""
        for _ in range(3):
            await adapter.spawn(agents.spec("true"))

        assert [len((await adapter.list_agents(limit=limit)).items) for limit in (1, 2, 3)] == [1, 2, 3]

    @clause("orchestrator.list.by-status")
    async def test_a_status_can_be_asked_for(self, adapter: Orchestrator, agents: Agents) -> None:
        """Only agents of the status that was asked for are listed, and all of them."""
        ended = await adapter.spawn(agents.spec("true"))
        await events_of(adapter, ended.id)
        live = await started(adapter, agents.sleep())
        found = {status: (await adapter.list_agents(status=status)).items for status in ("running", "exited", "lost")}

        assert {status: {agent.status for agent in items} - {status} for status, items in found.items()} == {
            "running": set(),
            "exited": set(),
            "lost": set(),
        }
        assert live.id in [agent.id for agent in found["running"]]
        assert ended.id in [agent.id for agent in found["exited"]]

    @clause("orchestrator.list.agrees")
    async def test_a_listed_agent_is_as_its_status(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent is listed as its status tells of it."""
        agent = await adapter.spawn(agents.shell("exit 4"))
        await events_of(adapter, agent.id)

        assert await agents.listed(adapter) == [await adapter.status(agent.id)]

    @clause("orchestrator.shared.outlives")
    async def test_agents_outlive_the_adapter(self, open_adapter: OpenAdapter, manifest: str, agents: Agents) -> None:
        """Agents outlive the adapter that started them, and are there for the next."""
        async with open_adapter(manifest) as adapter:
            agent = await started(adapter, agents.sleep())
        async with open_adapter(manifest) as adapter:
            assert ((await adapter.status(agent.id)).status, agents.running()) == ("running", {agent.pid})

    @clause("orchestrator.shared.output")
    async def test_output_goes_on_while_nobody_is_there(
        self, open_adapter: OpenAdapter, manifest: str, agents: Agents
    ) -> None:
        """What an agent writes while nobody has the store open is there for the next."""
        async with open_adapter(manifest) as adapter:
            agent = await adapter.spawn(agents.shell("echo one; sleep 0.1; echo two; exit 6"))
        async with open_adapter(manifest) as adapter:
            events = await events_of(adapter, agent.id)
            assert (output(events), events[-1].exit_code) == (b"one\ntwo\n", 6)

    @clause("orchestrator.shared.processes")
    async def test_every_process_knows_every_agent(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Every process that has the store open lists the agents of all."""
        mine = await started(adapter, agents.sleep())
        async with open_process(manifest) as other:
            theirs = await other.spawn(agents.sleep())
            assert [agent.id for agent in await agents.listed(adapter)] == [theirs.id, mine.id]
            assert [agent.id for agent in await agents.listed(other)] == [theirs.id, mine.id]

    @clause("orchestrator.shared.input", needs=("send",))
    async def test_every_process_may_send(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """What any process sends to an agent arrives."""
        agent = await adapter.spawn(agents.cat())
        async with open_process(manifest) as other:
            await other.send(agent.id, b"from there\n")
            await adapter.send(agent.id, b"from here\n", end=True)

        assert output(await events_of(adapter, agent.id)) == b"from there\nfrom here\n"

    @clause("orchestrator.shared.terminate")
    async def test_every_process_may_terminate(
        self, adapter: Orchestrator, open_process: OpenProcess, manifest: str, agents: Agents
    ) -> None:
        """Any process may end an agent, and all hear of it."""
        agent = await adapter.spawn(agents.sleep())
        async with open_process(manifest) as other:
            ended = await other.terminate(agent.id)

        assert agents.running() == set()
        assert await adapter.status(agent.id) == ended
