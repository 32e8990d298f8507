"""The suites as data: ids, promises, exemptions, and known-bad adapters for all of them."""

from __future__ import annotations

from datetime import date

import pytest

from agentbox._grading_cases import pairs
from agentbox_contracts.suites import NETWORK, SUITES, suite_of
from agentbox_contracts.suites.bad import known_bads
from agentbox_contracts.suites.clauses import Clause, Exemption, clause, clause_of, clauses_of

ALL: list[tuple[str, dict[str, bool]]] = [
    *((slot, {}) for slot in SUITES),
    *((slot, {"network": True}) for slot in NETWORK),
    ("events", {"off": True}),
]


@pytest.mark.parametrize(("slot", "kind"), ALL)
def test_every_test_of_a_suite_is_a_clause(slot: str, kind: dict[str, bool]) -> None:
    suite = suite_of(slot, **kind)
    tests = [name for name in dir(suite) if name.startswith("test")]
    assert tests
    assert not [name for name in tests if clause_of(getattr(suite, name)) is None]


@pytest.mark.parametrize(("slot", "kind"), ALL)
def test_no_two_clauses_share_an_id(slot: str, kind: dict[str, bool]) -> None:
    suite = suite_of(slot, **kind)
    ids = [found.id for name in dir(suite) if (found := clause_of(getattr(suite, name))) is not None]
    assert len(ids) == len(set(ids)) == len(clauses_of(suite))


@pytest.mark.parametrize(("slot", "kind"), ALL)
def test_every_clause_has_a_known_bad_adapter(slot: str, kind: dict[str, bool]) -> None:
    _, idle = pairs(slot, **kind)
    assert idle == ()


def test_every_known_bad_adapter_names_a_clause_and_its_fault() -> None:
    clauses = {id for slot, kind in ALL for id in clauses_of(suite_of(slot, **kind))}
    strangers = {bad.name: bad.clause for bad in known_bads().values() if bad.clause not in clauses}
    assert strangers == {}
    assert not [bad.name for bad in known_bads().values() if not bad.fault.endswith(".")]


def test_there_are_many_ways_to_be_wrong() -> None:
    assert len(known_bads()) >= 40


def test_a_clause_needs_an_id_and_a_promise() -> None:
    async def promising() -> None:
        """It holds."""

    async def silent() -> None: ...

    assert clause_of(clause("beads.claim.one-winner", needs=("leases",))(promising)) == Clause(
        "beads.claim.one-winner", "It holds.", frozenset({"leases"})
    )
    with pytest.raises(ValueError, match="must be the promise"):
        clause("beads.claim.one-winner")(silent)
    for id in ("claim", "beads.claim", "Beads.claim.x", "beads.claim.one winner", "beads..x"):
        with pytest.raises(ValueError, match="not a clause id"):
            clause(id)(promising)


async def test_a_clause_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from agentbox_contracts.suites import clauses

    monkeypatch.setattr(clauses, "LIMIT_SECONDS", 0.01)

    @clause("beads.claim.for-ever")
    async def hang() -> None:
        """It never ends."""
        await asyncio.sleep(60)

    with pytest.raises(pytest.fail.Exception, match=r"beads\.claim\.for-ever did not end within 0\.01 s"):
        await hang()


def test_an_exemption_covers_by_id_or_pattern() -> None:
    def covers(pattern: str, id: str) -> bool:
        exemption = Exemption(clauses=pattern, reason="r", owner="o", expires=date(2030, 1, 1))
        return exemption.covers(Clause(id, "It holds."))

    assert covers("beads.sync.*", "beads.sync.both-ways")
    assert covers("beads.sync.both-ways", "beads.sync.both-ways")
    assert not covers("beads.sync.*", "beads.claim.one-winner")
