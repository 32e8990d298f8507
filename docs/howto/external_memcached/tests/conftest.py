"""A server for the tests, in a process of its own as a real one would be."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def server_port() -> Iterator[int]:
    """Where the server listens."""
    command = [sys.executable, str(Path(__file__).with_name("server.py")), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.terminate()
