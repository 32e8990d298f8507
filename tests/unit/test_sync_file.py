"""The lock beside a file that beads are exchanged with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentbox.adapters.beads._jsonl import SyncFile
from agentbox_contracts.errors import AdapterUnavailable


async def test_who_stopped_waiting_for_the_lock_does_not_get_it(tmp_path: Path) -> None:
    async with asyncio.timeout(10), SyncFile(tmp_path / "beads.jsonl").locked():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), SyncFile(tmp_path / "beads.jsonl").locked():
                pytest.fail("two hold one lock")
    async with asyncio.timeout(10), SyncFile(tmp_path / "beads.jsonl").locked():
        pass


async def test_many_who_wait_do_not_keep_the_holder_from_its_threads(tmp_path: Path) -> None:
    inside = 0

    async def exchange() -> None:
        nonlocal inside
        async with SyncFile(tmp_path / "beads.jsonl").locked():
            inside += 1
            assert inside == 1
            await asyncio.to_thread(lambda: None)
            inside -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(*(exchange() for _ in range(40)))


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdapterUnavailable, match=r"nowhere/beads\.jsonl cannot be used: No such file"):
        async with SyncFile(tmp_path / "nowhere" / "beads.jsonl").locked():
            pass
