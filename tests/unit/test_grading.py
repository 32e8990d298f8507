"""From verdicts to a grade."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._grading_report import Report, report_of
from agentbox.cli import _contract_view as view
from agentbox.grading import _pair
from agentbox_contracts.suites.bad import known_bads
from agentbox_contracts.suites.clauses import Clause

CLAUSES = {
    "beads.claim.one-winner": Clause("beads.claim.one-winner", "One wins."),
    "beads.lease.expires": Clause("beads.lease.expires", "It expires.", frozenset({"leases"})),
}
SAID = {
    "adapter": "x",
    "slot": "beads",
    "contract_version": "1.0.0",
    "capabilities": ["leases"],
    "durability": "fsync",
}


def verdict(id: str, kind: str, *, case: str = "", reason: str = "", known_bad: str | None = None) -> dict[str, Any]:
    return {"clause": id, "kind": kind, "case": case, "reason": reason, "seconds": 0.5, "known_bad": known_bad}


def report(*verdicts: dict[str, Any], said: dict[str, Any] = SAID) -> Report:
    return report_of("beads", "x", CLAUSES, [said, *verdicts], seconds=1.0)


def test_all_kept_is_conformant() -> None:
    whole = report(verdict("beads.claim.one-winner", "passed"), verdict("beads.lease.expires", "passed"))
    assert (whole.grade, whole.without, whole.broken) == ("conformant", (), ())
    assert (whole.contract_version, whole.durability, whole.capabilities) == ("1.0.0", "fsync", ("leases",))


def test_what_is_not_declared_is_named() -> None:
    partial = report(
        verdict("beads.claim.one-winner", "passed"),
        verdict("beads.lease.expires", "undeclared", reason="not declared: leases"),
        said=SAID | {"capabilities": []},
    )
    assert partial.grade == "conformant without leases"


def test_what_is_exempt_is_named() -> None:
    exempt = report(verdict("beads.claim.one-winner", "exempt"), verdict("beads.lease.expires", "passed"))
    assert exempt.grade == "conformant without beads.claim.one-winner"


@pytest.mark.parametrize("kind", ["failed", "error"])
def test_one_broken_case_breaks_the_clause_and_the_grade(kind: str) -> None:
    broken = report(
        verdict("beads.claim.one-winner", "passed", case="two"),
        verdict("beads.claim.one-winner", kind, case="many", reason="2 won"),
        verdict("beads.lease.expires", "exempt"),
    )
    assert broken.grade == "not conformant"
    assert [(result.id, result.cases, result.reason) for result in broken.broken] == [
        ("beads.claim.one-winner", 2, "[many] 2 won")
    ]


def test_a_clause_that_was_never_reached_is_broken() -> None:
    cut = report(verdict("beads.claim.one-winner", "passed"))
    assert cut.grade == "not conformant"
    assert [(result.id, result.verdict) for result in cut.broken] == [("beads.lease.expires", "missing")]


def test_the_junit_file_has_a_case_for_each_clause() -> None:
    from xml.etree import ElementTree

    told = report(
        verdict("beads.claim.one-winner", "failed", reason="2 won \x1b[31m <&>"),
        verdict("beads.lease.expires", "undeclared"),
    )
    root = ElementTree.fromstring(view.junit([told]))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    assert [case.get("name") for case in suite] == list(CLAUSES)
    assert suite[0][0].get("message") == "2 won ?[31m <&>"


def test_a_known_bad_adapter_is_caught_by_an_assertion_only() -> None:
    bad = next(iter(known_bads().values()))

    def pair(*kinds: str) -> tuple[str, str]:
        lines = [verdict(bad.clause, kind, reason=kind, known_bad=bad.name) for kind in kinds]
        found = _pair(bad.name, bad.clause, lines)
        return found.verdict, found.reason

    assert pair("passed", "failed") == ("caught", "failed")
    assert pair("passed") == ("missed", "every assertion held")
    assert pair("error") == ("missed", "not by an assertion: error")
    assert pair("undeclared") == ("left out", "undeclared")
    assert pair() == ("missed", "the run ended before it")
