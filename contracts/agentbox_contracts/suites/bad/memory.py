"""Known-bad memories, topic by topic."""

from __future__ import annotations

from agentbox_contracts.suites.bad import (
    _memory_duplicates,
    _memory_embedding,
    _memory_expiry,
    _memory_garbage,
    _memory_isolation,
    _memory_records,
    _memory_search,
    _memory_sharing,
)

__all__ = ["TOPICS"]

TOPICS = (
    _memory_records,
    _memory_isolation,
    _memory_search,
    _memory_expiry,
    _memory_duplicates,
    _memory_embedding,
    _memory_garbage,
    _memory_sharing,
)
