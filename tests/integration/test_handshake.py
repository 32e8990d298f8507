"""Two sides of different MINOR versions work together and say so; what only one of them can do is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agentbox import manifest as manifests
from agentbox import resolver
from agentbox.adapters.beads.local_sqlite import SqliteBeads
from agentbox.app import _meta_of
from agentbox.testing import open_slot
from agentbox_contracts.contract import BaseAdapter
from agentbox_contracts.errors import AdapterDisabled, ContractMismatch
from tests.servers.host import host


def speaks(version: str, *capabilities: str) -> type[BaseAdapter]:
    return type("Other", (SqliteBeads,), {"contract_version": version, "capabilities": frozenset(capabilities)})


def slot_of(folder: Path, cls: type[BaseAdapter]) -> resolver.Slot:
    manifest = manifests.parse("", environ={"AGENTBOX_STATE": str(folder)})
    return resolver.build(manifest, "beads", derive=lambda _: cls)


@pytest.mark.parametrize("version", ["1.0.0", "1.0.7"])
async def test_a_patch_is_not_worth_a_word(tmp_path: Path, version: str, caplog: pytest.LogCaptureFixture) -> None:
    slot = slot_of(tmp_path, speaks(version))
    await resolver.connect(slot)
    await slot.adapter.disconnect()
    assert _meta_of(slot)["skew"] == ""
    assert not [text for text in caplog.messages if text.startswith("contract skew")]


async def test_a_newer_minor_version_is_reported_and_works(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slot = slot_of(tmp_path, speaks("1.4.0"))
    with caplog.at_level(logging.WARNING):
        await resolver.connect(slot)
    try:
        assert not slot.failure
        assert (await slot.adapter.create_epic(title="works")).title == "works"  # type: ignore[attr-defined]
    finally:
        await slot.adapter.disconnect()
    assert "speaks contract 1.4.0, this side knows 1.0.0" in _meta_of(slot)["skew"]
    assert len([text for text in caplog.messages if text.startswith("contract skew: beads: ")]) == 1


def test_another_major_version_is_fatal_and_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(ContractMismatch, match=r"2\.0\.0.*>=1\.0,<2"):
        slot_of(tmp_path, speaks("2.0.0"))


async def test_what_the_host_does_not_declare_is_refused_when_called(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    with host(tmp_path / "host") as served:
        async with open_slot(served.client("beads"), "beads", folder=tmp_path) as beads:
            beads.adapter.capabilities -= {"keys"}
            assert (await beads.create_epic(title="works")).title == "works"
            with pytest.raises(AdapterDisabled, match="lacks the capability 'keys'"):
                await beads.create_epic(title="refused", key="k")
