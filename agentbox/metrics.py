"""The metrics of dispatch, in a registry of our own that a host application may expose."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["BUCKETS", "CALLS", "HEALTH", "ITEMS", "REGISTRY", "SECONDS", "Outcomes"]

REGISTRY = CollectorRegistry()

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""The upper bounds of the duration histogram, in seconds."""

CALLS = Counter(
    "agentbox_adapter_dispatch",
    "Calls to adapters by outcome: ok, cancelled, or the error's code.",
    ["slot", "method", "impl", "outcome"],
    registry=REGISTRY,
)
SECONDS = Histogram(
    "agentbox_adapter_duration_seconds",
    "How long calls to adapters took.",
    ["slot", "method", "impl"],
    registry=REGISTRY,
    buckets=BUCKETS,
)
ITEMS = Counter(
    "agentbox_adapter_stream_items",
    "Items that streams of adapters have given.",
    ["slot", "method", "impl"],
    registry=REGISTRY,
)
HEALTH = Gauge(
    "agentbox_adapter_health",
    "What a slot said of itself last: 1 healthy, 0.5 degraded, 0 off.",
    ["slot", "impl"],
    registry=REGISTRY,
)


class Outcomes(dict[str, Counter]):
    """The counters of one method by outcome, each looked up once: finding a label costs four times the increment."""

    def __init__(self, slot: str, method: str, impl: str) -> None:
        super().__init__()
        self._labels = (slot, method, impl)

    def __missing__(self, outcome: str) -> Counter:
        self[outcome] = child = CALLS.labels(*self._labels, outcome)
        return child
