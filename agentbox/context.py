"""Bind the ids that follow every call into spans, logs, events and agents' environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentbox_contracts.context import execution_id, session_id

__all__ = ["bound", "execution_id", "session_id"]


@contextmanager
def bound(*, session: str | None = None, execution: str | None = None) -> Iterator[None]:
    """Calls inside carry these ids; None leaves what is bound already."""
    tokens = [
        (variable, variable.set(value))
        for variable, value in ((session_id, session), (execution_id, execution))
        if value is not None
    ]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)
