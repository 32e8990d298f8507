"""Who is calling: ids that follow a call through spans, logs, events and agents' environments."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["execution_id", "fitting", "session_id"]

LONGEST_ID = 200

session_id: ContextVar[str | None] = ContextVar("agentbox_session_id", default=None)
execution_id: ContextVar[str | None] = ContextVar("agentbox_execution_id", default=None)


def fitting(value: str | None) -> str | None:
    """*value*, or None where no event could carry it: it is empty, too long, or no text that every store takes."""
    if not value or len(value) > LONGEST_ID or "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
