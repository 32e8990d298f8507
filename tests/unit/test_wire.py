"""Arguments, values and errors are the same on every wire."""

from __future__ import annotations

import pickle

import pytest

from agentbox_contracts import SLOTS, compatible, contract_of
from agentbox_contracts.errors import AlreadyClaimed, InvalidInput, error_classes
from agentbox_contracts.orchestrator import AgentSpec
from agentbox_contracts.wire import argument_checker, error_of, problem_of


def test_every_error_comes_back_as_its_own_class() -> None:
    for cls in error_classes():
        error = cls("what happened", resource="bead", id="bd-1", actor="ada", slot="beads", method="claim")

        back = error_of(problem_of(error))

        assert type(back) is cls
        assert problem_of(back) == problem_of(error)
        assert problem_of(pickle.loads(pickle.dumps(error))) == problem_of(error)


def test_error_codes_are_unique() -> None:
    codes = [cls.code for cls in error_classes()]

    assert len(codes) == len(set(codes))


def test_a_code_from_a_newer_peer_is_an_adapter_failure() -> None:
    assert error_of({"code": "brand_new", "message": "x"}).code == "adapter_failed"


def test_arguments_come_out_complete_and_named() -> None:
    check = argument_checker(contract_of("beads").methods["claim"])

    assert check(("bd-1",), {"actor": "ada"}) == {"bead_id": "bd-1", "actor": "ada", "lease_seconds": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("bd-1",), {}, "missing argument `actor`"),
        (("bd-1", "ada"), {}, "takes 1 positional"),
        (("bd-1",), {"bead_id": "bd-1", "actor": "a"}, "bead_id twice"),
        (("bd-1",), {"actor": "a", "x": 1}, "unknown argument `x`"),
        (("bd-1",), {"actor": 3}, "actor: expected `str`"),
        (("bd-1",), {"actor": "a", "lease_seconds": -1}, "lease_seconds: expected `float` > 0"),
    ],
)
def test_wrong_arguments_are_named(args: tuple[str, ...], kwargs: dict[str, object], message: str) -> None:
    check = argument_checker(contract_of("beads").methods["claim"])

    with pytest.raises(InvalidInput, match=message):
        check(args, dict(kwargs))


@pytest.mark.parametrize(
    "spec",
    [
        AgentSpec(command=""),
        AgentSpec(command="a\0b"),
        AgentSpec(command="x", args=("\ud800",)),
        AgentSpec(command="x", args=(1,)),  # type: ignore[arg-type]
        AgentSpec(command="x", env={"A=B": "x"}),
        AgentSpec(command="x", env={"A": "x\0"}),
    ],
    ids=str,
)
def test_a_value_built_by_hand_is_checked_too(spec: AgentSpec) -> None:
    check = argument_checker(contract_of("orchestrator").methods["spawn"])

    with pytest.raises(InvalidInput, match="spec"):
        check((spec,), {})


@pytest.mark.parametrize("slot", SLOTS)
def test_every_port_method_is_documented_and_typed(slot: str) -> None:
    for method in contract_of(slot).methods.values():
        assert method.doc, method.name


def test_versions_compare_by_range() -> None:
    assert compatible("1.2.0", ">=1.0,<2")
    assert compatible("1.0.0", "==1")
    assert not compatible("2.0.0", ">=1.0,<2")
    assert not compatible("0.9", ">=1.0,<2")
    for bad in ("", "~=1", ">=one", ">=1.2.3.4"):
        with pytest.raises(ValueError, match="version"):
            compatible("1.0.0", bad)


def test_an_already_claimed_error_says_who() -> None:
    problem = problem_of(AlreadyClaimed("bd-1 is held by ada", resource="bead", id="bd-1", actor="ada"))

    assert (problem["status"], problem["code"], problem["actor"]) == (409, "already_claimed", "ada")
