"""Clauses of beads: what an adapter does not declare it refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.suites._beads_common import epic_of, own_task
from agentbox_contracts.suites.clauses import clause

__all__ = ["CapabilityClauses"]


class CapabilityClauses:
    """That what is declared works is shown by the clauses that need it."""

    @clause("beads.capability.leases")
    async def test_leases_are_declared_or_refused(self, adapter: Beads) -> None:
        """An adapter that does not declare leases refuses them, with AdapterDisabled and nothing written."""
        task = await own_task(adapter)
        if "leases" in adapter.capabilities:
            return
        for call in (
            partial(adapter.claim, task.id, actor="ada"),
            partial(adapter.claim_ready, actor="ada", parent_id=epic_of(task)),
            partial(adapter.renew, task.id),
        ):
            with pytest.raises(AdapterDisabled):
                await call(lease_seconds=60)
        assert await adapter.show(task.id) == task

    @clause("beads.capability.keys")
    async def test_keys_are_declared_or_refused(self, adapter: Beads) -> None:
        """An adapter that does not declare keys refuses them, with AdapterDisabled and nothing written."""
        task = await own_task(adapter)
        if "keys" in adapter.capabilities:
            return
        for call in (
            partial(adapter.create_epic, title="Ship it"),
            partial(adapter.create_child, parent_id=epic_of(task), title="part"),
            partial(adapter.claim_ready, actor="ada", parent_id=epic_of(task)),
        ):
            with pytest.raises(AdapterDisabled):
                await call(key="k")
        assert (await adapter.children(epic_of(task))).items == [task]

    @clause("beads.capability.sync")
    async def test_sync_is_declared_or_refused(self, adapter: Beads, tmp_path: Path) -> None:
        """An adapter that does not declare sync refuses it, with AdapterDisabled and nothing written."""
        file = tmp_path / "beads.jsonl"
        if "sync" in adapter.capabilities:
            return
        with pytest.raises(AdapterDisabled):
            await adapter.sync(str(file))
        assert not file.exists()
