"""What a call leaves behind: one span, its metrics, one log line; never what it was called with."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import generate_latest

import agentbox
from agentbox import App, dispatch, telemetry
from agentbox.context import bound
from agentbox.dispatch import wrap_dispatch
from agentbox_contracts.errors import AdapterFailed, AdapterTimeout, AlreadyClaimed, InvalidInput, NotFound
from agentbox_contracts.orchestrator import AgentSpec

SECRET = "hunter2-is-not-for-logs"
DISPATCH_FIELDS = {
    "ts",
    "level",
    "event",
    "slot",
    "method",
    "impl",
    "duration_ms",
    "session_id",
    "execution_id",
    "outcome",
}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """A real SDK behind dispatch for one test. The process's own provider can be set only once, so it is left alone."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(dispatch, "tracer", provider.get_tracer("agentbox"))
    yield exporter
    provider.shutdown()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    logger = logging.getLogger("agentbox")
    before = logger.handlers[:], logger.level, logger.propagate
    stream = io.StringIO()
    telemetry.log_json("info", stream)
    yield stream
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    for name in ("AGENTBOX_MANIFEST", "AGENTBOX_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    async with agentbox.open_app(overrides={"adapters": {"events": "off"}}) as opened:
        yield opened


def logged(lines: io.StringIO) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in found if line["event"] == "adapter dispatch"]


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == f"agentbox.adapter.{name}"]


def value(app: App, name: str, **labels: str) -> float:
    return app.registry.get_sample_value(name, labels) or 0.0


async def test_a_call_is_one_json_line(app: App, lines: io.StringIO) -> None:
    with bound(session="s-1", execution="x-1"):
        await app.adapters.beads.create_epic(title="Ship it")
    (line,) = logged(lines)
    assert set(line) == DISPATCH_FIELDS
    assert datetime.fromisoformat(line["ts"]).utcoffset() is not None
    assert line["duration_ms"] > 0
    assert (line["level"], line["slot"], line["method"], line["impl"]) == (
        "info",
        "beads",
        "create_epic",
        "local-sqlite",
    )
    assert (line["session_id"], line["execution_id"], line["outcome"]) == ("s-1", "x-1", "ok")


async def test_an_id_that_is_not_bound_is_null(app: App, lines: io.StringIO) -> None:
    await app.adapters.beads.get_ready()
    (line,) = logged(lines)
    assert (line["session_id"], line["execution_id"]) == (None, None)


async def test_a_failure_is_one_line_of_level_error(app: App, lines: io.StringIO) -> None:
    with pytest.raises(NotFound):
        await app.adapters.beads.show("bd-none")
    (line,) = logged(lines)
    assert (line["level"], line["outcome"]) == ("error", "not_found")


async def test_a_level_that_is_off_writes_nothing(app: App, lines: io.StringIO) -> None:
    telemetry.log_json("error", lines)
    await app.adapters.beads.get_ready()
    assert not logged(lines)


async def test_a_call_is_one_span(app: App, spans: InMemorySpanExporter) -> None:
    with bound(session="s-1", execution="x-1"):
        await app.adapters.beads.create_epic(title="Ship it")
    (span,) = spans.get_finished_spans()
    assert span.name == "agentbox.adapter.beads.create_epic"
    assert dict(span.attributes or {}) == {
        "adapter.impl": "local-sqlite",
        "agentbox.session_id": "s-1",
        "agentbox.execution_id": "x-1",
    }
    assert span.status.status_code is StatusCode.UNSET


async def test_a_failed_span_names_the_kind_of_error(app: App, spans: InMemorySpanExporter) -> None:
    epic = await app.adapters.beads.create_epic(title="Ship it")
    await app.adapters.beads.claim(epic.id, actor="ada")
    with pytest.raises(AlreadyClaimed):
        await app.adapters.beads.claim(epic.id, actor="grace")
    span = named(spans, "beads.claim")[-1]
    assert (span.attributes or {})["error.kind"] == "already_claimed"
    assert span.status.status_code is StatusCode.ERROR
    assert not span.status.description


async def test_a_call_inside_another_is_its_child(spans: InMemorySpanExporter) -> None:
    async def inner() -> None:
        pass

    async def outer() -> None:
        await wrap_dispatch("beads", "inner", inner, impl="test")()

    await wrap_dispatch("beads", "outer", outer, impl="test")()
    inside, outside = spans.get_finished_spans()
    assert inside.parent is not None
    assert outside.context is not None
    assert inside.parent.span_id == outside.context.span_id


