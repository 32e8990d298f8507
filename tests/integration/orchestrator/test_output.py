"""The stream: all of the output, in order, from any point, live."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from agentbox.adapters._watch import Watch
from agentbox.adapters.orchestrator import _output
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput
from agentbox_contracts.orchestrator import AgentEvent, AgentSpec

Opener = Callable[..., Awaitable[LocalProcessManager]]


def python(script: str, *args: str, **fields: object) -> AgentSpec:
    return AgentSpec(command=sys.executable, args=("-S", "-c", script, *args), **fields)  # type: ignore[arg-type]


async def collect(manager: LocalProcessManager, agent_id: str, after: str | None = None) -> list[AgentEvent]:
    async with asyncio.timeout(60):
        return [event async for event in manager.stream(agent_id, after=after)]


def joined(events: list[AgentEvent], kind: str = "stdout") -> bytes:
    return b"".join(event.data for event in events if event.type == kind)


async def test_bytes_arrive_as_they_were_written(manager: LocalProcessManager) -> None:
    data = b"\xff\xfe\x00 not utf-8 \xc3\n\r\n\n" + bytes(range(256)) + b"\nlast line without its newline \xf0"
    script = "import os, sys; os.write(1, bytes.fromhex(sys.argv[1]))"
    events = await collect(manager, (await manager.spawn(python(script, data.hex()))).id)
    lines = [event.data for event in events if event.type == "stdout"]
    assert b"".join(lines) == data
    assert lines == [*(line + b"\n" for line in data.split(b"\n")[:-1]), data.split(b"\n")[-1]]
    assert events[2].text == "\r\n"


async def test_what_follows_arrives_also_when_an_agent_has_cut_its_own_output_short(
    manager: LocalProcessManager,
) -> None:
    script = "echo a long line; read go; echo cut > /dev/stdout; read go; echo end; exec cat > /dev/null"
    agent = await manager.spawn(AgentSpec(command="/bin/sh", args=("-c", script), stdin="pipe"))
    said = []
    async with asyncio.timeout(60), aclosing(manager.stream(agent.id)) as events:
        async for event in events:
            if event.type == "stdout":
                said.append(event.data)
                await manager.send(agent.id, b"go\n", end=event.data == b"end\n")
    assert said == [b"a long line\n", b"cut\n", b"end\n"]


async def test_a_long_line_comes_in_pieces(manager: LocalProcessManager) -> None:
    script = "import os; os.write(1, b'a' * 65536 * 3 + b'b' * 10 + b'\\n' + b'c' * 65535 + b'\\n' + b'd' * 70000)"
    events = await collect(manager, (await manager.spawn(python(script))).id)
    sizes = [len(event.data) for event in events if event.type == "stdout"]
    assert sizes == [65536, 65536, 65536, 11, 65536, 65536, 70000 - 65536]


async def test_every_cursor_leads_to_exactly_the_rest(manager: LocalProcessManager) -> None:
    script = """
import os
for n in range(20):
    os.write(1, b'out %d\\n' % n)
    os.write(2, b'err %d\\n' % n)
os.write(1, b'x' * 150000)
os.write(2, b'no newline')
"""
    agent = await manager.spawn(python(script))
    events = await collect(manager, agent.id)
    assert len(events) == 1 + 20 + 20 + 3 + 1 + 1
    for index, event in enumerate(events):
        rest = await collect(manager, agent.id, event.cursor)
        for kind in ("started", "stdout", "stderr", "exited"):
            wanted = [(e.data, e.exit_code) for e in events[index + 1 :] if e.type == kind]
            assert [(e.data, e.exit_code) for e in rest if e.type == kind] == wanted


async def test_twenty_megabytes_arrive_in_full_and_in_order(manager: LocalProcessManager) -> None:
    script = """
import os
line = b'%08d ' + b'x' * 90 + b'\\n'
for block in range(200):
    os.write(1, b''.join(line % n for n in range(block * 1000, block * 1000 + 1000)))
