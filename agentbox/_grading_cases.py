"""The test classes of a graded run, made from its plan; the run's only test file asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import attrs
import pytest

from agentbox_contracts.suites import suite_of
from agentbox_contracts.suites.bad import known_bads
from agentbox_contracts.suites.clauses import Exemption, clauses_of
from agentbox_contracts.wire import decode, encode

__all__ = ["PLAN", "Plan", "cases", "pairs", "write"]

PLAN = "plan.json"
TEST_FILE = """from pathlib import Path

from agentbox._grading_cases import cases

globals().update(cases(Path(__file__).parent))
"""


@attrs.frozen(kw_only=True)
class Plan:
    """What to run: the adapter that *text* chooses against its suite, or spoiled in each way of *spoiled*."""

    slot: str
    off: bool
    text: str
    unique: str
    exemptions: tuple[Exemption, ...] = ()
    spoiled: tuple[str, ...] = ()
    kind: Literal["grade", "prove"] = "grade"


def write(plan: Plan, folder: Path) -> Path:
    """Lay out a folder for pytest: the plan, a test file, and a configuration that shuts out all others."""
    (folder / PLAN).write_bytes(encode(plan))
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    test = folder / "test_contract.py"
    test.write_text(TEST_FILE)
    return test


def cases(folder: Path) -> dict[str, type]:
    """The classes of the plan in *folder* by name."""
    plan = decode((folder / PLAN).read_bytes(), Plan)
    if plan.kind == "grade":
        return {"TestContract": _case("TestContract", plan, None)}
    return {f"Test{name}": _case(f"Test{name}", plan, name) for name in plan.spoiled}


def pairs(slot: str, *, off: bool = False, network: bool = False) -> tuple[dict[str, str], tuple[str, ...]]:
    """Each known-bad adapter of a suite with the clause that must catch it, and the clauses that have none."""
    clauses = clauses_of(suite_of(slot, off=off, network=network))
    found = {bad.name: bad.clause for bad in known_bads().values() if bad.clause in clauses}
    return found, tuple(id for id in clauses if id not in found.values())


def _case(name: str, plan: Plan, known_bad: str | None) -> type:
    def manifest(self: Any) -> str:
        return plan.text.replace(plan.unique, uuid4().hex)

    members = {
        "slot": plan.slot,
        "known_bad": known_bad,
        "exemptions": plan.exemptions,
        "manifest": pytest.fixture(manifest),
        "__module__": "test_contract",
    }
    return type(name, (suite_of(plan.slot, off=plan.off),), members)
