"""`agentbox host --stdio`: this agentbox for the one who started it, over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import stat
import threading

from agentbox import manifest as manifests
from agentbox import telemetry
from agentbox.adapters._jsonrpc import LINE_BYTES
from agentbox.app import open_app
from agentbox.cli._failure import complain
from agentbox.host.stdio import serve
from agentbox_contracts import SLOTS

__all__ = ["configure", "run"]

ALONE = (
    "[adapters]\n"
    + "".join(f'{slot} = "off"\n' for slot in SLOTS if slot != "orchestrator")
    + 'orchestrator = "local-process-manager"\n[federation]\nmode = "standalone"\n'
)
"""What is served without a manifest. The nearest one is not looked for: it may name this very bridge."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `host`."""
    parser.add_argument("--stdio", action="store_true", help="JSON-RPC 2.0, one object a line; the only way so far")


def run(arguments: argparse.Namespace) -> int:
    """Serve until standard input ends."""
    if not arguments.stdio:
        complain("give --stdio; over HTTP it is 'agentbox serve'")
        return 2
    manifest = manifests.load(arguments.manifest) if arguments.manifest else manifests.parse(ALONE)
    telemetry.log_json("debug" if arguments.debug else manifest.observability.log_level)
    asyncio.run(_serve(manifest))
    return 0


async def _serve(manifest: manifests.Manifest) -> None:
    # Only messages may reach the other side: whatever prints from here on prints to standard error.
    out = os.dup(1)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    source = os.fdopen(0 if _can_be_watched(0) else _pumped_from(0), "rb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    pump: threading.Thread | None = None
    if not _can_be_watched(out):
        out, pump = _pumped_to(out)
    sink = os.fdopen(out, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sink)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    async with open_app(manifest) as app:
        await serve(app, reader, writer)
    transport.close()
    if pump is not None:
        await asyncio.to_thread(pump.join)


def _can_be_watched(descriptor: int) -> bool:
    """Whether the loop can wait for it: for a file it cannot, and a terminal it would leave in a state for nobody."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _pumped_from(source: int) -> int:
    """A pipe that gives what *source* holds."""
    theirs, ours = os.pipe()
    _pump(source, ours)
    return theirs


def _pumped_to(target: int) -> tuple[int, threading.Thread]:
    """A pipe whose content goes to *target*, and the thread that ends when all of it has."""
    ours, theirs = os.pipe()
    return theirs, _pump(ours, target)


def _pump(source: int, target: int) -> threading.Thread:
    def copy() -> None:
        with contextlib.suppress(OSError), os.fdopen(target, "wb") as out, os.fdopen(source, "rb") as incoming:
            while piece := incoming.read1():
                out.write(piece)
                out.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread
