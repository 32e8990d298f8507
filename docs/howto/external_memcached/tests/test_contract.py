"""The beads contract on external-memcached."""

from uuid import uuid4

import pytest

from agentbox_contracts.suites.beads import BeadsSuite


class TestExternalMemcached(BeadsSuite):
    @pytest.fixture
    def manifest(self, server_port: int) -> str:
        return f"""
            [adapters]
            beads = "external-memcached"
            [beads.external-memcached]
            address = "127.0.0.1:{server_port}"
            namespace = "test-{uuid4()}"
            """
