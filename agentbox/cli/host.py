"""`agentbox host --stdio`: this agentbox for the one who started it, over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

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
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    async with open_app(manifest) as app:
        await serve(app, reader, writer)
    transport.close()
