"""Clauses of memory: several callers and several processes, and what is left when one of them dies."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from functools import partial
from pathlib import Path
from typing import Any

from agentbox_contracts.errors import AgentboxError, NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._beads_common import seeded
from agentbox_contracts.suites._memory_common import SOON, all_keys, angle, is_there, keys_of, space, until
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Point

__all__ = ["CrashClauses", "SharingClauses"]

CALLERS = 64
POINTS: tuple[Point, ...] = ("received", "begun", "done")
DELAYS = (0.0, 0.0003, 0.001, 0.003, 0.01)
ROUNDS = 3
WORDS = ("zebra", "otter")


async def stored(side: Any, key: str, own: str, number: int) -> Any:
    """One of two states of a record, each told by its value, its vector and its text."""
    word = WORDS[number]
    return await side.store(
        key, {"is": word}, namespace=own, embedding=angle(number), text=word, metadata={"n": number}
    )


async def state(adapter: Any, key: str, own: str) -> str:
    """Which of the two states *key* is in, by every look; "none" when it is not there, "mixed" when looks differ."""
    try:
        value = (await adapter.retrieve(key, namespace=own)).value["is"]
    except NotFound:
        value = "none"
    by_text = [word for word in WORDS if keys_of(await adapter.search(word, namespace=own, mode="text", prefix=key))]
    near = [
        match.record.value["is"]
        for number in (0, 1)
        for match in await adapter.search(embedding=angle(number), namespace=own, prefix=key, min_score=0.9)
    ]
    expected = [] if value == "none" else [value]
    return value if by_text == near == expected else "mixed"


class SharingClauses:
    """One store, many at work."""

    @clause("memory.sharing.together")
    async def test_many_stores_at_once_are_all_there(self, adapter: Memory) -> None:
        """Any number of simultaneous stores are all there, each found by its own vector and text."""
        own = space()
        numbers = range(CALLERS)
        await asyncio.gather(
            *(
                adapter.store(f"{n:02}", n, namespace=own, embedding=angle(n / CALLERS), text=f"common word{n}")
                for n in numbers
            )
        )
        found = await adapter.search(embedding=angle(0), namespace=own, limit=1000)

        assert keys_of(found) == [f"{n:02}" for n in numbers]
        assert len(await adapter.search("common", namespace=own, mode="text", limit=1000)) == CALLERS
        for n in (0, 31, 63):
            assert keys_of(await adapter.search(f"word{n}", namespace=own, mode="text")) == [f"{n:02}"]

    @clause("memory.sharing.one-wins")
    async def test_of_simultaneous_stores_of_a_key_one_stays_whole(
        self, open_adapter: OpenAdapter, manifest: str
    ) -> None:
        """Of simultaneous stores under one key one stays, wholly: value, vector and text are of the same store."""
        own = space()
        async with open_adapter(manifest) as one, open_adapter(manifest) as other:
            for number in range(ROUNDS):
                await asyncio.gather(*(stored((one, other)[n % 2], f"key{number}", own, n // 2 % 2) for n in range(16)))

                assert await state(one, f"key{number}", own) in WORDS
                assert await state(other, f"key{number}", own) == await state(one, f"key{number}", own)

    @clause("memory.sharing.deleted-once")
    async def test_of_simultaneous_deletes_one_wins(self, adapter: Memory) -> None:
        """Of simultaneous deletes of one record one succeeds, and the others are NotFound."""
        own = space()
        await adapter.store("key", 1, namespace=own)
        ended = await asyncio.gather(*(adapter.delete("key", namespace=own) for _ in range(8)), return_exceptions=True)

        assert sorted(type(each).__name__ for each in ended) == ["NoneType", *["NotFound"] * 7]

    @clause("memory.sharing.processes")
    async def test_others_writes_are_seen_soon(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """One's own writes are seen at once, and another process's within a second: stores, updates and deletes."""
        own = space()
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            for side, other in ((here, there), (there, here)):
                key = f"key-{side is here}"
                for act, expected in ((partial(stored, number=0), "zebra"), (partial(stored, number=1), "otter")):
                    await act(side, key, own)
                    assert await state(side, key, own) == expected
                    assert await until(lambda k=key, e=expected, o=other: _is(o, k, own, e), SOON)
                await side.delete(key, namespace=own)
                assert await state(side, key, own) == "none"
                assert await until(lambda k=key, o=other: _is(o, k, own, "none"), SOON)

    @clause("memory.sharing.processes-together")
    async def test_several_processes_write_to_one_store(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """What several processes write at the same time is all there, for each of them within a second."""
        own = space()
        async with open_adapter(manifest) as here, open_process(manifest) as there:
            sides = (here, there) * 16
            await asyncio.gather(
                *(
                    side.store(f"{n:02}", n, namespace=own, embedding=angle(n / 32), text="common")
                    for n, side in enumerate(sides)
                )
            )
            keys = [f"{n:02}" for n in range(32)]
            for side in (here, there):

                async def all_there(side: Any = side) -> bool:
                    found = await side.search(embedding=angle(0), namespace=own, limit=100)
                    return keys_of(found) == keys

                assert await until(all_there, SOON)
                assert (await side.list_keys(namespace=own)).items == keys

    @clause("memory.sharing.leaves-nothing")
    async def test_work_leaves_nothing_behind(self, adapter: Memory) -> None:
        """Work takes no descriptors, threads or tasks that it does not give back."""
        own = space()

        async def work(count: int) -> None:
            for number in range(count):
                await adapter.store(f"{number}", f"zebra {number}", namespace=own)
                await adapter.search("zebra", namespace=own)
                await adapter.delete(f"{number}", namespace=own)

        await work(10)
        before = _held()
        await work(40)

        assert await until(partial(_at_most, before))


async def _is(side: Any, key: str, own: str, expected: str) -> bool:
    return await state(side, key, own) == expected


def _held() -> tuple[int, int, int]:
    gc.collect()
    own = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
    return sum(1 for _ in Path("/proc/self/fd").iterdir()), len(own), len(asyncio.all_tasks())


async def _at_most(before: tuple[int, int, int]) -> bool:
    return all(now <= then for now, then in zip(_held(), before, strict=True))


class CrashClauses:
    """Acknowledged stays, and nothing is half."""

    @clause("memory.crash.acknowledged")
    async def test_what_was_acknowledged_survives_a_kill(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """After `kill -9` each acknowledged store, update and delete is there, and every record is whole."""
        chance, own = seeded(), space()
        async with open_adapter(manifest) as here:
            for number in range(ROUNDS):
                keys = [f"{number}-{n:02}" for n in range(12)]
                for key in keys[:8]:
                    await stored(here, key, own, 0)
                async with open_process(manifest) as there:
                    calls = {key: asyncio.ensure_future(_act(there, key, own, n)) for n, key in enumerate(keys)}
                    fewest = chance.randrange(len(keys))
                    while sum(call.done() for call in calls.values()) <= fewest:
                        await asyncio.wait(calls.values(), return_when=asyncio.FIRST_COMPLETED)
                        await asyncio.sleep(0)
                    await asyncio.sleep(0.01 * chance.random() ** 2)
                    await there.kill()
                    await asyncio.gather(*calls.values(), return_exceptions=True)
                for n, key in enumerate(keys):
                    before, after = _looks(n)
                    allowed = (before, after) if calls[key].exception() else (after,)

                    assert await until(partial(_is_one_of, here, key, own, allowed), SOON), (key, allowed)

    @clause("memory.crash.points")
    async def test_a_crash_at_a_named_point_leaves_all_or_nothing(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """A process that dies before, in or after a store leaves the old record or the new one, wholly."""
        own = space()
        async with open_adapter(manifest) as here:
            for point in POINTS:
                await stored(here, point, own, 0)
                async with open_process(manifest, crash=Crash(point, "store")) as there:
                    with contextlib.suppress(ConnectionError):
                        await stored(there, point, own, 1)
                allowed = {"received": WORDS[:1], "begun": WORDS, "done": WORDS[1:]}[point]

                assert await until(partial(_is_one_of, here, point, own, allowed), SOON), point

    @clause("memory.crash.reopened")
    async def test_a_store_whose_writer_was_killed_opens(
        self, open_adapter: OpenAdapter, open_process: OpenProcess, manifest: str
    ) -> None:
        """A store whose only writer was killed opens and holds what was acknowledged, found by vector and text."""
        own = space()
        async with open_process(manifest) as there:
            for number in range(10):
                await there.store(f"{number}", number, namespace=own, embedding=angle(number / 10), text="common")
            await there.delete("3", namespace=own)
            await there.kill()
        async with open_adapter(manifest) as here:
            keys = [f"{number}" for number in range(10) if number != 3]

            assert keys_of(await here.search(embedding=angle(0), namespace=own)) == keys
            assert sorted(keys_of(await here.search("common", namespace=own, mode="text"))) == keys
            assert await all_keys(here, own) == keys

    @clause("memory.cancel.all-or-nothing")
    async def test_a_cancelled_call_leaves_all_or_nothing(self, adapter: Memory) -> None:
        """A cancelled store or delete has happened wholly or not at all, whenever it was cancelled."""
        own = space()
        for delay in DELAYS:
            for n in (0, 1, 8):
                key = f"{delay}-{n}"
                if n < 8:
                    await stored(adapter, key, own, 0)
                task = asyncio.ensure_future(_act(adapter, key, own, n))
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                allowed = _looks(n) if task.cancelled() else _looks(n)[1:]

                assert await until(partial(_is_one_of, adapter, key, own, allowed), SOON), (delay, n)
        assert not await is_there(adapter, "never", own)


async def _act(side: Any, key: str, own: str, n: int) -> Any:
    """An update, a delete, or for the last ones a new record."""
    if n < 8 and n % 2:
        return await side.delete(key, namespace=own)
    return await stored(side, key, own, 1)


def _looks(n: int) -> tuple[str, str]:
    """How the record looks before and after `_act`."""
    return ("zebra" if n < 8 else "none"), ("none" if n < 8 and n % 2 else "otter")


async def _is_one_of(side: Any, key: str, own: str, allowed: Any) -> bool:
    try:
        return await state(side, key, own) in allowed
    except AgentboxError:
        return False
