"""Who is calling: ids that follow a call through spans, logs, events and agents' environments."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["execution_id", "session_id"]

session_id: ContextVar[str | None] = ContextVar("agentbox_session_id", default=None)
execution_id: ContextVar[str | None] = ContextVar("agentbox_execution_id", default=None)
