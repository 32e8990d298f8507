"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the large counts to `make soak`, service levels to `make slo`, what needs root to `make test-root`."""
    asked = config.getoption("-m") or ""
    lanes = [lane for lane in ("soak", "slo", "root") if lane not in asked]
    others = [item for item in items if any(item.get_closest_marker(lane) for lane in lanes)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
