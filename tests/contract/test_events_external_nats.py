"""The events contract on NATS JetStream."""

from __future__ import annotations

import pytest

from agentbox_contracts.suites.events import EventsSuite
from tests.servers.nats import Server, nats_fixture  # noqa: F401 - used by its name, nats_server


class TestExternalNats(EventsSuite):
    @pytest.fixture
    def manifest(self, nats_server: Server) -> str:
        return nats_server.manifest(retry_seconds=5)
