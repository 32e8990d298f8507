"""Slots that are off."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agentbox import plugins
from agentbox.testing import open_slot
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Settings
from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.events import Event


@pytest.mark.parametrize("slot", SLOTS)
async def test_every_method_of_an_off_slot_says_so(slot: str) -> None:
    cls = plugins.adapter_class(slot, "off")
    adapter = cls(slot=slot, impl="off", config=Settings(), logger=logging.getLogger("test"))

    assert not adapter.enabled
    assert (await adapter.health()).state == "off"
    for name, method in contract_of(slot).methods.items():
        if (slot, name) == ("events", "dispatch"):
            continue
        call = getattr(adapter, name)()
        with pytest.raises(AdapterDisabled, match=f"{slot} is off"):
            await (anext(call) if method.stream else call)


async def test_an_event_to_an_off_slot_gets_a_receipt_that_promises_nothing(tmp_path: Path) -> None:
    async with open_slot('[adapters]\nevents = "off"\n', "events", folder=tmp_path) as events:
        receipt = await events.dispatch(Event(type="x", source="y"))  # type: ignore[attr-defined]

    assert receipt.durability == "none"
