"""
Known-bad adapters on a network in trouble, each before the clause that must catch it.

Not collected by itself: `test_network_prove.py` starts a host, says in the environment where, and runs this.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentbox._grading_cases import pairs
from agentbox_contracts.suites import suite_of
from agentbox_contracts.suites._network_troubles import TROUBLES
from agentbox_contracts.suites.bad import known_bads
from agentbox_contracts.suites.network import ManifestAt
from tests.servers.host import Host

FOLDER, PORT, SLOT = (f"PROVED_{name}" for name in ("FOLDER", "PORT", "SLOT"))
SILENCE, ENOUGH = "answer held back", "cut before the answer"
"""The trouble in which whoever does not stop is bad, and the one in which all others are."""
SHORT_SECONDS, LONG_SECONDS = 0.6, 10.0
"""The deadline that somebody must keep, and one that nobody misses, however busy the machine is."""


def case(slot: str, known_bad: str) -> type:
    found = Host(Path(os.environ[FOLDER]), "", port=int(os.environ[PORT]))

    def server(self: Any) -> tuple[str, int]:
        return "127.0.0.1", found.port

    def manifest_at(self: Any) -> ManifestAt:
        own = 'spool = "spool-{port}"\n' if slot == "events" else ""
        settings = f"[{slot}.external]\nretry_seconds = 0.1\n{own}"
        return lambda host, port: found.client(slot, port=port) + settings.replace("{port}", str(port))

    trouble = SILENCE if known_bads()[known_bad].clause == "network.call.deadline" else ENOUGH
    members = {
        "known_bad": known_bad,
        "deadline_seconds": SHORT_SECONDS if trouble == SILENCE else LONG_SECONDS,
        "troubles": tuple(each for each in TROUBLES if each.name == trouble),
        "server": pytest.fixture(server),
        "manifest_at": pytest.fixture(manifest_at),
        "__module__": __name__,
    }
    return type(f"Test{known_bad}", (suite_of(slot, network=True),), members)


if SLOT in os.environ:
    globals().update((f"Test{name}", case(os.environ[SLOT], name)) for name in pairs(os.environ[SLOT], network=True)[0])
