"""Memory: text and vectors in, ranked matches out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Instant, JsonObject, Page, route

__all__ = ["CONTRACT", "Explanation", "Match", "Memory", "Record"]

Namespace = Annotated[str, Meta(min_length=1, max_length=200)]
MemoryKey = Annotated[str, Meta(min_length=1, max_length=500)]
Vector = Annotated[tuple[float, ...], Meta(min_length=1, max_length=16_384)]
Ttl = Annotated[float, Meta(gt=0)]
Query = Annotated[str, Meta(min_length=1, max_length=65_536)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(max_length=1_000_000)]
Origin = Annotated[str, Meta(min_length=1, max_length=500)]
Prefix = Annotated[str, Meta(max_length=500)]


@attrs.frozen(kw_only=True)
class Record:
    """
    One remembered value. `source`, `session_id` and `bead_id` say where it came from.

    `duplicate_of` is the key that held exactly this content in the namespace already, when there was one.
    """

    key: str
    namespace: str
    value: Any
    metadata: JsonObject = attrs.field(factory=dict)
    source: str | None = None
    session_id: str | None = None
    bead_id: str | None = None
    duplicate_of: str | None = None
    created_at: Instant
    updated_at: Instant
    expires_at: Instant | None = None


@attrs.frozen(kw_only=True)
class Explanation:
    """
    Why a record matched: its place and score by vector and by text, and the piece of text that did it.

    `semantic` is false for an embedder that compares letters, not meanings. `plan` tells how vectors were searched:
    `exact` over all, `subset` exactly over what the filter left, or `index`, approximately.
    """

    embedder: str | None = None
    semantic: bool = False
    plan: Literal["exact", "subset", "index", "none"] = "none"
    vector_rank: int | None = None
    vector_score: float | None = None
    text_rank: int | None = None
    text_score: float | None = None
    passage: str | None = None


@attrs.frozen(kw_only=True)
class Match:
    """
    A record that answers a search, the better the higher its score, which is at most 1.

    By vector the score is the cosine similarity; by text a relevance between 0 and 1; hybrid fuses both rankings by
    reciprocal rank, 1 being first in both. `duplicates` are keys with exactly the same content, which come only once.
    """

    record: Record
    score: float
    duplicates: tuple[str, ...] = ()
    explanation: Explanation | None = None


class Memory(Adapter, Protocol):
    """
    The port of the memory slot. Namespaces isolate absolutely; an expired record is invisible at once.

    A namespace is bound to the fingerprint of the embedder that wrote to it first; vectors that callers bring
    themselves bind it to their dimensions. Every method may also raise what dispatch raises: InvalidInput before
    anything is stored, AdapterTimeout, AdapterUnavailable.
    """

    @route("POST", "/v1/memory", status=201)
    @abstractmethod
    async def store(
        self,
        key: MemoryKey,
        value: Any,
        *,
        namespace: Namespace = "default",
        metadata: JsonObject = {},  # noqa: B006
        text: Text | None = None,
        ttl_seconds: Ttl | None = None,
        embedding: Vector | None = None,
        source: Origin | None = None,
        session_id: Origin | None = None,
        bead_id: Origin | None = None,
    ) -> Record:
        """
        Remember *value*, any JSON, under *key*; an older value, its text and its vector are gone.

        *text* is what searches find it by: by default the value itself where it is text, else the texts within it.
        Long text is embedded in overlapping pieces, and the best piece counts. The same content under another key is
        kept and reported in `duplicate_of`.

        Raises:
            EmbeddingError: The namespace is bound to another embedder, or the vector has other dimensions or no length.
            InvalidInput: A number that is not finite, or more than 1 MiB of JSON.
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
        prefix: Prefix = "",
        mode: Literal["hybrid", "vector", "text"] = "hybrid",
        min_score: float | None = None,
        explain: bool = False,
    ) -> list[Match]:
        """
        The best matches in one namespace; filter and key *prefix* apply before the ranking is cut; a stable order.

        A filter names members of the metadata: `{"lang": "en"}`, `{"year": {"gt": 2020}}`, with `eq ne lt le gt ge in
        exists`; several members must all hold; `and`, `or` take a list of filters, `not` takes one. Numbers compare
        with numbers and text with text by code point; what is missing or of another kind is neither less nor greater.
        With an *embedding* and no *query*, hybrid is vector. A namespace that holds nothing gives nothing.

        Raises:
            EmbeddingError: The namespace is bound to another embedder, or the vector has other dimensions or no length.
            InvalidInput: Neither query nor embedding, text without a query, or a filter that is none.
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
        self,
        *,
        namespace: Namespace = "default",
        prefix: Prefix = "",
        limit: Limit = 100,
        after: MemoryKey | None = None,
    ) -> Page[str]:
        """The keys of one namespace that begin with *prefix*, in order of code points, a page at a time."""

    @route("GET", "/v1/memory")
    @abstractmethod
    async def list_namespaces(self, *, limit: Limit = 100, after: Namespace | None = None) -> Page[str]:
        """The namespaces that hold at least one record, in order of code points, a page at a time."""


CONTRACT = Contract(slot="memory", version="1.0.0", port=Memory)
