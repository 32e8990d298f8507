"""Whether two sides of a contract understand each other."""

from __future__ import annotations

from agentbox_contracts import compatible, contract_of
from agentbox_contracts.errors import ContractMismatch

__all__ = ["check_version", "skew"]


def check_version(slot: str, version: str, accepted: str, *, who: str) -> None:
    """
    Let *version* of the slot's contract, which *who* speaks, pass if *accepted* allows it.

    Raises:
        ContractMismatch: It does not; both are named.
    """
    try:
        fits = compatible(version, accepted)
    except ValueError as error:
        raise ContractMismatch(f"{slot}: {who} speaks an unreadable contract version: {error}", slot=slot) from error
    if not fits:
        raise ContractMismatch(
            f"{slot}: {who} speaks contract {version}, and this side accepts {accepted}; "
            f"choose an adapter of that range or change [federation.accepts] {slot}",
            slot=slot,
        )


def skew(slot: str, version: str) -> str:
    """
    In a sentence, that the other side is of another MINOR version than this one; empty when it is not.

    Such two work together. What only one of them knows is refused when it is called.
    """
    ours = contract_of(slot).version
    if version.split(".")[:2] == ours.split(".")[:2]:
        return ""
    return f"speaks contract {version}, this side knows {ours}; what only one of them knows is refused when called"
