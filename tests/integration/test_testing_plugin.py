"""The pytest plugin as a stranger meets it: a module of his own, run by pytest in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbox._testing_process import RemoteAdapter, opened
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput, NotFound
from agentbox_contracts.suites.opening import Crash

TEXT = '[adapters]\nbeads = "local-sqlite"\n'
MODULE = """
import pytest
from agentbox_contracts.suites.lifecycle import LifecycleSuite
{imports}

class TestMine(LifecycleSuite):
    slot = "beads"
    {members}

    async def any_read(self, adapter):
        return await adapter.show("bd-none")

    @pytest.fixture
    def manifest(self):
        return '[adapters]\\nbeads = "local-sqlite"\\n'

{more}
"""
EXEMPTION = "exemptions = (Exemption(clauses='lifecycle.health.*', reason='slow', owner='ada', expires=date({})),)"
IMPORTS = "from datetime import date\nfrom agentbox_contracts.suites.clauses import Exemption, clause"


def run(folder: Path, *options: str, members: str = "", more: str = "") -> tuple[int, str, list[dict[str, Any]]]:
    (folder / "test_mine.py").write_text(MODULE.format(imports=IMPORTS, members=members, more=more))
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    verdicts = folder / "verdicts.jsonl"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--agentbox-verdicts",
        str(verdicts),
        *options,
    ]
    env = {name: value for name, value in os.environ.items() if name != "AGENTBOX_FORBID_SKIPS"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=120, check=False)
    lines = [json.loads(line) for line in verdicts.read_text().splitlines()] if verdicts.exists() else []
    return done.returncode, done.stdout, [line for line in lines if "clause" in line]


def test_a_strangers_module_needs_no_configuration(tmp_path: Path) -> None:
    code, output, verdicts = run(tmp_path)
    assert code == 0, output
    assert {line["kind"] for line in verdicts} == {"passed"}
    assert "lifecycle.open.processes" in {line["clause"] for line in verdicts}


def test_an_exemption_in_force_is_printed_and_no_forbidden_skip(tmp_path: Path) -> None:
    code, output, verdicts = run(tmp_path, "--agentbox-forbid-skips", members=EXEMPTION.format("9999, 1, 1"))
    assert code == 0, output
    assert (
        "lifecycle.health.connected not run: exempt: lifecycle.health.*: slow (owner ada, until 9999-01-01)" in output
    )
    assert {line["kind"] for line in verdicts if line["clause"].startswith("lifecycle.health.")} == {"exempt"}


def test_an_expired_exemption_fails(tmp_path: Path) -> None:
    code, output, _ = run(tmp_path, members=EXEMPTION.format("2020, 1, 1"))
    assert code == 1
    assert "the exemption has expired: lifecycle.health.*: slow (owner ada, until 2020-01-01)" in output


def test_a_clause_whose_capability_is_not_declared_is_left_out_and_printed(tmp_path: Path) -> None:
    more = """
    @clause("beads.flight.flies", needs=("wings",))
    async def test_it_flies(self, adapter):
        '''It flies.'''
        raise AssertionError
"""
    code, output, verdicts = run(tmp_path, "--agentbox-forbid-skips", more=more)
    assert code == 0, output
    assert "beads.flight.flies not run: not declared: wings" in output
    assert [line["kind"] for line in verdicts if line["clause"] == "beads.flight.flies"] == ["undeclared"]


def test_any_other_skip_is_a_failure_where_skips_are_forbidden(tmp_path: Path) -> None:
    more = "    async def test_skipped(self):\n        pytest.skip('no reason')\n"
    assert run(tmp_path, more="    @pytest.mark.asyncio\n" + more)[0] == 0
    code, output, _ = run(tmp_path, "--agentbox-forbid-skips", more="    @pytest.mark.asyncio\n" + more)
    assert code == 1
    assert "skipped where skips are forbidden" in output


def test_an_assertion_that_fails_is_told(tmp_path: Path) -> None:
    more = """
    @clause("beads.sum.right")
    async def test_sums(self):
        '''One and one are two.'''
        assert 1 + 1 == 3
"""
    code, _, verdicts = run(tmp_path, more=more)
    (line,) = [line for line in verdicts if line["clause"] == "beads.sum.right"]
    assert (code, line["kind"], line["reason"]) == (1, "failed", "assert (1 + 1) == 3")


async def elsewhere(folder: Path, crash: Crash | None = None) -> Any:
    return opened(TEXT, "beads", folder=folder, known_bad=None, crash=crash)


async def test_another_process_answers_as_if_it_were_here(tmp_path: Path) -> None:
    async with await elsewhere(tmp_path) as remote:
        epic = await remote.create_epic(title="Ship it ✓", metadata={"n": 1})
        assert await remote.show(epic.id) == epic
        assert remote.pid != os.getpid()
        with pytest.raises(NotFound, match="bd-none"):
            await remote.show("bd-none")
        with pytest.raises(InvalidInput, match="title"):
            await remote.create_epic(title="")
        with pytest.raises(AttributeError, match="no method fly"):
            remote.fly()


async def test_a_process_that_cannot_open_says_why(tmp_path: Path) -> None:
    (tmp_path / "beads.db").write_text("nonsense" * 1000)
    with pytest.raises(AdapterUnavailable, match="not an SQLite database"):
        async with await elsewhere(tmp_path):
            pass


async def test_a_killed_process_fails_the_calls_under_way(tmp_path: Path) -> None:
    async with await elsewhere(tmp_path) as remote:
        remote.stop()
        import asyncio

        call = asyncio.create_task(remote.create_epic(title="Ship it"))
        await asyncio.sleep(0.05)
        await remote.kill()
        with pytest.raises(ConnectionError):
            await call
        assert await remote.ended() == -9


@pytest.mark.parametrize(("point", "written"), [("received", False), ("done", True)])
async def test_a_process_can_be_made_to_die_at_a_named_point(tmp_path: Path, point: Any, written: bool) -> None:
    async with await elsewhere(tmp_path, Crash(point, "create_epic", 2)) as remote:
        await remote.create_epic(title="first")
        with pytest.raises(ConnectionError):
            await remote.create_epic(title="second")
        assert await remote.ended() == -9
    async with await elsewhere(tmp_path) as survivor:
        assert isinstance(survivor, RemoteAdapter)
        titles = [bead.title for bead in await survivor.get_ready()]
    assert titles == (["first", "second"] if written else ["first"])
