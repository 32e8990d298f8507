"""
A process that stores, updates and deletes until it is killed: `python memory_worker.py MANIFEST SEED`.

It prints a line before and one after each write: `? KEY VALUE` and `! KEY VALUE`, where `-` as VALUE is a deletion.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from agentbox.app import open_app

KEYS = 400
DIMENSIONS = 16


def vector(value: str) -> tuple[float, ...]:
    """The vector of a value: always the same."""
    source = random.Random(value)
    return tuple(source.gauss(0, 1) for _ in range(DIMENSIONS))


def odd(value: str) -> bool:
    """The metadata of a value: always the same."""
    return value[-1] in "13579"


async def main(manifest: str, seed: str) -> None:
    """Write with several callers, each with keys of its own, so that the last line of a key tells its state."""
    async with open_app(Path(manifest)) as app:
        memory = app.adapters.memory

        async def caller(number: int) -> None:
            chance = random.Random(f"{seed}-{number}")
            held: set[str] = set()
            for step in range(1_000_000):
                key = f"k{number}-{chance.randrange(KEYS // 8)}"
                delete = key in held and chance.random() < 0.3
                value = "-" if delete else f"{seed}-{number}-{step}"
                print("?", key, value, flush=True)
                if delete:
                    await memory.delete(key)
                    held.discard(key)
                else:
                    await memory.store(key, value, embedding=vector(value), text=value, metadata={"odd": odd(value)})
                    held.add(key)
                print("!", key, value, flush=True)
                if step % 20 == 0:
                    await memory.search(embedding=vector(key))

        await asyncio.gather(*(caller(number) for number in range(8)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
