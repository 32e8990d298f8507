"""One slot of a manifest, opened by the front door: text, resolver, dispatch."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentbox import manifest, resolver
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.suites.bad import known_bads

__all__ = ["open_slot"]


@asynccontextmanager
async def open_slot(text: str, slot: str, *, folder: Path, known_bad: str | None = None) -> AsyncIterator[Any]:
    """
    Open one slot of a manifest given as text, its state in *folder*. A slot that does not connect is an error.

    With *known_bad* the adapter is spoiled in the way of that name.
    """
    chosen = manifest.parse(text, folder=folder, environ={**os.environ, "AGENTBOX_STATE": str(folder)})
    opened = resolver.build(chosen, slot, derive=known_bads()[known_bad].derive if known_bad else None)
    await resolver.connect(opened)
    try:
        if opened.failure:
            raise AdapterUnavailable(opened.failure, slot=slot)
        yield opened.adapter
    finally:
        await opened.adapter.disconnect()