async def test_neither_arguments_nor_messages_are_told(
    app: App, spans: InMemorySpanExporter, lines: io.StringIO
) -> None:
    beads, orchestrator = app.adapters.beads, app.adapters.orchestrator
    epic = await beads.create_epic(title=SECRET, description=SECRET, metadata={SECRET: SECRET}, tags=(SECRET,))
    await beads.claim(epic.id, actor=SECRET)
    with pytest.raises(AlreadyClaimed):
        await beads.claim(epic.id, actor="grace")
    with pytest.raises(NotFound):
        await beads.show(SECRET)
    with pytest.raises(InvalidInput):
        await beads.create_epic(title=SECRET * 1000)
    agent = await orchestrator.spawn(
        AgentSpec(command=sys.executable, args=("-c", f"print('{SECRET}')"), env={"TOKEN": SECRET})
    )
    printed = [event.text.strip() async for event in orchestrator.stream(agent.id)]
    assert SECRET in printed

    async def broken(token: str) -> None:
        raise ValueError(f"cannot use {token}")

    with pytest.raises(AdapterFailed):
        await wrap_dispatch("beads", "broken", broken, impl="test")(SECRET)

    told = "\n".join(span.to_json() for span in spans.get_finished_spans()) + lines.getvalue()
    assert told.count("adapter dispatch") == len(spans.get_finished_spans()) == 8
    assert SECRET not in told
    assert SECRET not in generate_latest(app.registry).decode()


async def test_calls_are_counted_by_outcome_and_timed(app: App) -> None:
    labels = {"slot": "beads", "method": "show", "impl": "local-sqlite"}
    epic = await app.adapters.beads.create_epic(title="Ship it")
    ok = value(app, "agentbox_adapter_dispatch_total", **labels, outcome="ok")
    lost = value(app, "agentbox_adapter_dispatch_total", **labels, outcome="not_found")
    timed = value(app, "agentbox_adapter_duration_seconds_count", **labels)
    await app.adapters.beads.show(epic.id)
    with pytest.raises(NotFound):
        await app.adapters.beads.show("bd-none")
    assert value(app, "agentbox_adapter_dispatch_total", **labels, outcome="ok") == ok + 1
    assert value(app, "agentbox_adapter_dispatch_total", **labels, outcome="not_found") == lost + 1
    assert value(app, "agentbox_adapter_duration_seconds_count", **labels) == timed + 2


async def test_health_is_a_gauge(app: App) -> None:
    await app.health()
    assert value(app, "agentbox_adapter_health", slot="beads", impl="local-sqlite") == 1.0
    assert value(app, "agentbox_adapter_health", slot="pods", impl="off") == 0.0


async def test_a_stream_is_one_span_one_line_and_a_count_of_items(
    app: App, spans: InMemorySpanExporter, lines: io.StringIO
) -> None:
    labels = {"slot": "orchestrator", "method": "stream", "impl": "local-process-manager"}
    agent = await app.adapters.orchestrator.spawn(AgentSpec(command=sys.executable, args=("-c", "print(1)\nprint(2)")))
    before = value(app, "agentbox_adapter_stream_items_total", **labels)
    current = []
    count = 0
    async for _ in app.adapters.orchestrator.stream(agent.id):
        current.append(trace.get_current_span().get_span_context().is_valid)
        count += 1
    assert count >= 4
    assert not any(current)
    assert len(named(spans, "orchestrator.stream")) == 1
    assert [line["outcome"] for line in logged(lines) if line["method"] == "stream"] == ["ok"]
    assert value(app, "agentbox_adapter_stream_items_total", **labels) == before + count


async def test_items_of_an_open_stream_are_counted_when_somebody_looks(app: App) -> None:
    labels = {"slot": "orchestrator", "method": "stream", "impl": "local-process-manager"}
    agent = await app.adapters.orchestrator.spawn(AgentSpec(command=sys.executable, args=("-c", "print(1)\nprint(2)")))
    before = value(app, "agentbox_adapter_stream_items_total", **labels) or 0
    stream: Any = app.adapters.orchestrator.stream(agent.id)
    async with aclosing(stream):
        await anext(stream)
        await anext(stream)
        assert value(app, "agentbox_adapter_stream_items_total", **labels) == before + 2
        await anext(stream)
        assert value(app, "agentbox_adapter_stream_items_total", **labels) == before + 3
    assert value(app, "agentbox_adapter_stream_items_total", **labels) == before + 3


async def test_a_stream_that_fails_names_the_kind_of_error(app: App, spans: InMemorySpanExporter) -> None:
    with pytest.raises(NotFound):
        _ = [event async for event in app.adapters.orchestrator.stream("ag-none")]
    (span,) = named(spans, "orchestrator.stream")
    assert (span.attributes or {})["error.kind"] == "not_found"


async def test_a_late_answer_and_a_cancelled_call_have_outcomes_of_their_own(
    spans: InMemorySpanExporter, lines: io.StringIO
) -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    with pytest.raises(AdapterTimeout):
        await wrap_dispatch("beads", "late", hang, impl="test", deadline_seconds=0.01)()
    started.clear()
    task = asyncio.create_task(wrap_dispatch("beads", "left", hang, impl="test")())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kinds = [(span.attributes or {})["error.kind"] for span in spans.get_finished_spans()]
    assert kinds == ["adapter_timeout", "cancelled"]
    assert [line["outcome"] for line in logged(lines)] == kinds


async def test_opening_the_app_leaves_the_hosts_providers_alone(app: App) -> None:
    before = trace.get_tracer_provider()
    await app.adapters.beads.get_ready()
    assert trace.get_tracer_provider() is before
    assert isinstance(before, trace.ProxyTracerProvider)
