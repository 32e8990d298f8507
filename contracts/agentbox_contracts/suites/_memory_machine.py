"""Clause of memory: whatever is done in whatever order, the adapter and the model say the same."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentbox_contracts.errors import NotFound
from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._machines import Ask, Effort, answer_of, apart
from agentbox_contracts.suites._memory_common import angle, space
from agentbox_contracts.suites._memory_filters import FILTERS, METADATA
from agentbox_contracts.suites._memory_model import Model
from agentbox_contracts.suites.clauses import clause

__all__ = ["ModelClauses"]

KEYS = st.sampled_from(("a", "b", "a/1", "a%", "A", "\u00e9"))
PREFIXES = st.sampled_from(("", "", "a", "a%", "b"))
VALUES = st.sampled_from(("zebra", "zebra", 1, {"n": [1.5]}, None))
PARTS = st.integers(0, 8).map(lambda number: number / 8)
QUERIES = st.integers(0, 8).map(lambda number: (number + 0.3) / 8)
"""Never as far from one vector as from another: what is equal by the book is not equal in single precision."""
LIMITS = st.sampled_from((1, 2, 1000))

EFFORT = Effort(examples=40, steps=20, seconds=5.0)
CALLS, CALLS_A_STEP = 10, 2


class Machine(RuleBasedStateMachine):
    """The same calls to an adapter and to the model, in a namespace of their own."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self.own = space()
        self.call = ask
        self.model = Model()

    def ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """The adapter's answer, or the name of its error."""
        return answer_of(self.call, method, *args, namespace=self.own, **kwargs)

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
        step = await _step_seconds(adapter)
        failure = await apart(
            adapter, Machine, EFFORT, step_seconds=step, is_bad=self.known_bad is not None, first=_update
        )

        assert failure is None, failure


async def _step_seconds(adapter: Memory) -> float:
    own = space()
    began = time.perf_counter()
    for _ in range(CALLS):
        await adapter.store("key", 1, namespace=own, embedding=angle(0))
    return CALLS_A_STEP * (time.perf_counter() - began) / CALLS


def _update(machine: Machine) -> None:
    """What no run may miss: a record is stored again, and everything looked at that could be left of the old one."""
    machine.store(key="a", value="zebra", part=0.0, metadata={"a": 1, "b": 1})
    machine.store(key="a", value=1, part=0.5, metadata={"a": 2})
    machine.retrieve(key="a")
    for filter in ({"b": 1}, {"a": 1}, {"a": 2}, {}):
        machine.search(part=0.3 / 8, filter=filter, prefix="", limit=1000)
    machine.delete(key="a")
    machine.retrieve(key="a")
    machine.the_keys_are_the_same()
