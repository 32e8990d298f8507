"""
The pytest plugin: opens adapters for the suites, by the same door that applications use, and keeps the verdicts.

A test class inherits a suite of `agentbox_contracts.suites` and writes one fixture, `manifest`, that returns manifest
text. Adapters are opened from it through resolver and dispatch, in this process or in another.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.register_assert_rewrite("agentbox_contracts.suites")

# Whatever of the suites is imported before the line above fails without a word.
from agentbox import _testing_verdicts as verdicts  # noqa: E402
from agentbox._testing_verdicts import Verdicts  # noqa: E402
from agentbox_contracts.suites.bad import known_bads  # noqa: E402
from agentbox_contracts.suites.clauses import clause_of  # noqa: E402
from agentbox_contracts.suites.opening import Crash, OpenAdapter, OpenProcess, Process  # noqa: E402

if TYPE_CHECKING:
    from agentbox._testing_open import open_slot
    from agentbox.dispatch import Dispatched

__all__ = ["open_slot"]


def __getattr__(name: str) -> Any:
    """The opener, imported when it is asked for: every run of pytest loads this plugin, and few need it."""
    if name == "open_slot":
        from agentbox._testing_open import open_slot

        return open_slot
    raise AttributeError(name)


@pytest.fixture
def open_adapter(tmp_path: Path, request: pytest.FixtureRequest) -> OpenAdapter:
    """Open the slot of the suite this test belongs to, again and again if need be, on one state folder."""
    from agentbox._testing_open import open_slot

    @asynccontextmanager
    async def open_it(text: str) -> AsyncIterator[Any]:
        suite = request.cls
        async with open_slot(text, suite.slot, folder=tmp_path / "state", known_bad=suite.known_bad) as adapter:
            _of(request.config).saw(suite, adapter)
            _leave_out_undeclared(request, adapter)
            yield adapter

    return open_it


@pytest.fixture
def open_process(tmp_path: Path, request: pytest.FixtureRequest) -> OpenProcess:
    """As `open_adapter`, in a process of its own, which can be stopped, resumed and killed."""
    from agentbox._testing_process import opened

    def open_it(manifest: str, *, crash: Crash | None = None) -> AbstractAsyncContextManager[Process]:
        suite = request.cls
        return opened(manifest, suite.slot, folder=tmp_path / "state", known_bad=suite.known_bad, crash=crash)

    return open_it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Both options carry the product's name: they live among those of every other plugin."""
    group = parser.getgroup("agentbox")
    group.addoption(
        "--agentbox-forbid-skips",
        action="store_true",
        default=os.environ.get("AGENTBOX_FORBID_SKIPS") == "1",
        help="a test that cannot run fails; also by AGENTBOX_FORBID_SKIPS=1",
    )
    group.addoption(
        "--agentbox-verdicts", metavar="FILE", help="write the verdict on every clause to FILE, as JSON lines"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to collect verdicts."""
    config.stash[verdicts.KEY] = Verdicts(config.getoption("--agentbox-verdicts"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a known-bad adapter against the clause that must catch it, and no other."""
    idle = [item for item in items if _is_idle(item)]
    config.hook.pytest_deselected(items=idle)
    items[:] = [item for item in items if item not in idle]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what is exempt; fail what was exempt for too long."""
    clause = clause_of(getattr(item, "function", None))
    suite = getattr(item, "cls", None)
    for exemption in getattr(suite, "exemptions", ()) if clause is not None else ():
        if exemption.covers(clause):
            verdicts.leave_out(exemption)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Keep the verdict; turn a skip that nobody accounted for into a failure where skips are forbidden."""
    outcome: Any = yield
    report = outcome.get_result()
    if (
        not _of(item.config).heard(item, report, call)
        and report.skipped
        and item.config.getoption("--agentbox-forbid-skips")
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped where skips are forbidden: {report.longrepr}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was left out and why: nothing is skipped in silence."""
    for line in _of(config).left_out():
        terminalreporter.write_line(line)


def _of(config: pytest.Config) -> Verdicts:
    return config.stash[verdicts.KEY]


def _is_idle(item: pytest.Item) -> bool:
    name = getattr(getattr(item, "cls", None), "known_bad", None)
    if name is None:
        return False
    clause = clause_of(getattr(item, "function", None))
    return clause is None or clause.id != known_bads()[name].clause


def _leave_out_undeclared(request: pytest.FixtureRequest, adapter: Dispatched) -> None:
    clause = clause_of(request.function)
    if clause is not None and (missing := clause.needs - adapter.capabilities):
        pytest.skip(verdicts.UNDECLARED + ", ".join(sorted(missing)))
