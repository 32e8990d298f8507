"""
`make retrieval`: how well searches find, on sets that no one here wrote.

A set is the documentation of a package in the index, pinned by hash: of each docstring the first paragraph is the
query, and the rest, without it, the one document to be found. What is tuned is tuned on one half of the first set's
queries, and the other half is a test. The second set is held out as a whole: it was chosen and measured when all
tuning had ended. Exits with 1 when hybrid search by meaning does not beat both of its parts on both.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbox import manifest as manifests
from agentbox.adapters.memory import _models
from agentbox.adapters.memory._packages import unpacked
from agentbox.cli._opening import opened_slot
from agentbox_contracts.memory import Memory

__all__ = ["main"]

QUERY_WORDS, DOCUMENT_CHARACTERS = 5, 200
MOST = 1000
"""Of more pairs, so many are taken, by the hash of their names."""
CALLERS = 16
TOP = 10

Mode = Literal["text", "vector", "hybrid"]
ROWS: tuple[tuple[Mode, str], ...] = (
    ("text", "lexical"),
    ("vector", "lexical"),
    ("hybrid", "lexical"),
    ("vector", "minilm"),
    ("hybrid", "minilm"),
)


@attrs.frozen
class Package:
    """A package whose documentation is a set; all of it is a test when it is held out."""

    name: str
    version: str
    sha256: str
    is_held_out: bool

    def is_test(self, pair: Pair) -> bool:
        """Whether nothing was tuned on this one."""
        return self.is_held_out or pair.digest[0] % 2 == 1


PACKAGES = (
    Package("networkx", "3.4.2", "df5d4365b724cf81b8c6a7312509d0c22386097011ad1abe274afd5e9d3bbc5f", False),
    Package("sympy", "1.13.3", "54612cf55a62755ee71824ce692986f23c88ffa77207b30c1368eda4a7060f73", True),
)


@attrs.frozen
class Pair:
    """A query and the document that answers it."""

    key: str
    query: str
    document: str

    @property
    def digest(self) -> bytes:
        """As good as chance, and always the same."""
        return hashlib.sha256(self.key.encode()).digest()


def pairs(folder: Path) -> list[Pair]:
    """Pairs of the public functions and classes below *folder*; a query that occurs twice only once."""
    found: dict[str, Pair] = {}
    for path in sorted(folder.rglob("*.py")):
        if "tests" not in path.parts:
            for pair in _pairs_in(path.read_text("utf-8"), str(path.relative_to(folder).with_suffix(""))):
                found.setdefault(pair.query, pair)
    return sorted(found.values(), key=lambda pair: pair.digest)[:MOST]


def _pairs_in(source: str, module: str) -> Iterator[Pair]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
        query = " ".join(first.split())
        if len(query.split()) >= QUERY_WORDS and len(rest.strip()) >= DOCUMENT_CHARACTERS:
            yield Pair(f"{module}.{node.name}", query, rest.strip())


async def gains(memory: Memory, mode: Mode, chosen: list[Pair]) -> list[float]:
    """For each query what finding its document at that place is worth: its nDCG@10, as there is one document."""

    async def gain(pair: Pair) -> float:
        matches = await memory.search(pair.query, mode=mode, limit=TOP)
        keys = [(match.record.key, *match.duplicates) for match in matches]
        place = next((place for place, some in enumerate(keys, start=1) if pair.key in some), None)
        return 1 / math.log2(place + 1) if place else 0.0

    return await _shared(gain, chosen)


async def _shared(call: Any, items: list[Pair]) -> list[Any]:
    """*call* for each of *items*, CALLERS at a time, the results in order."""
    gate = asyncio.Semaphore(CALLERS)

    async def one(item: Pair) -> Any:
        async with gate:
            return await call(item)

    return list(await asyncio.gather(*map(one, items)))


async def measured(embedder: str, chosen: list[Pair], modes: list[Mode]) -> dict[Mode, list[float]]:
    """The gains of each mode in a store of its own."""
    with tempfile.TemporaryDirectory() as name:
        manifest = Path(name) / "agentbox.toml"
        manifest.write_text(
            f'[adapters]\nmemory = "embedded"\n[memory.embedded]\nembedder = "{embedder}"\ndeadline_seconds = 600\n'
        )
        async with opened_slot(manifests.load(manifest), "memory") as adapter:
            memory: Any = adapter
            started = time.perf_counter()
            await _shared(lambda pair: memory.store(pair.key, pair.document), chosen)
            print(f"{embedder}: stored {len(chosen) / (time.perf_counter() - started):,.0f} documents/s", flush=True)
            return {mode: await gains(memory, mode, chosen) for mode in modes}


def table(package: Package, chosen: list[Pair], found: dict[tuple[Mode, str], list[float]]) -> float:
    """Print a line for each row; by how much hybrid search with minilm leads the better of its parts."""
    tests = {row: [g for pair, g in zip(chosen, found[row], strict=True) if package.is_test(pair)] for row in ROWS}
    print(f"\n{'search':10} {'embedder':10} {'nDCG@10 test':>12} {'dev':>7}")
    for row in ROWS:
        test = _mean(tests[row])
        dev = _mean([g for pair, g in zip(chosen, found[row], strict=True) if not package.is_test(pair)])
        told = f"{test:12.4f} {'-' if package.is_held_out else f'{dev:.4f}':>7}"
        print(f"{row[0]:10} {'-' if row[0] == 'text' else row[1]:10} {told}  {'█' * round(test * 40)}")
    part = max(tests["text", "lexical"], tests["vector", "minilm"], key=_mean)
    leads = [one - other for one, other in zip(tests["hybrid", "minilm"], part, strict=True)]
    lead, error = _mean(leads), statistics.stdev(leads) / math.sqrt(len(leads))
    print(
        f"\nhybrid with minilm leads the better of its parts by {lead:+.4f} (standard error {error:.4f}), bar > 0:",
        end=" ",
    )
    print("ok\n" if lead > 0 else "short\n", flush=True)
    return lead


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def measure(package: Package) -> float:
    """Build the set, measure every row, print the table; the lead of hybrid search with minilm."""
    with tempfile.TemporaryDirectory() as name:
        chosen = pairs(unpacked(package.name, package.version, package.sha256, Path(name)))
    tests = sum(package.is_test(pair) for pair in chosen)
    told = "all held out" if package.is_held_out else f"{tests} test queries, {len(chosen) - tests} for development"
    print(f"{package.name} {package.version}: {len(chosen)} documents, {told}", flush=True)
    found: dict[tuple[Mode, str], list[float]] = {}
    for embedder in ("lexical", "minilm"):
        modes = [mode for mode, name in ROWS if name == embedder]
        results = asyncio.run(measured(embedder, chosen, modes))
        found |= {(mode, embedder): results[mode] for mode in modes}
    return table(package, chosen, found)


def main() -> int:
    """Measure every set; 1 when the bar is missed on one of them."""
    # Before numpy is imported: on a busy machine, BLAS threads that wait for each other burn six times the work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _models.install(_models.MINILM)
    leads = [measure(package) for package in PACKAGES]
    return 0 if min(leads) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
