"""Every clause about the network catches each known-bad adapter that names it, on a real host, by assertions alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox._grading_cases import pairs
from agentbox_contracts.suites import NETWORK
from tests.servers.host import Host, host

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), '[adapters]\nevents = "local-jsonl"\nmemory = "embedded"\n') as found:
        yield found


async def verdicts(served: Host, slot: str, folder: Path, **env: str) -> dict[str, str]:
    """The verdict on each known-bad adapter of *slot*."""
    file = folder / "verdicts.jsonl"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "run")]
    where = {"PROVED_FOLDER": str(served.folder), "PROVED_PORT": str(served.port), "PROVED_SLOT": slot}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(*command, "--agentbox-verdicts", str(file), str(HERE / "_network_cases.py")),
        cwd=HERE.parents[1],
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | where | env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert file.exists(), said.decode()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["known_bad"]: line["kind"] for line in lines if "known_bad" in line}


@pytest.mark.parametrize("slot", NETWORK)
async def test_every_known_bad_adapter_is_caught(served: Host, slot: str, tmp_path: Path) -> None:
    assert await verdicts(served, slot, tmp_path) == dict.fromkeys(pairs(slot, network=True)[0], "failed")


async def test_without_its_assertions_no_clause_catches_anything(served: Host, tmp_path: Path) -> None:
    slot = "orchestrator"  # it has all of them
    stripped = {"PYTEST_PLUGINS": "_stripped", "PYTHONPATH": str(HERE)}
    assert await verdicts(served, slot, tmp_path, **stripped) == dict.fromkeys(pairs(slot, network=True)[0], "passed")
