"""What every call goes through."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentbox import metrics
from agentbox.adapters.beads.off import Adapter as OffBeads
from agentbox.dispatch import dispatched, wrap_dispatch
from agentbox_contracts.beads import CONTRACT
from agentbox_contracts.contract import Settings
from agentbox_contracts.errors import AdapterDisabled, AdapterFailed, AdapterTimeout, InvalidInput, NotFound


def count(method: str, outcome: str) -> float:
    labels = {"slot": "test", "method": method, "impl": "", "outcome": outcome}
    return metrics.REGISTRY.get_sample_value("agentbox_adapter_dispatch_total", labels) or 0.0


def off_beads(impl: str = "off") -> Any:
    return OffBeads(slot="beads", impl=impl, config=Settings(), logger=logging.getLogger("test"))


async def test_a_foreign_error_becomes_adapter_failed_with_its_cause() -> None:
    async def broken() -> None:
        raise KeyError("x")

    with pytest.raises(AdapterFailed, match=r"test\.broken failed: KeyError") as caught:
        await wrap_dispatch("test", "broken", broken)()

    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.slot, caught.value.method) == ("test", "broken")
    assert count("broken", "adapter_failed") == 1


async def test_a_contract_error_passes_with_the_call_named() -> None:
    async def missing() -> None:
        raise NotFound("no such thing")

    with pytest.raises(NotFound) as caught:
        await wrap_dispatch("test", "missing", missing, impl="mine")()

    assert (caught.value.slot, caught.value.method, caught.value.impl) == ("test", "missing", "mine")


async def test_a_late_answer_is_an_adapter_timeout() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AdapterTimeout, match=r"test.slow did not answer within 0.01 s"):
        await wrap_dispatch("test", "slow", slow, deadline_seconds=0.01)()
    assert count("slow", "adapter_timeout") == 1


async def test_an_adapters_own_timeout_error_is_not_the_deadline() -> None:
    async def inner() -> None:
        raise TimeoutError

    with pytest.raises(AdapterFailed):
        await wrap_dispatch("test", "inner", inner)()


async def test_cancellation_passes_through_and_is_counted() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wrap_dispatch("test", "forever", forever)())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert count("forever", "cancelled") == 1


async def test_a_stream_is_one_outcome_and_closes_its_source() -> None:
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.append(True)

    stream = wrap_dispatch("test", "numbers", numbers)()
    assert await anext(stream) == 0
    await stream.aclose()

    assert closed == [True]
    assert count("numbers", "ok") == 1


async def test_a_stream_that_breaks_is_adapter_failed() -> None:
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise RuntimeError("snap")

    with pytest.raises(AdapterFailed, match="snap"):
        async for _ in wrap_dispatch("test", "broken_stream", broken)():
            pass


async def test_a_swapped_adapter_answers_through_the_same_object() -> None:
    beads: Any = dispatched(CONTRACT, off_beads())
    claim = beads.claim
    beads.swap(off_beads("other"))

    with pytest.raises(AdapterDisabled) as caught:
        await claim("bd-1", actor="ada")
    assert (beads.impl, caught.value.impl) == ("other", "other")


async def test_arguments_are_checked_before_the_adapter_sees_them() -> None:
    beads: Any = dispatched(CONTRACT, off_beads())

    with pytest.raises(InvalidInput):
        await beads.claim("bd-1", actor="")


async def test_a_redactor_may_rewrite_arguments() -> None:
    seen: list[dict[str, Any]] = []
    beads = dispatched(CONTRACT, off_beads())

    def redactor(slot: str, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        seen.append(arguments)
        return arguments

    beads.redact_with(redactor)
    with pytest.raises(AdapterDisabled):
        await beads.show("bd-1")  # type: ignore[attr-defined]
    assert seen == [{"bead_id": "bd-1"}]


def test_use_after_a_fork_is_refused() -> None:
    async def fine() -> None:
        return None

    call = wrap_dispatch("test", "fine", fine)
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(call())
        except AdapterFailed as error:
            os._exit(0 if "after a fork" in error.message else 2)
        os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
