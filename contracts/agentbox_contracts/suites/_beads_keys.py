"""Clauses of beads: the same key is one write with one result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import Conflict
from agentbox_contracts.suites._beads_common import epic_of, own_task
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Point

__all__ = ["KeyClauses"]

KEYED = ("create_epic", "create_child", "claim_ready")
POINTS: tuple[Point, ...] = ("received", "begun", "done")


def new_key() -> str:
    """A key that nobody has used in this store."""
    return uuid4().hex


class KeyClauses:
    """create_epic, create_child and claim_ready with a key."""

    @clause("beads.key.create-epic", needs=("keys",))
    async def test_the_same_key_is_one_epic(self, adapter: Beads) -> None:
        """Creating an epic again with the same key gives the same epic."""
        key = new_key()
        epics = [await adapter.create_epic(title="Ship it", key=key) for _ in range(3)]

        assert epics == [epics[0]] * 3

    @clause("beads.key.create-child", needs=("keys",))
    async def test_the_same_key_is_one_child(self, adapter: Beads) -> None:
        """Creating a child again with the same key gives the same child, and the parent has one."""
        epic, key = await adapter.create_epic(title="Ship it"), new_key()
        children = [await adapter.create_child(parent_id=epic.id, title="part", key=key) for _ in range(3)]

        assert children == [children[0]] * 3
        assert (await adapter.children(epic.id)).items == [children[0]]

    @clause("beads.key.claim-ready", needs=("keys",))
    async def test_the_same_key_is_one_claim(self, adapter: Beads) -> None:
        """`claim_ready` again with the same key gives the same bead, and takes no other."""
        task, key = await own_task(adapter), new_key()
        other = await adapter.create_child(parent_id=epic_of(task), title="another part")
        taken = [await adapter.claim_ready(actor="ada", parent_id=epic_of(task), key=key) for _ in range(3)]

        assert taken == [await adapter.show(task.id)] * 3
        assert await adapter.show(other.id) == other

    @clause("beads.key.first-result", needs=("keys",))
    async def test_a_key_gives_the_result_it_gave(self, adapter: Beads) -> None:
        """A key gives the result that it gave the first time, whatever has become of the bead since."""
        key = new_key()
        epic = await adapter.create_epic(title="Ship it", key=key)
        await adapter.close(epic.id)

        assert await adapter.create_epic(title="Ship it", key=key) == epic

    @clause("beads.key.other-arguments", needs=("keys",))
    async def test_a_key_with_other_arguments_is_refused(self, adapter: Beads) -> None:
        """The same key with other arguments is a Conflict, and nothing is written."""
        epic, key = await adapter.create_epic(title="Ship it"), new_key()
        child = await adapter.create_child(parent_id=epic.id, title="part", key=key)

        with pytest.raises(Conflict):
            await adapter.create_child(parent_id=epic.id, title="part", priority=2, key=key)
        assert (await adapter.children(epic.id)).items == [child]

    @clause("beads.key.other-call", needs=("keys",))
    async def test_a_key_for_another_call_is_refused(self, adapter: Beads) -> None:
        """The same key for another method is a Conflict, and nothing is written."""
        task, key = await own_task(adapter), new_key()
        await adapter.create_epic(title="Ship it", key=key)

        with pytest.raises(Conflict):
            await adapter.claim_ready(actor="ada", parent_id=epic_of(task), key=key)
        assert await adapter.show(task.id) == task

    @clause("beads.key.none-forgotten", needs=("keys",))
    async def test_a_key_does_not_remember_that_nothing_was_ready(self, adapter: Beads) -> None:
        """A key remembers a bead that was given, not that there was none."""
        epic, key = await adapter.create_epic(title="Ship it"), new_key()
        nothing = await adapter.claim_ready(actor="ada", parent_id=epic.id, key=key)
        task = await adapter.create_child(parent_id=epic.id, title="part")
        taken = await adapter.claim_ready(actor="ada", parent_id=epic.id, key=key)

        assert (nothing, taken and taken.id) == (None, task.id)

    @clause("beads.key.refusal-forgotten", needs=("keys",))
    async def test_a_key_does_not_remember_a_refusal(self, adapter: Beads) -> None:
        """A call that was refused used up no key."""
        task, key = await own_task(adapter), new_key()
        closed = await adapter.close(task.id)
        with suppress(Conflict):
            await adapter.create_child(parent_id=closed.id, title="part", key=key)
        try:
            await adapter.create_child(parent_id=epic_of(task), title="part", key=key)
        except Conflict as error:
            pytest.fail(f"the key was used up: {error.message}")

    @clause("beads.key.reopened", needs=("keys",))
    async def test_a_key_is_remembered_by_the_store(self, open_adapter: OpenAdapter, manifest: str) -> None:
        """A key is remembered by the store: opened anew, it still knows it."""
        key = new_key()
        async with open_adapter(manifest) as adapter:
            epic = await adapter.create_epic(title="Ship it", key=key)
        async with open_adapter(manifest) as adapter:
            again = await adapter.create_epic(title="Ship it", key=key)

        assert again == epic

    @clause("beads.key.together", needs=("keys",))
    async def test_the_same_key_from_two_processes_is_one_write(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """The same key used at the same time, also by another process, is one write with one result."""
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            epic = await here.create_epic(title="Ship it")
            for number in range(10):
                arguments = {"parent_id": epic.id, "title": f"part {number}", "key": new_key()}
                children = await asyncio.gather(
                    *(side.create_child(**arguments) for side in (here, there, here, there))
                )

                assert children == [children[0]] * 4
            assert len((await here.children(epic.id)).items) == 10

    @clause("beads.key.crash", needs=("keys",))
    async def test_a_key_makes_one_write_of_a_crash_and_a_retry(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """Retried with the same key by another process, a call whose process was killed is one write."""
        async with open_adapter(manifest) as here:
            for point in POINTS:
                for method in KEYED:
                    await self._retried(here, open_process, manifest, Crash(point, method))

    async def _retried(self, here: Beads, open_process: OpenProcess, manifest: str, crash: Crash) -> None:
        task, key = await own_task(here), new_key()
        await here.create_child(parent_id=epic_of(task), title="another part")
        calls: dict[str, dict[str, Any]] = {
            "create_epic": {"title": key, "priority": 0, "key": key},
            "create_child": {"parent_id": epic_of(task), "title": "new", "key": key},
            "claim_ready": {"parent_id": epic_of(task), "actor": "ada", "key": key},
        }
        arguments = calls[crash.method]
        async with open_process(manifest, crash=crash) as there:
            with pytest.raises(ConnectionError):
                await getattr(there, crash.method)(**arguments)
            await there.ended()
        results = [await getattr(here, crash.method)(**arguments) for _ in range(2)]

        assert results == [await here.show(results[0].id)] * 2, crash
        assert await self._effects(here, crash.method, task, key) == 1, crash

    async def _effects(self, here: Beads, method: str, task: Bead, key: str) -> int:
        """How many writes of *method* there are."""
        if method == "create_epic":
            return [bead.title for bead in await here.get_ready(limit=1000)].count(key)
        children = (await here.children(epic_of(task))).items
        if method == "create_child":
            return len(children) - 2
        return sum(child.status == "claimed" for child in children)
