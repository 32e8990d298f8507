"""The events contract through a host, a separate process in front of a log in files, with a spool on this side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbox_contracts.suites.events import EventsSuite
from tests.servers.host import Host, host


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), '[adapters]\nevents = "local-jsonl"\n') as found:
        yield found


class TestExternal(EventsSuite):
    @pytest.fixture
    def manifest(self, served: Host) -> str:
        return served.client("events")
