"""Standard input: what is sent arrives once and in order, or is refused; and what is not declared is refused."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from agentbox_contracts.errors import AdapterDisabled, AdapterUnavailable, Conflict, NotFound
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, difference, events_of, has_ended, output, started
from agentbox_contracts.suites.clauses import clause

__all__ = ["InputClauses", "fill"]

MEGABYTE = b"x" * 1_048_576


class InputClauses:
    """Send, and the honesty of what is declared."""

    @clause("orchestrator.input.arrives", needs=("send",))
    async def test_what_is_sent_arrives_in_order(self, adapter: Orchestrator, agents: Agents) -> None:
        """What is sent reaches the agent whole and in order, whatever the bytes."""
        agent = await adapter.spawn(agents.cat())
        pieces = [b"%d\0\xff\r\n" % n * 500 for n in range(20)] + [b""]
        for piece in pieces[:-1]:
            await adapter.send(agent.id, piece)
        await adapter.send(agent.id, b"last", end=True)

        assert difference(output(await events_of(adapter, agent.id)), b"".join(pieces) + b"last") == ""

    @clause("orchestrator.input.ends", needs=("send",))
    async def test_the_input_can_be_ended(self, adapter: Orchestrator, agents: Agents) -> None:
        """Ending the input is seen by the agent as its end."""
        agent = await adapter.spawn(agents.cat())
        await adapter.send(agent.id, end=True)

        assert await has_ended(adapter, agent.id)

    @clause("orchestrator.input.over", needs=("send",))
    async def test_an_ended_input_takes_nothing_more(self, adapter: Orchestrator, agents: Agents) -> None:
        """An input that was ended takes nothing more: Conflict."""
        agent = await adapter.spawn(agents.sleep(stdin="pipe"))
        await adapter.send(agent.id, b"x", end=True)

        with pytest.raises(Conflict):
            await adapter.send(agent.id, b"y")

    @clause("orchestrator.input.after-exit", needs=("send",))
    async def test_an_ended_agent_takes_nothing(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that has ended takes no input: Conflict."""
        agent = await adapter.spawn(agents.spec("true", stdin="pipe"))
        await events_of(adapter, agent.id)

        with pytest.raises(Conflict):
            await adapter.send(agent.id, b"x")

    @clause("orchestrator.input.no-pipe", needs=("send",))
    async def test_without_a_pipe_nothing_can_be_sent(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent that was started without a pipe takes no input: Conflict."""
        agent = await started(adapter, agents.sleep())

        with pytest.raises(Conflict):
            await adapter.send(agent.id, b"x")

    @clause("orchestrator.input.bounded", needs=("send",))
    async def test_an_agent_that_does_not_read_is_unavailable(self, adapter: Orchestrator, agents: Agents) -> None:
        """Input for an agent that does not read is refused at its bound with AdapterUnavailable."""
        agent = await adapter.spawn(agents.sleep(stdin="pipe"))

        with pytest.raises(AdapterUnavailable):
            await fill(adapter, agent.id)

    @clause("orchestrator.input.not-found", needs=("send",))
    async def test_input_for_nobody_is_not_found(self, adapter: Orchestrator) -> None:
        """Input for an agent that is not there is NotFound."""
        for agent_id in ("ag-none", "../../etc"):
            with pytest.raises(NotFound):
                await adapter.send(agent_id, b"x")

    @clause("orchestrator.capabilities.keys")
    async def test_keys_that_are_not_declared_are_refused(self, adapter: Orchestrator, agents: Agents) -> None:
        """Keys are refused with AdapterDisabled by an adapter without `keys`, and by no other."""
        refused = await _is_refused(adapter.spawn(agents.spec("true"), key=agents.mark))

        assert refused is ("keys" not in adapter.capabilities)

    @clause("orchestrator.capabilities.send")
    async def test_input_that_is_not_declared_is_refused(self, adapter: Orchestrator, agents: Agents) -> None:
        """Pipes and input are refused with AdapterDisabled by an adapter without `send`, and by no other."""
        deaf = await started(adapter, agents.sleep())
        refused = await _is_refused(adapter.spawn(agents.cat())), await _is_refused(adapter.send(deaf.id, b"x"))

        assert refused == ("send" not in adapter.capabilities,) * 2


async def _is_refused(call: Awaitable[Any]) -> bool:
    """Whether *call* is something that the adapter does not offer."""
    try:
        await call
    except AdapterDisabled:
        return True
    except Conflict:
        return False
    return False


async def fill(adapter: Orchestrator, agent_id: str) -> None:
    """Send far more than anybody should hold for an agent."""
    for _ in range(16):
        await adapter.send(agent_id, MEGABYTE)
