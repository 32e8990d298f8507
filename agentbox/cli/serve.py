"""`agentbox serve`: this agentbox as a host for others."""

from __future__ import annotations

import argparse

from agentbox import __version__, telemetry
from agentbox import manifest as manifests
from agentbox.app import open_app
from agentbox.cli import _output
from agentbox.cli._parser import whole_number
from agentbox.host.auth import LOCAL

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `serve`."""
    parser.add_argument("--bind", metavar="ADDRESS", help="listen on this address instead of [host] bind")
    parser.add_argument("--port", type=whole_number(0, 65535), help="listen on this port; 0 takes a free one")


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    chosen = {name: value for name in ("bind", "port") if (value := getattr(arguments, name)) is not None}
    manifest = manifests.load(arguments.manifest, overrides={"host": chosen} if chosen else None)
    from agentbox.host import server

    telemetry.log_json("debug" if arguments.debug else manifest.observability.log_level)
    return server.run(_serve(manifest))


async def _serve(manifest: manifests.Manifest) -> int:
    from agentbox.host import server

    def told(address: str) -> None:
        _output.print_line(f"agentbox {__version__} serves {address}", "green")
        _output.print_line(f"token: {manifest.state / LOCAL} · page: {address}/docs")

    async with open_app(manifest) as app:
        await server.serve(app, told=told)
    return 0
