"""The metrics of dispatch, in a registry of our own that a host application may expose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

__all__ = [
    "ANNOUNCEMENTS",
    "BUCKETS",
    "CALLS",
    "HEALTH",
    "ITEMS",
    "REGISTRY",
    "SECONDS",
    "Outcomes",
    "Tally",
    "tallied",
]

REGISTRY = CollectorRegistry()

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""The upper bounds of the duration histogram, in seconds."""


class Tally:
    """The items of one open stream, counted at the price of an addition: a counter's own is twenty times that."""

    __slots__ = ("_counter", "_told", "count")

    def __init__(self, counter: Counter) -> None:
        self.count = 0
        self._counter = counter
        self._told = 0

    def tell(self) -> None:
        """Let the counter have what was added since the last time. Only the stream writes `count`."""
        count = self.count
        self._counter.inc(count - self._told)
        self._told = count


class _TalliedCounter(Counter):
    """A counter that asks the open streams before it tells what it knows."""

    def collect(self) -> list[Metric]:
        with _telling:
            for tally in _open:
                tally.tell()
        return list(super().collect())


_open: set[Tally] = set()
_telling = threading.Lock()


@contextmanager
def tallied(counter: Counter) -> Iterator[Tally]:
    """A tally for one stream; when it ends, *counter* has it all."""
    tally = Tally(counter)
    with _telling:
        _open.add(tally)
    try:
        yield tally
    finally:
        with _telling:
            _open.discard(tally)
            tally.tell()


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
ITEMS = _TalliedCounter(
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
ANNOUNCEMENTS = Counter(
    "agentbox_announcements",
    "What agentbox itself had to say: told, failed and to be tried again, or refused by the log for good.",
    ["outcome"],
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
