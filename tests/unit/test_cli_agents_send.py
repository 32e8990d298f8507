"""How `agentbox agents send` waits for its standard input."""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
from typing import cast

import pytest

from agentbox.cli.agents import _send
from agentbox_contracts.orchestrator import Orchestrator

WANTED = argparse.Namespace(id="ag-1", text=None, end=False)
TURNS = 10


class Hearing:
    """An agent that takes everything."""

    def __init__(self) -> None:
        self.heard = b""

    async def send(self, agent_id: str, data: bytes = b"", *, end: bool = False, key: str | None = None) -> None:
        self.heard += data


async def test_it_holds_no_thread_that_an_interrupt_would_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    agent = Hearing()
    with os.fdopen(reader) as stdin, os.fdopen(writer, "wb") as producer:
        monkeypatch.setattr("sys.stdin", stdin)
        sending = asyncio.ensure_future(_send(cast("Orchestrator", agent), WANTED))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio_")]
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        producer.close()


async def test_it_sends_what_comes_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    agent = Hearing()
    with os.fdopen(reader) as stdin, os.fdopen(writer, "wb") as producer:
        monkeypatch.setattr("sys.stdin", stdin)
        producer.write(b"one")
        producer.close()
        assert await _send(cast("Orchestrator", agent), WANTED) == 0
    assert agent.heard == b"one"
