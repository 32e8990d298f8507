"""
The pytest plugin: opens adapters for the suites, by the same door that applications use.

A test class inherits a suite of `agentbox_contracts.suites` and writes one fixture, `manifest`, that returns manifest
text. Adapters are opened from it through resolver and dispatch.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentbox.dispatch import Dispatched

__all__ = ["open_slot"]

OpenAdapter = Callable[[str], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def open_slot(text: str, slot: str, *, folder: Path) -> AsyncIterator[Dispatched]:
    """Open one slot of a manifest given as text, its state in *folder*. A slot that does not connect is an error."""
    from agentbox import manifest, resolver
    from agentbox_contracts.errors import AdapterUnavailable

    chosen = manifest.parse(text, folder=folder, environ={**os.environ, "AGENTBOX_STATE": str(folder)})
    opened = resolver.build(chosen, slot)
    await resolver.connect(opened)
    try:
        if opened.failure:
            raise AdapterUnavailable(opened.failure, slot=slot)
        yield opened.adapter
    finally:
        await opened.adapter.disconnect()


@pytest.fixture
def open_adapter(tmp_path: Path, request: pytest.FixtureRequest) -> OpenAdapter:
    """Open the slot of the suite this test belongs to, again and again if need be, on one state folder."""
    slot = request.cls.slot

    def open_it(text: str) -> AbstractAsyncContextManager[Any]:
        return open_slot(text, slot, folder=tmp_path / "state")

    return open_it


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--forbid-skips`, also by AGENTBOX_FORBID_SKIPS=1: a test that cannot run fails."""
    parser.addoption("--forbid-skips", action="store_true", default=os.environ.get("AGENTBOX_FORBID_SKIPS") == "1")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skip into a failure where skips are forbidden."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.skipped and item.config.getoption("--forbid-skips") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where skips are forbidden: {report.longrepr}"
