"""Writers are killed at any moment; what they acknowledged is there, once. Run as a program, this file is a writer."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.events import Event, Events

WRITERS = 4
MANIFEST = '[adapters]\nevents = "local-jsonl"\n[events.local-jsonl]\nsegment_bytes = 65536\n'


async def write_for_ever(events: Events, name: str) -> None:
    number = 0
    while True:
        number += 1
        if number % 3:
            said = [Event(type="test.said", source=name, id=str(number), data="x" * random.randrange(400))]
            await events.dispatch(said[0])
        else:
            said = [Event(type="test.said", source=name, id=f"{number}.{part}") for part in range(20)]
            await events.dispatch_many(said)
        # In one write, which the kernel keeps whole, and which nothing buffers.
        os.write(1, "".join(f"{event.source} {event.id}\n" for event in said).encode())


async def run(folder: Path) -> None:
    async with open_slot(MANIFEST, "events", folder=folder) as events, asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(write_for_ever(events, f"{os.urandom(6).hex()}-{number}"))


def kill_often(folder: Path, rounds: int) -> list[str]:
    """Keep four writers going, kill one after the other, *rounds* times; what all of them acknowledged."""
    chance = random.Random(rounds)
    acknowledged = folder / "acknowledged"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with acknowledged.open("ab") as told:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, __file__, str(folder)], stdout=told, env=environ)

        writers = [start() for _ in range(WRITERS)]
        for number in range(rounds):
            size = acknowledged.stat().st_size
            give_up = time.monotonic() + 60
            while acknowledged.stat().st_size == size:
                assert time.monotonic() < give_up, "nobody writes"
                time.sleep(0.01)
            time.sleep(chance.random() * 0.05)  # the moment of the kill
            victim = number % WRITERS
            writers[victim].kill()
            writers[victim].wait()
            writers[victim] = start()
        for writer in writers:
            writer.kill()
            writer.wait()
    return acknowledged.read_text().splitlines()


async def check(folder: Path, rounds: int) -> str:
    told = await asyncio.to_thread(kill_often, folder, rounds)
    async with open_slot(MANIFEST, "events", folder=folder) as events:
        verdict = await events.verify()
        assert verdict.ok, verdict
        kept: list[str] = []
        after = 0
        while page := await events.read(after=after, limit=10_000):
            assert [event.seq for event in page] == list(range(after + 1, after + 1 + len(page)))
            kept += (f"{event.source} {event.id}" for event in page)
            after += len(page)
    names = set(kept)
    assert len(kept) == len(names) == verdict.verified
    assert names.issuperset(told)
    torn = sum(path.stat().st_size for path in (folder / "events").glob("*.torn"))
    batches = {name.rsplit(".", 1)[0] for name in kept if "." in name}
    assert all(f"{batch}.{part}" in names for batch in batches for part in (0, 19)), "half a batch was kept"
    return f"{rounds} kills, {len(told):,} acknowledged, {len(kept):,} kept, {torn:,} bytes set aside"


async def test_what_a_killed_writer_acknowledged_is_there_once(tmp_path: Path) -> None:
    await check(tmp_path, 6)


@pytest.mark.soak
async def test_500_kills_lose_nothing(tmp_path: Path) -> None:
    print(await check(tmp_path, 500))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
