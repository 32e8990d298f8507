"""Memory of a host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, cast

from agentbox.adapters._external import ExternalAdapter
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import AgentboxError, NotFound
from agentbox_contracts.memory import CONTRACT, Match, Memory, Record

__all__ = ["Adapter", "ExternalMemory"]


class ExternalMemory(ExternalAdapter, Memory):
    """
    Every call goes to the host, which embeds and has the clock.

    Reads are repeated when the host was out of reach, and so are stores, which are the same record when they come
    twice. A deletion whose answer was lost is repeated too; that there is nothing to delete then means that it has
    happened.
    """

    contract = CONTRACT
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities

    async def store(
        self,
        key: str,
        value: Any,
        *,
        namespace: str = "default",
        metadata: dict[str, Any] = {},  # noqa: B006 - never mutated
        text: str | None = None,
        ttl_seconds: float | None = None,
        embedding: tuple[float, ...] | None = None,
        source: str | None = None,
        session_id: str | None = None,
        bead_id: str | None = None,
    ) -> Record:
        fields = {
            "key": key,
            "value": value,
            "namespace": namespace,
            "metadata": metadata,
            "text": text,
            "ttl_seconds": ttl_seconds,
            "embedding": embedding,
            "source": source,
            "session_id": session_id,
            "bead_id": bead_id,
        }
        return cast("Record", await self._host.call("store", safe=True, **fields))

    async def search(
        self,
        query: str | None = None,
        *,
        embedding: tuple[float, ...] | None = None,
        namespace: str = "default",
        limit: int = 10,
        filter: dict[str, Any] | None = None,
        prefix: str = "",
        mode: Literal["hybrid", "vector", "text"] = "hybrid",
        min_score: float | None = None,
        explain: bool = False,
    ) -> list[Match]:
        fields = {
            "query": query,
            "embedding": embedding,
            "namespace": namespace,
            "limit": limit,
            "filter": filter,
            "prefix": prefix,
            "mode": mode,
            "min_score": min_score,
            "explain": explain,
        }
        return cast("list[Match]", await self._host.call("search", safe=True, **fields))

    async def retrieve(self, key: str, *, namespace: str = "default") -> Record:
        return cast("Record", await self._host.call("retrieve", safe=True, key=key, namespace=namespace))

    async def delete(self, key: str, *, namespace: str = "default") -> None:
        try:
            await self._host.call("delete", safe=False, key=key, namespace=namespace)
        except AgentboxError as error:
            if not error.retryable or self._host.never_sent(error):
                raise
            with suppress(NotFound):
                await self._host.call("delete", safe=True, key=key, namespace=namespace)

    async def list_keys(
        self, *, namespace: str = "default", prefix: str = "", limit: int = 100, after: str | None = None
    ) -> Page[str]:
        call = self._host.call("list_keys", safe=True, namespace=namespace, prefix=prefix, limit=limit, after=after)
        return cast("Page[str]", await call)

    async def list_namespaces(self, *, limit: int = 100, after: str | None = None) -> Page[str]:
        return cast("Page[str]", await self._host.call("list_namespaces", safe=True, limit=limit, after=after))


Adapter = ExternalMemory
