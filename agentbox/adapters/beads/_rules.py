"""What may be done with a bead, decided on the bead alone: the refusals that every store gives in the same words."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from agentbox_contracts.beads import Bead
from agentbox_contracts.errors import AlreadyClaimed, Conflict, InvalidInput, NotFound, StaleClaim
from agentbox_contracts.wire import encode

__all__ = [
    "DEPTH",
    "check_metadata",
    "check_parent",
    "check_renewal",
    "fingerprint",
    "is_closed",
    "is_held",
    "is_released",
    "no_bead",
    "own_number",
]

DEPTH = 8


def no_bead(bead_id: str) -> NotFound:
    return NotFound(f"there is no bead {bead_id}", resource="bead", id=bead_id)


def fingerprint(method: str, arguments: dict[str, Any]) -> str:
    """What a key is remembered with: the same for the same call, another for any other."""
    return hashlib.sha256(method.encode() + b"\0" + encode(arguments)).hexdigest()


def own_number(bead: Bead) -> int:
    """The number that a child's id ends in, 0 when it has none that we could have given."""
    digits = bead.id.rpartition(".")[2]
    return int(digits) if bead.parent_id and len(digits) < 16 and digits.isascii() and digits.isdigit() else 0


def check_metadata(metadata: dict[str, Any]) -> None:
    if "agentbox" in metadata:
        raise InvalidInput("metadata.agentbox: the name is taken; sync keeps its own fields there")


def check_parent(parent: Bead) -> None:
    """Raises Conflict when *parent* takes no children."""
    if parent.status == "closed":
        raise Conflict(f"{parent.id} is closed and takes no children", resource="bead", id=parent.id)
    if parent.id.count(".") >= DEPTH:
        raise Conflict(f"{parent.id} is {DEPTH} levels down already", resource="bead", id=parent.id)


def is_held(bead: Bead, actor: str, now: datetime) -> bool:
    """Whether *actor* holds it already. Raises why it cannot be claimed; False when it can."""
    if bead.status == "closed":
        raise Conflict(f"{bead.id} is closed", resource="bead", id=bead.id)
    held = bead.status == "claimed" and (bead.lease_expires_at is None or bead.lease_expires_at > now)
    if held and bead.holder != actor:
        raise AlreadyClaimed(f"{bead.id} is held by {bead.holder}", resource="bead", id=bead.id, actor=bead.holder)
    if not held and bead.open_blockers:
        waits = f"{bead.id} waits for {bead.open_blockers} of {', '.join(bead.depends_on)}"
        raise Conflict(waits, resource="bead", id=bead.id)
    return held


def is_released(bead: Bead, actor: str | None, fence: int | None) -> bool:
    """Whether there is nothing to release. Raises why it cannot be released; False when it can."""
    _check_fence(bead, fence)
    if bead.status == "closed":
        raise Conflict(f"{bead.id} is closed", resource="bead", id=bead.id)
    _check_holder(bead, actor)
    return bead.status == "open"


def is_closed(bead: Bead, outcome: str, actor: str | None, fence: int | None) -> bool:
    """Whether it was closed like this already. Raises why it cannot be closed; False when it can."""
    _check_fence(bead, fence)
    if bead.status == "closed":
        if bead.outcome != outcome:
            raise Conflict(f"{bead.id} was closed as {bead.outcome} already", resource="bead", id=bead.id)
        return True
    _check_holder(bead, actor)
    if bead.open_children:
        raise Conflict(f"{bead.id} has {bead.open_children} children that are not closed", resource="bead", id=bead.id)
    return False


def check_renewal(bead: Bead, fence: int | None) -> None:
    """Raises why the claim cannot be renewed."""
    _check_fence(bead, fence)
    if bead.status != "claimed":
        raise Conflict(f"{bead.id} is {bead.status}, so there is no claim to renew", resource="bead", id=bead.id)


def _check_fence(bead: Bead, fence: int | None) -> None:
    if fence is None and bead.status == "claimed" and bead.lease_expires_at is not None:
        message = f"{bead.id} is held under a lease: give the fence of the claim"
    elif fence is not None and fence != bead.fence:
        message = f"{bead.id} has fence {bead.fence}, not {fence}: the claim was lost"
    else:
        return
    raise StaleClaim(message, resource="bead", id=bead.id, actor=bead.holder)


def _check_holder(bead: Bead, actor: str | None) -> None:
    if bead.status == "claimed" and actor is not None and actor != bead.holder:
        raise AlreadyClaimed(f"{bead.id} is held by {bead.holder}", resource="bead", id=bead.id, actor=bead.holder)
