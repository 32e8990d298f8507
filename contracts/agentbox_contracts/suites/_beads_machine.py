"""Clause of beads: whatever is done in whatever order, the adapter and the model say the same."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.suites._beads_model import BRIEF, Model, timeless
from agentbox_contracts.suites._machines import Ask, Effort, answer_of, apart
from agentbox_contracts.suites.clauses import clause

__all__ = ["ModelClauses"]

NUMBERS = st.integers(0, 15)
ACTORS = st.sampled_from(("ada", "grace"))
LEASES = st.sampled_from((None, None, 3600.0, BRIEF))
OUTCOMES = st.sampled_from(("done", "done", "failed"))
FENCES = st.sampled_from((None, 0, 0, 0, -1, 1))
"""No fence, the current one, or one that is off by so many."""
KEYS = st.sampled_from((None, None, "one", "other"))

MOST = 12
EFFORT = Effort(examples=80, steps=25, seconds=8.0)
CALLS, CALLS_A_STEP = 20, 4


class Machine(RuleBasedStateMachine):
    """The same calls to an adapter and to the model, under an epic of their own."""

    def __init__(self, ask: Ask, capabilities: frozenset[str]) -> None:
        super().__init__()
        self.ask = ask
        self.capabilities = capabilities
        self.epic: Bead = ask("create_epic", title="Ship it")
        self.model = Model(self.epic)
        self.apart = False

    def same(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Call both, and compare the beads or the errors' classes."""
        expected = _answer(getattr(self.model, method), *args, **kwargs)
        found = _answer(self.ask, method, *args, **kwargs)
        self.apart = found != expected
        assert not self.apart, f"{method} {args} {kwargs} gave {found}, not {expected}"
        if kwargs.get("lease_seconds") == BRIEF:
            time.sleep(5 * BRIEF)

    def bead(self, number: int) -> Bead:
        """One of the beads there are."""
        beads = list(self.model.beads.values())
        return self.model.show(beads[number % len(beads)].id)

    def fence(self, bead: Bead, off: int | None) -> int | None:
        return None if off is None else max(0, bead.fence + off)

    def lease(self, seconds: float | None) -> float | None:
        return seconds if "leases" in self.capabilities else None

    def key(self, name: str | None) -> str | None:
        return f"{self.epic.uid} {name}" if name and "keys" in self.capabilities else None

    @initialize(priorities=st.lists(st.integers(0, 2), min_size=2, max_size=4))
    def begin(self, priorities: list[int]) -> None:
        """Three levels, of which the middle one has several beads."""
        for priority in priorities:
            self.same("create_child", parent_id=self.epic.id, title="part", priority=priority)
        self.same("create_child", parent_id=f"{self.epic.id}.1", title="piece")

    @precondition(lambda self: len(self.model.beads) < MOST)
    @rule(number=NUMBERS, priority=st.integers(0, 2), key=KEYS)
    def create_child(self, number: int, priority: int, key: str | None) -> None:
        self.same("create_child", parent_id=self.bead(number).id, title="part", priority=priority, key=self.key(key))

    @rule(number=NUMBERS, other=NUMBERS)
    def add_dependency(self, number: int, other: int) -> None:
        self.same("add_dependency", self.bead(number).id, blocker_id=self.bead(other).id)

    @rule(number=NUMBERS, actor=ACTORS, lease=LEASES)
    def claim(self, number: int, actor: str, lease: float | None) -> None:
        self.same("claim", self.bead(number).id, actor=actor, lease_seconds=self.lease(lease))

    @rule(number=NUMBERS, actor=ACTORS, lease=LEASES, key=KEYS)
    def claim_ready(self, number: int, actor: str, lease: float | None, key: str | None) -> None:
        parent = self.bead(number).id
        self.same("claim_ready", actor=actor, parent_id=parent, lease_seconds=self.lease(lease), key=self.key(key))

    @precondition(lambda self: "leases" in self.capabilities)
    @rule(number=NUMBERS, off=FENCES, lease=st.sampled_from((7200.0, BRIEF)))
    def renew(self, number: int, off: int | None, lease: float) -> None:
        bead = self.bead(number)
        self.same("renew", bead.id, lease_seconds=lease, fence=self.fence(bead, off))

    @rule(number=NUMBERS, off=FENCES, actor=st.none() | ACTORS)
    def release(self, number: int, off: int | None, actor: str | None) -> None:
        bead = self.bead(number)
        self.same("release", bead.id, actor=actor, fence=self.fence(bead, off))

    @rule(number=NUMBERS, off=FENCES, actor=st.none() | ACTORS, outcome=OUTCOMES)
    def close(self, number: int, off: int | None, actor: str | None, outcome: str) -> None:
        bead = self.bead(number)
        self.same("close", bead.id, outcome=outcome, reason="so be it", actor=actor, fence=self.fence(bead, off))

    @rule(number=NUMBERS)
    def get_ready(self, number: int) -> None:
        self.same("get_ready", parent_id=self.bead(number).id)

    @invariant()
    def the_epic_is_the_same(self) -> None:
        self.same("show", self.epic.id)
        self.same("get_ready", parent_id=self.epic.id)

    def teardown(self) -> None:
        """At the end every single bead is the same, unless they came apart before."""
        for bead_id in self.model.beads if not self.apart else ():
            self.same("show", bead_id)


def _answer(call: Ask, *args: Any, **kwargs: Any) -> Any:
    answer = answer_of(call, *args, **kwargs)
    if isinstance(answer, Bead):
        return timeless(answer)
    return [timeless(bead) for bead in answer] if isinstance(answer, list) else answer


class ModelClauses:
    """The model in `_beads_model` is the port's promises once more, to be read."""

    known_bad: ClassVar[str | None]

    @clause("beads.model.same")
    async def test_the_adapter_does_what_the_model_does(self, adapter: Beads) -> None:
        """Whatever is done in whatever order, the adapter gives the same beads and the same errors as the model."""
        failure = await apart(
            adapter,
            lambda ask: Machine(ask, adapter.capabilities),
            EFFORT,
            step_seconds=await _step_seconds(adapter),
            is_bad=self.known_bad is not None,
        )

        assert failure is None, failure


async def _step_seconds(adapter: Beads) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        await adapter.get_ready(limit=1)
    return CALLS_A_STEP * (time.perf_counter() - began) / CALLS
