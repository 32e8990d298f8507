"""Arguments, values and errors are the same on every wire."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from http import HTTPMethod, HTTPStatus
from typing import Any

import pytest

from agentbox_contracts import SLOTS, compatible, contract_of
from agentbox_contracts._many import are_surely_json
from agentbox_contracts.errors import AlreadyClaimed, InvalidInput, error_classes
from agentbox_contracts.events import Event
from agentbox_contracts.orchestrator import AgentSpec, Limits
from agentbox_contracts.wire import JSON_DEPTH, JSON_SIZE, argument_checker, error_of, problem_of


def deep(levels: int) -> Any:
    """Lists inside each other."""
    found: list[Any] = []
    for _ in range(levels - 1):
        found = [found]
    return found


def within_itself() -> Any:
    """A list that has itself in it twice: who walks it level by level without looking first never ends."""
    found: list[Any] = []
    found += [found, found]
    return found


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
        AgentSpec(command="x", limits=Limits(wall_seconds=0)),
        AgentSpec(command="x", limits=Limits(cpu_seconds=float("inf"))),
        AgentSpec(command="x", limits=Limits(processes=0)),
        {"command": "x", "limits": {"output_bytes": -1}},
        {"command": "x", "limits": {"wall_second": 1}},
    ],
    ids=str,
)
def test_a_value_built_by_hand_is_checked_too(spec: AgentSpec | dict[str, object]) -> None:
    check = argument_checker(contract_of("orchestrator").methods["spawn"])

    with pytest.raises(InvalidInput, match="spec"):
        check((spec,), {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": float("nan")}, "value: nan is not a finite number"),
        ({"value": [1, [float("inf")]]}, "value.1..0.: inf is not a finite number"),
        ({"value": "x" * 1_048_576}, "value: 1,048,578 bytes of JSON"),
        ({"value": b"x"}, "value: bytes is not a JSON value"),
        ({"value": {"at": datetime.now(UTC)}}, "value.at: datetime is not a JSON value"),
        ({"value": 1, "ttl_seconds": float("inf")}, "ttl_seconds: inf is not a finite number"),
        ({"value": 1, "embedding": [1.0, float("nan")]}, "embedding.1.: nan is not a finite number"),
    ],
)
def test_what_json_cannot_hold_is_named(arguments: dict[str, object], message: str) -> None:
    check = argument_checker(contract_of("memory").methods["store"])

    with pytest.raises(InvalidInput, match=message):
        check(("key",), dict(arguments))


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


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (float("nan"), "not a finite number"),
        ({"n": [float("inf")]}, "not a finite number"),
        (b"x", "bytes is not a JSON value"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "datetime is not a JSON value"),
        ({"n": object()}, "object is not a JSON value"),
        ({1: 2}, "the key 1 is not text"),
        ({"n": "\ud800"}, "valid Unicode"),
        ("nul\0", "NUL"),
        ("x" * JSON_SIZE, "bytes of JSON"),
        (deep(JSON_DEPTH + 1), "nested deeper"),
        (deep(100_000), "nested deeper"),
        (within_itself(), "nested deeper"),
        ({"n": [{"a": 1}, {2: 3}]}, "the key 2 is not text"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, list) else "deep",
)
@pytest.mark.parametrize("method", ["dispatch", "dispatch_many"])
def test_data_that_is_no_json_is_refused(method: str, data: Any, message: str) -> None:
    check = argument_checker(contract_of("events").methods[method])
    event = Event(type="t", source="s", data=data)

    with pytest.raises(InvalidInput, match=message) as caught:
        check((event if method == "dispatch" else [event],), {})
    assert "data" in caught.value.message


@pytest.mark.parametrize(
    "data",
    [
        None,
        0,
        1 << 80,
        "",
        [],
        (1, 2),
        {"a": {"b": [1.5, True]}},
        deep(JSON_DEPTH),
        {"a": [HTTPMethod.GET, HTTPStatus.OK]},
    ],
    ids=str,
)
def test_data_that_is_json_passes(data: Any) -> None:
    check = argument_checker(contract_of("events").methods["dispatch"])

    assert check((Event(type="t", source="s", data=data),), {})["event"].data == data


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (Event(type="t", source="s", data={"a": [math.nan]}), r"events\[600\]\.data\.a\[0\]: nan"),
        (Event(type="", source="s"), r"events\[600\]\.type: expected `str` of length >= 1"),
        (Event(type="t", source="s\0"), r"events\[600\]\.source: text must"),
        (Event(type="t", source="s", subject="\ud800"), r"events\[600\]\.subject: text must"),
        (Event(type=b"t", source="s"), r"events\[600\]\.type: expected `str`, got `bytes`"),  # type: ignore[arg-type]
    ],
    ids=["nan", "empty", "nul", "surrogate", "bytes"],
)
def test_one_wrong_value_among_many_is_named(last: Event, message: str) -> None:
    check = argument_checker(contract_of("events").methods["dispatch_many"])

    with pytest.raises(InvalidInput, match=message):
        check(([Event(type="t", source="s")] * 600 + [last],), {})


@pytest.mark.parametrize(("length", "is_fine"), [(JSON_SIZE // 2, True), (JSON_SIZE, False)])
def test_each_of_many_may_be_as_long_as_one_may_be(length: int, is_fine: bool) -> None:
    texts = ["x" * length] * 3 + ["y"] * 5

    assert are_surely_json(texts) is is_fine


def test_a_value_that_has_to_be_converted_comes_out_converted() -> None:
    check = argument_checker(contract_of("events").methods["dispatch_many"])
    said = Event(type="t", source="s", time="2026-11-18T10:00:00+01:00")  # type: ignore[arg-type]

    plain, converted = check(([Event(type="t", source="s"), said],), {})["events"]

    assert plain.time is None
    assert converted.time == datetime(2026, 11, 18, 9, tzinfo=UTC)


def test_text_is_no_bytes() -> None:
    check = argument_checker(contract_of("orchestrator").methods["send"])
    with pytest.raises(InvalidInput, match="data: expected `bytes`, got `str`"):
        check((), {"agent_id": "ag-1234", "data": "abcd"})
    assert check((), {"agent_id": "ag-1234", "data": b"abcd"})["data"] == b"abcd"
