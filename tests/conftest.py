"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the large counts to `make soak`."""
    if "soak" in (config.getoption("-m") or ""):
        return
    soaking = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=soaking)
    items[:] = [item for item in items if item not in soaking]
