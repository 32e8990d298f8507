"""Comparing an adapter with a model: a machine of Hypothesis asks both the same, in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from agentbox_contracts.contract import BaseAdapter
from agentbox_contracts.errors import AgentboxError

__all__ = ["Ask", "Effort", "answer_of", "apart"]

MachineT = TypeVar("MachineT", bound=RuleBasedStateMachine)

Ask: TypeAlias = Callable[..., Any]
"""Calls a method of the adapter by its name, or a coroutine function with the adapter, and waits for the answer."""

LEAST = 5
PATIENCE_SECONDS = 60.0


@attrs.frozen
class Effort:
    """At most so many examples of so many steps each, and fewer where they would take longer than `seconds`."""

    examples: int
    steps: int
    seconds: float

    def affordable(self, step_seconds: float) -> int:
        """How many examples an adapter gets whose steps take that long."""
        return max(LEAST, min(self.examples, round(self.seconds / (step_seconds * self.steps))))


async def apart(
    adapter: Any,
    machine: Callable[[Ask], MachineT],
    effort: Effort,
    *,
    step_seconds: float,
    is_bad: bool,
    first: Callable[[MachineT], None] | None = None,
) -> str | None:
    """
    How adapter and model came apart, None when they never did. *first* is what no run may miss, done on its own.

    A known-bad adapter gets all examples, however slow it is, and what it does wrong is known: it is not made shorter.
    """
    chosen = settings(
        max_examples=effort.examples if is_bad else effort.affordable(step_seconds),
        stateful_step_count=effort.steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,) if is_bad else (Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    ask = _asking(adapter, asyncio.get_running_loop())
    made: Any = partial(machine, ask)  # which the library takes for the class
    failure = None if first is None else await asyncio.to_thread(_failure, lambda: first(made()))
    return failure or await asyncio.to_thread(_failure, lambda: run_state_machine_as_test(made, settings=chosen))


def answer_of(call: Ask, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the name of the class of its error."""
    try:
        return call(*args, **kwargs)
    except AgentboxError as error:
        return type(error).__name__


def _asking(adapter: BaseAdapter, loop: asyncio.AbstractEventLoop) -> Ask:
    def ask(method: Any, *args: Any, **kwargs: Any) -> Any:
        call = getattr(adapter, method) if isinstance(method, str) else lambda *a, **k: method(adapter, *a, **k)
        return asyncio.run_coroutine_threadsafe(call(*args, **kwargs), loop).result(PATIENCE_SECONDS)

    return ask


def _failure(run: Callable[[], None]) -> str | None:
    try:
        run()
    except AssertionError as error:
        return "\n".join((str(error), *getattr(error, "__notes__", ())))
    return None
