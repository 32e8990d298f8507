"""The promises of the memory port, clause by clause."""

from __future__ import annotations

from typing import Any

from agentbox_contracts.memory import Memory
from agentbox_contracts.suites._memory_duplicates import DuplicateClauses
from agentbox_contracts.suites._memory_embedding import EmbeddingClauses, ExplainClauses
from agentbox_contracts.suites._memory_expiry import ExpiryClauses
from agentbox_contracts.suites._memory_filters import FilterClauses
from agentbox_contracts.suites._memory_garbage import GarbageClauses
from agentbox_contracts.suites._memory_isolation import IsolationClauses
from agentbox_contracts.suites._memory_lists import ListClauses
from agentbox_contracts.suites._memory_machine import ModelClauses
from agentbox_contracts.suites._memory_records import RecordClauses
from agentbox_contracts.suites._memory_search import SearchClauses
from agentbox_contracts.suites._memory_sharing import CrashClauses, SharingClauses
from agentbox_contracts.suites._memory_text import TextClauses
from agentbox_contracts.suites.lifecycle import LifecycleSuite

__all__ = ["MemorySuite"]


class MemorySuite(
    ModelClauses,
    CrashClauses,
    SharingClauses,
    GarbageClauses,
    DuplicateClauses,
    ExpiryClauses,
    ListClauses,
    ExplainClauses,
    EmbeddingClauses,
    TextClauses,
    FilterClauses,
    SearchClauses,
    IsolationClauses,
    RecordClauses,
    LifecycleSuite,
):
    """Every clause runs against every adapter of the slot. Vectors are brought; texts go through the embedder."""

    slot = "memory"

    async def any_read(self, adapter: Memory) -> Any:
        return await adapter.list_namespaces(limit=1)
