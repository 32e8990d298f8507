"""`agentbox meta`: what is configured and what answers, for programs."""

from __future__ import annotations

import argparse
import asyncio

from agentbox.cli import _output
from agentbox.cli._opening import opened_app

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `meta`. Its output is JSON in any case."""
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the app's meta data."""
    return asyncio.run(_meta(arguments))


async def _meta(arguments: argparse.Namespace) -> int:
    async with opened_app(arguments) as app:
        _output.print_json(app.meta())
    return 0
