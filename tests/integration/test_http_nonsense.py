"""An address at which somebody answers, and not as an agentbox host does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable

PAGE = b"<html>Welcome to our hotel</html>"


def meta(slot: str) -> bytes:
    from agentbox_contracts import contract_of

    contract = contract_of(slot)
    told = {"impl": "local", "reason": "", "contract": contract.version, "durability": "fsync"}
    slots = {slot: {**told, "accepts": contract.accepts, "capabilities": sorted(contract.capabilities)}}
    return json.dumps({"slots": slots}).encode()


@asynccontextmanager
async def answering(*bodies: bytes) -> AsyncIterator[str]:
    """A server whose answers are 200 and each of *bodies* in turn, the last one for ever; its address."""
    left = list(bodies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await reader.readexactly(int(length or 0))
        body = left.pop(0) if len(left) > 1 else left[0]
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def manifest(slot: str, url: str) -> str:
    return f'[adapters]\n{slot} = "external"\n[federation]\nmode = "client"\nexternal_url = "{url}"\n'


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "show": lambda beads, folder: beads.show("bd-none"),
    "create_epic": lambda beads, folder: beads.create_epic(title="Ship it"),
    "get_ready": lambda beads, folder: beads.get_ready(),
    "sync": lambda beads, folder: beads.sync(str(folder / "beads.jsonl")),
}


@pytest.mark.parametrize("body", [PAGE, b"", b"\xff\xfe", b"[" * 100_000, b'{"id": 7}'], ids=lambda body: body[:9])
@pytest.mark.parametrize("call", CALLS)
async def test_an_answer_that_is_none_is_not_the_callers_fault(tmp_path: Path, call: str, body: bytes) -> None:
    async with (
        answering(meta("beads"), body) as url,
        open_slot(manifest("beads", url), "beads", folder=tmp_path) as beads,
    ):
        with pytest.raises(AdapterFailed, match="not as an agentbox host does"):
            await CALLS[call](beads, tmp_path)


@pytest.mark.parametrize(
    "body", [b"data: <html>\n\n", b"event: problem\ndata: 7\n\n", b"event: problem\ndata: <html>\n\n"]
)
async def test_an_event_that_is_none_is_an_error(tmp_path: Path, body: bytes) -> None:
    async with (
        answering(meta("orchestrator"), body) as url,
        open_slot(manifest("orchestrator", url), "orchestrator", folder=tmp_path) as adapter,
    ):
        with pytest.raises(AdapterFailed, match="not as an agentbox host does"):
            [event async for event in adapter.stream("agent")]


@pytest.mark.parametrize("body", [PAGE, b"{}", b'{"slots": 7}'])
async def test_who_is_no_host_is_not_connected_to(tmp_path: Path, body: bytes) -> None:
    async with answering(body) as url:
        with pytest.raises(AdapterUnavailable, match="not as an agentbox host does"):
            async with open_slot(manifest("beads", url), "beads", folder=tmp_path):
                pass
