"""Whether two sides of a contract understand each other."""

from __future__ import annotations

from agentbox_contracts import compatible
from agentbox_contracts.errors import ContractMismatch

__all__ = ["check_version"]


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
