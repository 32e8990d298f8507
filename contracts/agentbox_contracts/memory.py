"""Memory: text and vectors in, ranked matches out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Instant, JsonObject, Page, route

__all__ = ["CONTRACT", "Match", "Memory", "Record"]

Namespace = Annotated[str, Meta(min_length=1, max_length=200)]
MemoryKey = Annotated[str, Meta(min_length=1, max_length=500)]
Vector = Annotated[tuple[float, ...], Meta(min_length=1, max_length=16_384)]
Ttl = Annotated[float, Meta(gt=0)]
Query = Annotated[str, Meta(min_length=1, max_length=65_536)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


@attrs.frozen(kw_only=True)
class Record:
    """One remembered value."""

    key: str
    namespace: str
    value: Any
    metadata: JsonObject = attrs.field(factory=dict)
    created_at: Instant
    updated_at: Instant
    expires_at: Instant | None = None


@attrs.frozen(kw_only=True)
class Match:
    """A record that answers a search, the better the higher its score."""

    record: Record
    score: float


class Memory(Adapter, Protocol):
    """The port of the memory slot. Namespaces isolate absolutely; an expired record is invisible at once."""

    @route("POST", "/v1/memory", status=201)
    @abstractmethod
    async def store(
        self,
        key: MemoryKey,
        value: Any,
        *,
        namespace: Namespace = "default",
        metadata: JsonObject = {},  # noqa: B006
        ttl_seconds: Ttl | None = None,
        embedding: Vector | None = None,
    ) -> Record:
        """
        Remember *value* under *key*; an older value and its vector are gone.

        Raises:
            EmbeddingError: The namespace is bound to another embedder, or the vector has other dimensions.
        """

    @route("POST", "/v1/memory/search")
    @abstractmethod
    async def search(
        self,
        query: Query | None = None,
        *,
        embedding: Vector | None = None,
        namespace: Namespace = "default",
        limit: Limit = 10,
        filter: JsonObject | None = None,
        mode: Literal["hybrid", "vector", "text"] = "hybrid",
    ) -> list[Match]:
        """
        The best matches in one namespace, the filter applied before the ranking is cut, in a stable order.

        Raises:
            EmbeddingError: The namespace is bound to another embedder, or the vector has other dimensions.
            InvalidInput: Neither query nor embedding, or a filter that is none.
        """

    @route("GET", "/v1/memory/{namespace}/{key}")
    @abstractmethod
    async def retrieve(self, key: MemoryKey, *, namespace: Namespace = "default") -> Record:
        """
        The record of that key.

        Raises:
            NotFound: There is none, or it has expired.
        """

    @route("DELETE", "/v1/memory/{namespace}/{key}")
    @abstractmethod
    async def delete(self, key: MemoryKey, *, namespace: Namespace = "default") -> None:
        """
        Forget the record and its vector for good.

        Raises:
            NotFound: There is none, or it has expired.
        """

    @route("GET", "/v1/memory/{namespace}")
    @abstractmethod
    async def list_keys(
        self, *, namespace: Namespace = "default", prefix: str = "", limit: Limit = 100, after: MemoryKey | None = None
    ) -> Page[str]:
        """The keys of one namespace in order, a page at a time."""

    @route("GET", "/v1/memory")
    @abstractmethod
    async def list_namespaces(self, *, limit: Limit = 100, after: Namespace | None = None) -> Page[str]:
        """The namespaces that hold at least one record, in order, a page at a time."""


CONTRACT = Contract(slot="memory", version="0.1.0", port=Memory)
