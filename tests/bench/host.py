"""Claims through a host against a bare endpoint on the same server, and a claim of the client against a raw POST."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from agentbox.testing import open_slot
from tests.bench import _store
from tests.bench._measure import Bench, Measured, paired, seconds_of
from tests.servers.host import Host, host

ROUNDS = 9
CONNECTIONS = 64
CLAIMS = 1280
LONE = 160

BARE = """
import sys, uvicorn

async def app(scope, receive, send):
    if scope["type"] == "http":
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json"),
                                                                               (b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
server.run(sockets=[listener])
"""


@contextmanager
def bare() -> Iterator[int]:
    """The port of a server that answers everything with `{}`."""
    with subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class Wire:
    """One keep-alive connection, as thin as a client can be: what is measured is the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer = reader, writer
        self._head = (
            f"HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
        )

    async def post(self, path: str, body: bytes) -> bytes:
        self._writer.write(f"POST {path} {self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 20"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def wires(port: int, token: str) -> AsyncIterator[list[Wire]]:
    found = [Wire(*await asyncio.open_connection("127.0.0.1", port), token) for _ in range(CONNECTIONS)]
    try:
        yield found
    finally:
        for wire in found:
            wire.close()


async def _throughput(lines: list[Wire], paths: list[str], body: bytes) -> float:
    """Seconds for one of *paths*, shared out over the lines."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def work(index: int) -> None:
        for path in paths[index :: len(lines)]:
            await lines[index].post(path, body)

    await asyncio.gather(*(work(index) for index in range(len(lines))))
    return (loop.time() - began) / len(paths)


@contextmanager
def filled_host(count: int) -> Iterator[Host]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".agentbox").mkdir()
        _store.fill(folder / ".agentbox", count)
        with host(folder, '[observability]\nlog_level = "warning"\n') as found:
            yield found


def _paths(count: int) -> Iterator[str]:
    return (f"/v1/beads/bd-{number}/claim" for number in range(1, count + 1))


async def _served() -> Measured:
    total = CLAIMS * (ROUNDS + 2)
    with filled_host(total) as served, bare() as port:
        body = json.dumps({"actor": "bench"}).encode()
        paths = _paths(total)
        async with wires(served.port, served.token) as subject_lines, wires(port, "none") as reference_lines:

            async def subject() -> float:
                return await _throughput(subject_lines, [next(paths) for _ in range(CLAIMS)], body)

            async def reference() -> float:
                return await _throughput(reference_lines, ["/"] * CLAIMS, body)

            return await paired(reference, subject, rounds=ROUNDS)


async def _client() -> Measured:
    total = LONE * (ROUNDS + 2)
    with filled_host(total) as served, bare() as port, tempfile.TemporaryDirectory() as folder:
        names = (f"bd-{number}" for number in range(1, total + 1))
        async with (
            open_slot(served.client("beads"), "beads", folder=Path(folder)) as beads,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as raw,
        ):

            async def claim(_: int) -> Any:
                return await beads.claim(next(names), actor="bench")

            async def post(_: int) -> Any:
                return await raw.post("/", json={"actor": "bench"})

            return await paired(lambda: seconds_of(post, LONE), lambda: seconds_of(claim, LONE), rounds=ROUNDS)


BENCHES = (
    Bench(
        name="host-claim",
        what="claims at a host, 64 connections : a bare endpoint on the same server",
        bound="at_least",
        bar=0.15,
        measure=lambda: asyncio.run(_served()),
    ),
    Bench(
        name="external-claim",
        what="external.claim, one caller : a raw httpx POST to a bare endpoint",
        bound="at_most",
        bar=2.5,
        measure=lambda: asyncio.run(_client()),
    ),
)
