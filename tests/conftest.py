"""What all tests share."""

from __future__ import annotations

import signal
from typing import Any

import hypothesis
import pytest


def pytest_configure() -> None:
    """Make a run the same on a loaded machine, and in the background."""
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("house")
    # There SIGINT is ignored from the start, and every program that a test interrupts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what shares something that is dear to make."""
    from tests._scheduling import Scheduling

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the large counts to `make soak`, service levels to `make slo`, what needs root to `make test-root`."""
    asked = config.getoption("-m") or ""
    lanes = [lane for lane in ("soak", "slo", "root") if lane not in asked]
    others = [item for item in items if any(item.get_closest_marker(lane) for lane in lanes)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
