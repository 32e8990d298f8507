"""SQLite and Postgres agree: one script over both, with the same ids in the same order and almost the same scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_model import passes
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

TEXTS = {
    "zebra": "Zebras graze on the tall grass of the plain, and the grass grows back.",
    "otter": "An otter swims in the cold lake; otters hold hands while they sleep.",
    "grass": "Tall grass, short grass, and no grass at all.",
    "lake": {"title": "The lake", "body": ["cold water", {"note": "no zebra has been seen here"}]},
    "caf\u00e9": "Caf\u00e9s in Stra\u00dfburg serve cr\u00eapes \u2014 \u6771\u4eac has others.",
    "long": "Nothing here. " * 400 + "A platypus lives by the river. " + "Nothing there. " * 400,
    "twin-1": "the same words twice",
    "twin-2": "the same words twice",
    "number": 42,
    "a%b": "percent and zebra",
}
QUERIES = (
    "zebra",
    "zebra grass",
    "the otter in the lake",
    "cafes",
    "strassburg",
    "\u4eac",
    "platypus river",
    "same words",
    "zebra' OR 1=1 -- \"grass",
    "nothing at all like this was ever written",
    "the and of",
    "!!!",
    "zebra:* & !(otter | grass) <-> 'lake' NEAR(a b) -cold ^2",
    "\ud55c\ub098 \u0301 \ufb01 a_b \t don't",
)
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"n": {"ge": 3}},
    {"or": [{"n": 1}, {"not": {"kind": "text"}}]},
    {"kind": {"in": ["text", None]}, "n": {"lt": 8.5}},
    {"missing": {"ne": 1}},
)


async def script(memory: Memory) -> list[Any]:
    """Everything that can be compared, in order."""
    said: list[Any] = []
    for number, (key, value) in enumerate(TEXTS.items()):
        kind = "text" if isinstance(value, str) else None
        record = await memory.store(key, value, metadata={"n": number, "kind": kind}, source="script")
        said.append((record.key, record.value, record.metadata, record.duplicate_of))
        # Every text has this word, so that it says next to nothing; what little it says still ranks them.
        await memory.store(key, f"everywhere {'filling ' * (number * 7 % 10)}", namespace="common")
    for number in range(40):
        vector = (math.cos(number), math.sin(number), number / 40, 1.0)
        await memory.store(f"{number:02}", number, namespace="vectors", embedding=vector, metadata={"n": number % 9})
    await memory.store("zebra", "Zebras again, with other words", metadata={"n": 0.0})
    await memory.delete("grass")
    for query in QUERIES:
        for filter in FILTERS:
            for mode in ("text", "vector", "hybrid"):
                said.append(await found(memory, query, filter=filter, mode=mode, explain=True))
        said.append(await found(memory, query, min_score=0.5, limit=3))
    said.append(await found(memory, "everywhere", namespace="common", mode="text"))
    for filter in FILTERS[:3]:
        said.append(await found(memory, None, embedding=(1.0, 0.5, 0.2, 0.0), namespace="vectors", filter=filter))
    for filter in ({"n": {"in": [*range(-40_000, 3), "x", None, True]}}, {"or": [{"n": n} for n in range(-3000, 3)]}):
        said.append([match.record.key for match in await memory.search("zebra", filter=filter)])
    for bad in ({"embedding": (1.0, 2.0)}, {"namespace": "vectors"}, {"filter": {"n": {"like": 1}}}):
        said.append(await failure(memory.search("zebra", **bad)))
    said.append(await failure(memory.retrieve("grass")))
    said.append((await memory.list_keys(limit=4), await memory.list_keys(prefix="a%"), await memory.list_namespaces()))
    return said


async def found(memory: Memory, query: str | None, **asked: Any) -> list[Any]:
    matches = await memory.search(query, **asked)
    return [
        (match.record.key, round(match.score, 4), match.duplicates, told(match.explanation), query, asked)
        for match in matches
    ]


def told(explanation: Any) -> Any:
    if explanation is None:
        return None
    # Which of several pieces without a word of the query is nearest is no matter of agreement.
    passage = explanation.passage if explanation.text_rank else None
    return explanation.vector_rank, explanation.text_rank, explanation.embedder, explanation.semantic, passage


async def failure(call: Any) -> tuple[str, str]:
    with pytest.raises(AgentboxError) as caught:
        await call
    return caught.value.code, caught.value.message


async def test_sqlite_and_postgres_say_the_same(tmp_path: Path, postgres: Server) -> None:
    said = []
    for manifest in ('[adapters]\nmemory = "embedded"\n', postgres.manifest("memory")):
        async with open_slot(manifest, "memory", folder=tmp_path) as memory:
            said.append(await script(memory))

    one, other = said
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert mine == theirs


LARGE = (-(10**400), -(2**63) - 1, -float(2**63), -(2**63), 2**64, 2**64 + 1, float(2**65), 10**23, 1e23, 10**400)


async def test_integers_of_any_size_are_compared_as_what_they_are(tmp_path: Path, postgres: Server) -> None:
    filters = [{"n": wanted} for n in LARGE for wanted in (n, {"lt": n}, {"le": n}, {"gt": n}, {"in": [n, 1]})]
    for manifest in ('[adapters]\nmemory = "embedded"\n', postgres.manifest("memory")):
        async with open_slot(manifest, "memory", folder=tmp_path) as memory:
            for number, n in enumerate(LARGE):
                await memory.store(f"{number}", "large", metadata={"n": n})
            for filter in filters:
                expected = [f"{number}" for number, n in enumerate(LARGE) if passes(filter, {"n": n})]
                matches = await memory.search("large", filter=filter)

                assert [key for match in matches for key in (match.record.key, *match.duplicates)] == expected, filter
            await memory.delete("9")
            assert not await memory.search("large", filter={"n": 10**400})
