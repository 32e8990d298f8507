"""Concurrent callers share model calls, and nobody pays for another's text."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

import pytest

from agentbox.adapters.memory._batching import Batched
from agentbox.adapters.memory._embedder import Kind, Vector
from agentbox_contracts.errors import AdapterUnavailable, EmbeddingError


class Counting:
    """Says how it was called; `gate` holds calls back."""

    name = "counting"
    dimensions = 2
    semantic = False
    fingerprint = "counting:2"

    def __init__(self) -> None:
        self.calls: list[tuple[Kind, list[str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        self.calls.append((kind, list(texts)))
        await self.gate.wait()
        if "bad" in texts:
            raise ValueError("bad text")
        if "infinite" in texts:
            return [array("f", [float("inf"), 1]) for _ in texts]
        if "short" in texts:
            return [array("f", [1]) for _ in texts]
        return [array("f", [len(text), 1]) for text in texts]


async def test_callers_of_one_moment_share_one_call() -> None:
    counting = Counting()
    batched = Batched(counting)
    found = await asyncio.gather(*(batched.embed(["x" * number], kind="query") for number in range(20)))
    assert [vectors[0][0] for vectors in found] == list(range(20))
    assert len(counting.calls) == 1


async def test_who_calls_the_moment_the_model_is_free_is_served() -> None:
    batched = Batched(Counting())
    for text in "abcdefgh":
        async with asyncio.timeout(5):
            await batched.embed([text], kind="query")


async def test_who_comes_while_the_model_is_busy_shares_the_next_call_queries_first() -> None:
    counting = Counting()
    batched = Batched(counting, texts=4)
    counting.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(batched.embed(["first"], kind="query"))
        while not counting.calls:
            await asyncio.sleep(0)
        tasks.create_task(batched.embed(list("abcdef"), kind="document"))
        tasks.create_task(batched.embed(["q"], kind="query"))
        await asyncio.sleep(0)
        counting.gate.set()
    assert counting.calls == [
        ("query", ["first"]),
        ("query", ["q"]),
        ("document", list("abcd")),
        ("document", list("ef")),
    ]


async def test_a_call_is_bounded_by_characters_and_embeds_a_text_once() -> None:
    counting = Counting()
    await Batched(counting, characters=10).embed(["aaaaaa", "bbbbbb", "c", "c", "dddddddddddddddd"], kind="document")
    assert [texts for _, texts in counting.calls] == [["aaaaaa"], ["bbbbbb", "c"], ["dddddddddddddddd"]]


async def test_a_text_that_fails_fails_its_own_caller() -> None:
    batched = Batched(Counting())
    calls = (batched.embed([text], kind="document") for text in ("a", "bad", "b", "c"))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, ValueError) for each in found] == [False, True, False, False]


@pytest.mark.parametrize(("text", "told"), [("infinite", "not finite"), ("short", "1 dimensions, not 2")])
async def test_a_vector_that_is_none_is_refused(text: str, told: str) -> None:
    with pytest.raises(EmbeddingError, match=told):
        await Batched(Counting()).embed([text], kind="document")


async def test_what_nobody_waits_for_is_not_embedded() -> None:
    counting = Counting()
    batched = Batched(counting)
    counting.gate.clear()
    first = asyncio.create_task(batched.embed(["first"], kind="query"))
    while not counting.calls:
        await asyncio.sleep(0)
    gone = asyncio.create_task(batched.embed(["gone"], kind="query"))
    await asyncio.sleep(0)
    gone.cancel()
    counting.gate.set()
    await first
    await batched.embed(["last"], kind="query")
    assert [texts for _, texts in counting.calls] == [["first"], ["last"]]


async def test_closing_fails_those_who_wait() -> None:
    counting = Counting()
    batched = Batched(counting)
    counting.gate.clear()
    kinds: tuple[Kind, ...] = ("query", "document")
    waiting = [asyncio.create_task(batched.embed(["a"], kind=kind)) for kind in kinds]
    while not counting.calls:
        await asyncio.sleep(0)
    await batched.close()
    assert all(isinstance(e, AdapterUnavailable) for e in await asyncio.gather(*waiting, return_exceptions=True))
