"""Exporters and log format: the one place that knows the OpenTelemetry SDK."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import start_http_server

from agentbox import metrics
from agentbox.manifest import Observability
from agentbox_contracts.errors import BootError

__all__ = ["JsonLines", "exporting", "log_json"]

FIELDS = (
    "slot",
    "method",
    "impl",
    "duration_ms",
    "session_id",
    "execution_id",
    "outcome",
    "verb",
    "route",
    "status",
    "trace_id",
    "token",
    "reason",
    "problem",
    "type",
    "waiting",
    "seconds",
)


class JsonLines(logging.Formatter):
    """
    One JSON object a line: `ts level event` and whatever fields the record carries.

    An event is counted by its name: what follows the name for people is in the fields too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": str(record.msg).partition(": %")[0] if record.args else record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def log_json(level: str = "info", stream: IO[str] | None = None) -> None:
    """Write what agentbox logs to *stream* (standard error) as JSON lines. For the CLI and the host."""
    logger = logging.getLogger("agentbox")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


@contextmanager
def exporting(observability: Observability) -> Iterator[None]:
    """
    Export spans and metrics as `[observability]` says, until the end of the block.

    An embedding application that has set a tracer provider keeps its own: ours is only used where there is none.
    """
    provider = _trace_to(observability.otlp_endpoint) if observability.otlp_endpoint else None
    stop = _serve_metrics(observability.metrics_port) if observability.metrics_port else None
    try:
        yield
    finally:
        if stop is not None:
            stop()
        if provider is not None:
            provider.force_flush(timeout_millis=3000)


def _trace_to(endpoint: str) -> TracerProvider | None:
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise BootError(
            "[observability] otlp_endpoint needs the OTLP exporter, which is missing: pip install 'agentbox[otlp]'"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "agentbox"}))
    url = endpoint if endpoint.endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    trace.set_tracer_provider(provider)
    return provider


def _serve_metrics(port: int) -> Callable[[], None]:
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=metrics.REGISTRY)
    except OSError as error:
        raise BootError(
            f"[observability] metrics_port {port} cannot be opened: {error.strerror}; choose a free port"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=3)

    return stop
