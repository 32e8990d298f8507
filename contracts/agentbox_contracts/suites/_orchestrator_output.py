"""The stream of an agent's doings: whole, in order, from any place, to any number of readers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentbox_contracts.errors import InvalidInput, NotFound
from agentbox_contracts.orchestrator import AgentEvent, Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, difference, events_of, has_ended, output
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["OutputClauses"]

PIECE = 65_536
COUNT = "i=0; while [ $i -lt 20 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
BYTES = "import os\nfor n in range(5000): os.write(1, b'%d \\0\\xff\\xc3\\r\\n' % n)"
# It waits for a file that its reader makes, but not for ever.
ECHOING = 'echo first; for _ in $(seq 100); do [ -e "$1" ] && echo seen && exit; sleep 0.02; done'
FLOOD = "i=0; while [ $i -lt 20000 ]; do echo a line of output that is long enough; i=$((i+1)); done"


class OutputClauses:
    """Stream."""

    @clause("orchestrator.stream.started-first")
    async def test_the_first_event_is_started(self, adapter: Orchestrator, agents: Agents) -> None:
        """The first event of a stream is `started`."""
        events = await events_of(adapter, (await adapter.spawn(agents.shell("echo hello"))).id)

        assert events[0].type == "started"

    @clause("orchestrator.stream.exited-last")
    async def test_the_last_event_is_exited(self, adapter: Orchestrator, agents: Agents) -> None:
        """The last event of a stream is `exited`, and there is one of it."""
        events = await events_of(adapter, (await adapter.spawn(agents.shell("echo hello"))).id)

        assert [index for index, event in enumerate(events) if event.type == "exited"] == [len(events) - 1]

    @clause("orchestrator.stream.tells-the-exit")
    async def test_the_exited_event_says_how(self, adapter: Orchestrator, agents: Agents) -> None:
        """The `exited` event says how the agent ended: its status, or the signal."""
        last = [
            (await events_of(adapter, (await adapter.spawn(agents.shell(text))).id))[-1]
            for text in ("exit 3", "kill -9 $$")
        ]

        assert [(event.exit_code, event.signal) for event in last] == [(3, None), (None, "SIGKILL")]

    @clause("orchestrator.stream.every-byte")
    async def test_every_byte_arrives_in_order(self, adapter: Orchestrator, agents: Agents) -> None:
        """Every byte of output arrives, in order, whether or not it is text."""
        events = await events_of(adapter, (await adapter.spawn(agents.python(BYTES))).id)

        assert difference(output(events), b"".join(b"%d \0\xff\xc3\r\n" % n for n in range(5000))) == ""

    @clause("orchestrator.stream.channels")
    async def test_output_and_errors_are_told_apart(self, adapter: Orchestrator, agents: Agents) -> None:
        """Standard output and standard error are told apart, each in its order."""
        events = await events_of(adapter, (await adapter.spawn(agents.shell(COUNT))).id)

        assert output(events, "stdout").decode().splitlines() == [f"out {n}" for n in range(20)]
        assert output(events, "stderr").decode().splitlines() == [f"err {n}" for n in range(20)]

    @clause("orchestrator.stream.lines")
    async def test_an_event_is_a_line(self, adapter: Orchestrator, agents: Agents) -> None:
        """An event has one line of output, with its newline."""
        events = await events_of(adapter, (await adapter.spawn(agents.shell("echo one; echo; echo three"))).id)

        assert [event.data for event in events if event.type == "stdout"] == [b"one\n", b"\n", b"three\n"]

    @clause("orchestrator.stream.long-lines")
    async def test_a_long_line_comes_in_pieces(self, adapter: Orchestrator, agents: Agents) -> None:
        """A line longer than 64 KiB comes in pieces of at most that, and whole."""
        text = "import os\nos.write(1, b'x' * 200_000 + b'\\n' + b'y' * 65_536 + b'\\n')"
        events = await events_of(adapter, (await adapter.spawn(agents.python(text))).id)

        assert max(len(event.data) for event in events) <= PIECE
        assert difference(output(events), b"x" * 200_000 + b"\n" + b"y" * 65_536 + b"\n") == ""

    @clause("orchestrator.stream.tail")
    async def test_the_tail_of_the_output_arrives(self, adapter: Orchestrator, agents: Agents) -> None:
        """What an agent writes last arrives, also without a newline."""
        events = await events_of(adapter, (await adapter.spawn(agents.shell("echo line; printf tail"))).id)

        assert output(events) == b"line\ntail"

    @clause("orchestrator.stream.replay")
    async def test_a_stream_can_be_read_again(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent's events can be read again from the start, and are the same."""
        agent = await adapter.spawn(agents.shell("for n in 1 2 3 4 5; do echo $n; done"))
        first = await events_of(adapter, agent.id)

        assert _told(await events_of(adapter, agent.id)) == _told(first)

    @clause("orchestrator.stream.behind-a-cursor")
    async def test_a_stream_goes_on_behind_any_cursor(self, adapter: Orchestrator, agents: Agents) -> None:
        """A stream goes on behind the cursor of any event, with nothing missing and nothing twice."""
        agent = await adapter.spawn(agents.shell(COUNT))
        events = await events_of(adapter, agent.id)
        for index, event in enumerate(events):
            rest = await events_of(adapter, agent.id, after=event.cursor)
            assert _by_channel(rest) == _by_channel(events[index + 1 :])

    @clause("orchestrator.stream.cursor-lasts")
    async def test_a_cursor_is_good_after_reopening(
        self, open_adapter: OpenAdapter, manifest: str, agents: Agents
    ) -> None:
        """A cursor is good for whoever opens the store next."""
        async with open_adapter(manifest) as one:
            agent = await one.spawn(agents.shell("echo one; echo two"))
            cursor = (await events_of(one, agent.id))[1].cursor
        async with open_adapter(manifest) as other:
            try:
                assert output(await events_of(other, agent.id, after=cursor)) == b"two\n"
            except InvalidInput as error:
                pytest.fail(f"the cursor was refused: {error.message}")

    @clause("orchestrator.stream.foreign-cursor")
    async def test_another_agents_cursor_is_refused(self, adapter: Orchestrator, agents: Agents) -> None:
        """A cursor of another agent is refused with InvalidInput."""
        one, other = [await adapter.spawn(agents.shell("echo hello")) for _ in range(2)]
        cursors = [event.cursor for event in await events_of(adapter, other.id)]
        for cursor in cursors:
            with pytest.raises(InvalidInput):
                await events_of(adapter, one.id, after=cursor)

    @clause("orchestrator.stream.unknown-cursor")
    async def test_what_is_no_cursor_is_refused(self, adapter: Orchestrator, agents: Agents) -> None:
        """What is not a cursor is refused with InvalidInput."""
        agent = await adapter.spawn(agents.shell("echo hello"))
        cursor = (await events_of(adapter, agent.id))[0].cursor
        for nonsense in ("nonsense", "0", "-1", "9" * 100, "../x", "é€", " ", f"{cursor}x", f" {cursor}", agent.id):
            with pytest.raises(InvalidInput):
                await events_of(adapter, agent.id, after=nonsense[:100])

    @clause("orchestrator.stream.live")
    async def test_output_is_seen_as_it_happens(self, adapter: Orchestrator, agents: Agents, tmp_path: Path) -> None:
        """A reader sees output while the agent runs, as soon as it is written."""
        seen = tmp_path / "seen"
        agent = await adapter.spawn(agents.shell(ECHOING, str(seen)))
        lines = []
        async with asyncio.timeout(30):
            async for event in adapter.stream(agent.id):
                if event.type == "stdout":
                    seen.touch()
                    lines.append(event.data)

        assert lines == [b"first\n", b"seen\n"]

    @clause("orchestrator.stream.every-reader")
    async def test_every_reader_gets_everything(self, adapter: Orchestrator, agents: Agents) -> None:
        """Every one of several readers gets every event."""
        agent = await adapter.spawn(agents.shell("sleep 0.05; for n in 1 2 3 4 5; do echo $n; done"))
        readers = await asyncio.gather(*(events_of(adapter, agent.id) for _ in range(4)))

        assert [output(events) for events in readers] == [b"1\n2\n3\n4\n5\n"] * 4

    @clause("orchestrator.stream.slow-reader")
    async def test_a_slow_reader_slows_nobody(self, adapter: Orchestrator, agents: Agents) -> None:
        """A reader that does not read slows the agent by nothing."""
        agent = await adapter.spawn(agents.shell(FLOOD))
        stream: Any = adapter.stream(agent.id)
        async with aclosing(stream) as events:
            await anext(events)
            assert await has_ended(adapter, agent.id)

    @clause("orchestrator.stream.left-early")
    async def test_a_reader_that_leaves_leaves_the_agent_alone(self, adapter: Orchestrator, agents: Agents) -> None:
        """A reader that leaves early leaves the agent as it is."""
        agent = await adapter.spawn(agents.sleep())
        stream: Any = adapter.stream(agent.id)
        async with aclosing(stream) as events:
            await anext(events)

        assert (await adapter.status(agent.id)).status == "running"

    @clause("orchestrator.stream.not-found")
    async def test_the_stream_of_nobody_is_not_found(self, adapter: Orchestrator) -> None:
        """The stream of an agent that is not there is NotFound."""
        for agent_id in ("ag-none", "../../etc"):
            with pytest.raises(NotFound):
                await events_of(adapter, agent_id)


def _told(events: list[AgentEvent]) -> list[tuple[str, bytes, str]]:
    return [(event.type, event.data, event.cursor) for event in events]


def _by_channel(events: list[AgentEvent]) -> tuple[int, bytes, bytes]:
    """How many events there are, and what they say on each channel: between the two there is no fixed order."""
    return len(events), output(events, "stdout"), output(events, "stderr")