"""
    agent = await manager.spawn(python(script))
    count = 0
    async with asyncio.timeout(60):
        async for event in manager.stream(agent.id):
            if event.type == "stdout":
                assert event.data[:8] == b"%08d" % count
                count += 1
    assert count == 200_000


@pytest.mark.parametrize("by_looking", [False, True])
async def test_lines_arrive_while_the_agent_runs(manager: LocalProcessManager, by_looking: bool) -> None:
    script = "import sys\nfor line in sys.stdin: print('got', line, end='', flush=True)"
    agent = await manager.spawn(python(script, stdin="pipe"))
    assert manager._link is not None
    watch = Watch(by_looking=by_looking)
    follower = _output.Follower(manager._link.records, agent.id, watch, 15.0, manager.status)
    try:
        async with asyncio.timeout(30), aclosing(follower.events(None)) as events:
            assert (await anext(events)).type == "started"
            for n in range(20):
                await manager.send(agent.id, b"%d\n" % n)
                assert (await anext(events)).data == b"got %d\n" % n
            await manager.send(agent.id, end=True)
            assert (await anext(events)).exit_code == 0
    finally:
        watch.close()


async def test_an_unfinished_line_waits_for_its_end(manager: LocalProcessManager) -> None:
    script = "import os\nos.write(1, b'be'); os.read(0, 1); os.write(1, b'gin\\n'); os.read(0, 1)"
    agent = await manager.spawn(python(script, stdin="pipe"))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        await anext(events)
        await manager.send(agent.id, b"1")
        assert (await anext(events)).data == b"begin\n"
        await manager.send(agent.id, b"2")
        assert (await anext(events)).type == "exited"


async def test_silence_is_a_heartbeat(open_manager: Opener) -> None:
    manager = await open_manager(heartbeat_seconds=0.05)
    agent = await manager.spawn(AgentSpec(command="sleep", args=("60",)))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        kinds = [(await anext(events)).type for _ in range(4)]
    assert kinds == ["started", "heartbeat", "heartbeat", "heartbeat"]
    await manager.terminate(agent.id, grace_seconds=0)


async def test_several_readers_see_the_same(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(python("for n in range(1000): print(n, flush=True)"))
    seen = await asyncio.gather(*(collect(manager, agent.id) for _ in range(5)))
    told = [[(event.type, event.data, event.cursor) for event in events] for events in seen]
    assert all(each == told[0] for each in told)
    assert len(told[0]) == 1002


async def test_an_agent_does_not_wait_for_its_readers(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(python("import os\nfor _ in range(100): os.write(1, b'x' * 99999 + b'\\n')"))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        await anext(events)
        while (await manager.status(agent.id)).is_alive:
            await asyncio.sleep(0.01)
        rest = [event async for event in events]
    assert len(joined(rest)) == 10_000_000


async def test_a_reader_that_leaves_holds_nothing(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("60",)))
    await manager.terminate(agent.id, grace_seconds=0)
    agent = await manager.spawn(AgentSpec(command="sleep", args=("60",)))
    before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    for _ in range(20):
        stream = manager.stream(agent.id)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await stream.aclose()
    assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before
    assert manager._link is not None
    assert manager._link.watch._waiting == {}
    await manager.terminate(agent.id, grace_seconds=0)


@pytest.mark.parametrize("cursor", ["x", "", "zzzzzzzz.1.0.0.0", "{id}.1.0.9.0", "{id}.1.0.-1.0", "{id}.2.0.0.0"])
async def test_a_foreign_cursor_is_refused(manager: LocalProcessManager, cursor: str) -> None:
    agent = await manager.spawn(AgentSpec(command="true"))
    with pytest.raises(InvalidInput, match=agent.id):
        await collect(manager, agent.id, cursor.format(id=agent.id.removeprefix("ag-")))


async def test_disconnecting_ends_a_stream_with_an_error(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(AgentSpec(command="sleep", args=("60",)))
    stream = manager.stream(agent.id)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    await manager.disconnect()
    with pytest.raises(AdapterUnavailable, match="disconnected"):
        await waiting
    await manager.connect()
    await manager.terminate(agent.id, grace_seconds=0)


async def test_closed_output_is_an_agents_own_business(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(python("import os; os.write(1, b'bye\\n'); os.close(1); os.close(2); os._exit(4)"))
    events = await collect(manager, agent.id)
    assert (joined(events), events[-1].exit_code) == (b"bye\n", 4)


async def test_the_time_of_an_event_is_when_it_was_written(manager: LocalProcessManager, folder: Path) -> None:
    agent = await manager.spawn(python("print('hi')"))
    await collect(manager, agent.id)
    later = time.time() - 5
    os.utime(folder / agent.id / "stdout.log", (later, later))
    events = await collect(manager, agent.id)
    assert events[1].at == events[0].at
