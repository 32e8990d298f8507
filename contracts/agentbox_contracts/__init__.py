"""The inside of agentbox: ports, types, errors and suites that adapters and hosts depend on."""

from __future__ import annotations

import importlib

from agentbox_contracts.contract import SLOTS, Contract

__all__ = ["SLOTS", "Contract", "compatible", "contract_of"]


def contract_of(slot: str) -> Contract:
    """The contract of one slot."""
    contract: Contract = importlib.import_module(f"agentbox_contracts.{slot}").CONTRACT
    return contract


def compatible(version: str, accepted: str) -> bool:
    """
    Whether *version* (`1.2.0`) lies within the range *accepted* (`>=1.0,<2`).

    A range is one or more of `>=`, `<=`, `>`, `<`, `==` with a version of one to three numbers, all of which must hold.
    Raises ValueError when either is not of that form.
    """
    have = _numbers(version)
    # Every clause is read before one is judged, so that nonsense is found behind one that fails.
    verdicts = [_holds(have, clause.strip()) for clause in accepted.split(",")]
    return all(verdicts)


def _holds(have: tuple[int, ...], clause: str) -> bool:
    for sign in (">=", "<=", "==", ">", "<"):
        if clause.startswith(sign):
            want = _numbers(clause[len(sign) :].strip())
            break
    else:
        raise ValueError(f"{clause!r} is not a version clause like '>=1.0'")
    return {">=": have >= want, "<=": have <= want, "==": have == want, ">": have > want, "<": have < want}[sign]


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{version!r} is not a version like '1.0.0'")
    return tuple(int(part) for part in parts) + (0,) * (3 - len(parts))
