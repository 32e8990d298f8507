"""
A dispatched call against a function written by hand that observes the same: span, counter, histogram, log line,
deadline and error mapping.

A tracer provider can be set once in a process, so each kind of tracer has a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import attrs
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Counter, Histogram

from agentbox import metrics
from agentbox.adapters.beads.off import Adapter as OffBeads
from agentbox.dispatch import dispatched
from agentbox_contracts.beads import CONTRACT, Bead
from agentbox_contracts.contract import Settings
from agentbox_contracts.errors import AdapterFailed, AdapterTimeout, AgentboxError
from tests.bench._measure import Bench, Measured, paired, seconds_of

ROUNDS = 101
CALLS = 400
DEADLINE = 30.0

log = logging.getLogger("bench.by_hand")
tracer = trace.get_tracer("bench")

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEAD = Bead(id="bd-1", uid="1", kind="epic", title="one", created_at=_NOW, updated_at=_NOW)


class StubBeads(OffBeads):  # type: ignore[valid-type, misc]
    """Beads that answer at once."""

    enabled = True

    async def show(self, bead_id: str) -> Bead:
        return BEAD


class _Discard(SpanExporter):
    """Takes spans and drops them, so that neither side pays for what an exporter does with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def by_hand(adapter: StubBeads) -> Callable[[str], Awaitable[Any]]:
    """What one would write around `adapter.show` without dispatch."""
    registry = CollectorRegistry()
    calls = Counter("calls", "Calls.", ["slot", "method", "impl", "outcome"], registry=registry)
    duration = Histogram(
        "seconds",
        "Durations.",
        ["slot", "method", "impl"],
        registry=registry,
        buckets=metrics.SECONDS._kwargs["buckets"],
    )
    ok, failed = (calls.labels("beads", "show", "stub", outcome) for outcome in ("ok", "failed"))
    seconds = duration.labels("beads", "show", "stub")

    async def show(bead_id: str) -> Any:
        started = perf_counter()
        with tracer.start_as_current_span("agentbox.adapter.beads.show", attributes={"adapter.impl": "stub"}) as span:
            counter = failed
            try:
                async with asyncio.timeout(DEADLINE):
                    result = await adapter.show(bead_id)
                counter = ok
                return result
            except TimeoutError as error:
                raise AdapterTimeout(f"beads.show did not answer within {DEADLINE:g} s") from error
            except AgentboxError:
                raise
            except Exception as error:
                raise AdapterFailed(f"beads.show failed: {error}") from error
            finally:
                elapsed = perf_counter() - started
                counter.inc()
                seconds.observe(elapsed)
                if counter is failed:
                    span.set_status(trace.StatusCode.ERROR)
                if log.isEnabledFor(logging.INFO):
                    log.info(
                        "adapter dispatch",
                        extra={"slot": "beads", "method": "show", "impl": "stub", "duration_ms": elapsed * 1000},
                    )

    return show


async def _measure() -> Measured:
    adapter = StubBeads(slot="beads", impl="stub", config=Settings(), logger=log)
    hand: Any = by_hand(adapter)
    ours: Any = dispatched(CONTRACT, adapter, deadline_seconds=DEADLINE)
    assert await hand("bd-1") is await ours.show("bd-1") is BEAD

    async def reference() -> float:
        return await seconds_of(lambda _: hand("bd-1"), CALLS)

    async def subject() -> float:
        show = ours.show
        return await seconds_of(lambda _: show("bd-1"), CALLS)

    return await paired(reference, subject, rounds=ROUNDS)


def main(kind: str) -> None:
    """Measure with the tracer *kind* and print the figures, for the process that asked."""
    if kind == "sdk":
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(_Discard()))
        trace.set_tracer_provider(provider)
    print(json.dumps(attrs.asdict(asyncio.run(_measure()))))


def _elsewhere(kind: str) -> Measured:
    command = (sys.executable, "-m", "tests.bench.dispatched", kind)
    return Measured(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


BENCHES = (
    Bench(
        name="dispatch-noop",
        what="dispatched call : by hand, no tracer",
        bound="at_most",
        bar=1.15,
        measure=lambda: _elsewhere("noop"),
    ),
    Bench(
        name="dispatch-sdk",
        what="dispatched call : by hand, SDK tracer",
        bound="at_most",
        bar=1.15,
        measure=lambda: _elsewhere("sdk"),
    ),
)

if __name__ == "__main__":
    main(sys.argv[1])
