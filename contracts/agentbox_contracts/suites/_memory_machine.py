"""Clause of memory: whatever is done in whatever order, the adapter and the model say the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from agentbox_contracts.errors import AgentboxError, NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_common import angle, space
from agentbox_contracts.suites._memory_filters import FILTERS, METADATA
from agentbox_contracts.suites._memory_model import Model
from agentbox_contracts.suites.clauses import clause

__all__ = ["ModelClauses"]

Ask = Callable[..., Any]

KEYS = st.sampled_from(("a", "b", "a/1", "a%", "A", "\u00e9"))
PREFIXES = st.sampled_from(("", "", "a", "a%", "b"))
VALUES = st.sampled_from(("zebra", "zebra", 1, {"n": [1.5]}, None))
PARTS = st.integers(0, 8).map(lambda number: number / 8)
QUERIES = st.integers(0, 8).map(lambda number: (number + 0.3) / 8)
"""Never as far from one vector as from another: what is equal by the book is not equal in single precision."""
LIMITS = st.sampled_from((1, 2, 1000))

EXAMPLES, STEPS, CALLS = 40, 20, 10
BUDGET_SECONDS = 5.0


class Machine(RuleBasedStateMachine):
    """The same calls to an adapter and to the model, in a namespace of their own."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self.own = space()
        self.call = ask
        self.model = Model()

    def ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """The adapter's answer, or the name of its error."""
        try:
            return self.call(method, *args, namespace=self.own, **kwargs)
        except AgentboxError as error:
            return type(error).__name__

    @rule(key=KEYS, value=VALUES, part=PARTS, metadata=METADATA)
    def store(self, key: str, value: Any, part: float, metadata: dict[str, Any]) -> None:
        self.model.store(key, value, embedding=angle(part), metadata=metadata)
        record = self.ask("store", key, value, embedding=angle(part), metadata=metadata)
        assert (record.key, record.value, record.metadata) == (key, value, metadata)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        expected = None
        try:
            self.model.delete(key)
        except NotFound:
            expected = "NotFound"
        found = self.ask("delete", key)
        assert found == expected, f"delete {key!r} gave {found}, not {expected}"

    @rule(part=QUERIES, filter=FILTERS, prefix=PREFIXES, limit=LIMITS)
    def search(self, part: float, filter: dict[str, Any], prefix: str, limit: int) -> None:
        expected = self.model.search(angle(part), filter=filter, prefix=prefix)[:limit]
        matches = self.ask("search", embedding=angle(part), filter=filter, prefix=prefix, limit=limit)
        found = [[match.record.key, *match.duplicates] for match in matches]
        assert found == expected, f"search {part} {filter} {prefix!r} gave {found}, not {expected}"

    @rule(key=KEYS)
    def retrieve(self, key: str) -> None:
        kept = self.model.records.get(key)
        found = self.ask("retrieve", key)
        shown = "NotFound" if kept is None else (kept.value, kept.metadata)
        told = found if isinstance(found, str) else (found.value, found.metadata)
        assert told == shown, f"retrieve {key!r} gave {told}, not {shown}"

    @invariant()
    def the_keys_are_the_same(self) -> None:
        found = self.ask("list_keys").items
        assert found == self.model.list_keys(), f"list_keys gave {found}, not {self.model.list_keys()}"


class ModelClauses:
    """The model in `_memory_model` is the port's promises once more, to be read."""

    known_bad: ClassVar[str | None]

    @clause("memory.model.same")
    async def test_the_adapter_does_what_the_model_does(self, adapter: Memory) -> None:
        """Whatever is done in whatever order, the adapter gives the same records, matches and errors as the model."""
        loop = asyncio.get_running_loop()

        def ask(method: str, *args: Any, **kwargs: Any) -> Any:
            call = getattr(adapter, method)(*args, **kwargs)
            return asyncio.run_coroutine_threadsafe(call, loop).result(60)

        # What a known-bad adapter does wrong is known: finding the shortest example would only take time.
        phases = (Phase.generate,) if self.known_bad else (Phase.generate, Phase.shrink)
        chosen = settings(
            max_examples=await _affordable(adapter),
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        failure = await asyncio.to_thread(_failure, lambda: Machine(ask), chosen)

        assert failure is None, failure


async def _affordable(adapter: Memory) -> int:
    """How many examples fit into a few seconds; an adapter far away gets fewer."""
    own = space()
    began = time.perf_counter()
    for _ in range(CALLS):
        await adapter.store("key", 1, namespace=own, embedding=angle(0))
    seconds = (time.perf_counter() - began) / CALLS
    return max(5, min(EXAMPLES, round(BUDGET_SECONDS / (seconds * STEPS * 2))))


def _failure(machine: Any, chosen: settings) -> str | None:
    """How adapter and model came apart, None when they never did."""
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except AssertionError as error:
        return "\n".join((str(error), *getattr(error, "__notes__", ())))
    return None
