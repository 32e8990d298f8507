"""Standard input: written once, bounded, and never a reason to wait."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.errors import AdapterUnavailable, Conflict
from agentbox_contracts.orchestrator import AgentSpec

CAT = AgentSpec(command="cat", stdin="pipe")


async def output(manager: LocalProcessManager, agent_id: str) -> bytes:
    async with asyncio.timeout(30):
        return b"".join([event.data async for event in manager.stream(agent_id) if event.type == "stdout"])


async def test_what_is_sent_is_read_in_order_to_the_end(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(CAT)
    pieces = [b"%d\x00\xff\n" % n * 3000 for n in range(40)]
    for piece in pieces:
        await manager.send(agent.id, piece)
    await manager.send(agent.id, b"last", end=True)
    assert await output(manager, agent.id) == b"".join(pieces) + b"last"
    assert (await manager.status(agent.id)).exit_code == 0


async def test_the_same_key_writes_once(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(CAT)
    for _ in range(3):
        await manager.send(agent.id, b"once\n", key="a")
    await manager.send(agent.id, b"twice\n", key="b")
    for _ in range(2):
        await manager.send(agent.id, b"end\n", end=True, key="c")
    assert await output(manager, agent.id) == b"once\ntwice\nend\n"
    await manager.send(agent.id, b"end\n", end=True, key="c")
    with pytest.raises(Conflict, match="has ended"):
        await manager.send(agent.id, b"more\n", key="d")


async def test_an_agent_without_a_pipe_takes_nothing(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("600",)))
    with pytest.raises(Conflict, match='started without stdin="pipe"'):
        await manager.send(agent.id, b"x")
    await manager.terminate(agent.id, grace_seconds=0)


async def test_a_closed_input_takes_nothing(manager: LocalProcessManager) -> None:
    spec = AgentSpec(command="/bin/sh", args=("-c", "exec <&-; echo closed; exec sleep 600"), stdin="pipe")
    agent = await manager.spawn(spec)
    async for event in manager.stream(agent.id):
        if event.data == b"closed\n":
            break
    with pytest.raises(Conflict, match="closed its input"):
        await manager.send(agent.id, b"x", end=True)
    with pytest.raises(Conflict, match="input is closed"):
        await manager.send(agent.id, b"x")
    await manager.terminate(agent.id, grace_seconds=0)


async def test_an_ended_input_takes_nothing_more(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", "exec sleep 600"), stdin="pipe"))
    await manager.send(agent.id, b"x", end=True)
    with pytest.raises(Conflict, match="input is closed"):
        await manager.send(agent.id, b"y")
    await manager.terminate(agent.id, grace_seconds=0)


async def test_an_ended_agent_takes_nothing(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="true", stdin="pipe"))
    await output(manager, agent.id)
    with pytest.raises(Conflict, match="has ended"):
        await manager.send(agent.id, b"x")


async def test_an_agent_that_does_not_read_fills_its_bound_and_blocks_nobody(manager: LocalProcessManager) -> None:
    # Stopped before it can read a byte, until the test lets it go on.
    slow = AgentSpec(command="/bin/sh", args=("-c", "kill -STOP $$; exec wc -c"), stdin="pipe")
    agent = await manager.spawn(slow)
    assert agent.pid
    sent = 0

    async def fill() -> None:
        nonlocal sent
        while sent < 10_000_000:
            await manager.send(agent.id, b"x" * 100_000)
            sent += 100_000

    with pytest.raises(AdapterUnavailable, match="does not read"):
        await fill()
    assert 1_000_000 <= sent <= 1_200_000
    other = await manager.spawn(CAT)
    await manager.send(other.id, b"hi", end=True)
    assert await output(manager, other.id) == b"hi"
    os.kill(agent.pid, signal.SIGCONT)
    async with asyncio.timeout(30):
        while True:
            try:
                await manager.send(agent.id, b"y", end=True)
                break
            except AdapterUnavailable:
                await asyncio.sleep(0.01)
    assert int(await output(manager, agent.id)) == sent + 1
