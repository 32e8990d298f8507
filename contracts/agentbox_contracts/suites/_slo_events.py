"""The load on events: small ones, each with an id of its own."""

from __future__ import annotations

import functools
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from agentbox_contracts.errors import AdapterFailed
from agentbox_contracts.events import Event, Events
from agentbox_contracts.suites._slo_load import Offer, offered

__all__ = ["load"]

SOURCE = "agentbox-bench"


@asynccontextmanager
async def load(adapter: Events) -> AsyncIterator[Mapping[str, Offer]]:
    """Any log. The events stay in it: nothing takes events out of a log."""
    run = uuid.uuid4().hex

    async def dispatch(number: int) -> None:
        event = Event(type=f"{SOURCE}.tick", source=SOURCE, id=f"{run}-{number}", data={"number": number})
        receipt = await adapter.dispatch(event)
        if receipt.id != event.id or receipt.durability == "none":
            raise AdapterFailed(f"the receipt for {event.id} is {receipt}")

    yield {"events.dispatch": functools.partial(offered, dispatch)}
