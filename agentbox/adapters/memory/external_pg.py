"""Memory in a Postgres database that others run, with pgvector."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
import msgspec
from msgspec import Meta

from agentbox.adapters._postgres import Postgres, PostgresSettings
from agentbox.adapters.memory import _pg_records, _pg_reembed, _pg_stats
from agentbox.adapters.memory._canary import Canary
from agentbox.adapters.memory._embedder import Embedder, create_embedder, vector_fingerprint
from agentbox.adapters.memory._embedder_settings import EmbedderSettings
from agentbox.adapters.memory._filters import parse
from agentbox.adapters.memory._pg_matches import Request, matches
from agentbox.adapters.memory._pg_records import Draft, missing
from agentbox.adapters.memory._pg_tables import MIGRATIONS, SESSION
from agentbox.adapters.memory._pg_vectors import build_index, installed, unindexed, written
from agentbox.adapters.memory._reembed import Progress
from agentbox.adapters.memory._stats import NamespaceStats
from agentbox.adapters.memory._text import content_hash, pieces, text_of
from agentbox.adapters.memory._vectors import unit
from agentbox_contracts.contract import BaseAdapter, Durability, Health, Page
from agentbox_contracts.errors import AgentboxError, EmbeddingError, InvalidInput
from agentbox_contracts.memory import CONTRACT, Match, Memory, Record

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["Adapter", "PostgresMemory", "PostgresMemorySettings"]

_ROOM = 16_000


@attrs.frozen(kw_only=True)
class PostgresMemorySettings(PostgresSettings, EmbedderSettings):
    """
    As `PostgresSettings`, in a schema that only memory uses, with the settings of embedders.

    Every `tend_seconds` what has expired is removed, and a namespace that has grown gets an index.
    """

    schema: Annotated[str, Meta(pattern="^(?!pg_)[a-z_][a-z0-9_]*$", max_length=63)] = "agentbox_memory"
    tend_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0


class PostgresMemory(BaseAdapter, Memory):
    """
    Any number of processes on any number of machines share the schema. Time is the server's.

    A write whose connection is lost is done once more: it is the same record then, and what is gone is gone.
    """

    settings_class = PostgresMemorySettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability: Durability = "fsync"
    config: PostgresMemorySettings

    def __init__(self, *, slot: str, impl: str, config: PostgresMemorySettings, logger: logging.Logger) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._db = Postgres(config, migrations=MIGRATIONS, logger=logger, session=SESSION, prepare=self._find_vector)
        self._embedder: Embedder = create_embedder(config.embedder, config)
        self._canary = Canary(self._embedder)
        self._vector_schema = "public"
        self._tending: asyncio.Task[None] | None = None

    @property
    def location(self) -> str:
        """Host, port, database and schema, without user and password."""
        return self._db.where

    async def connect(self) -> None:
        """Connect, creating or upgrading the schema. Without pgvector AdapterUnavailable says how to get it."""
        await self._embedder.open()
        await self._db.open()
        if not self._db.is_durable:
            self.durability = "os"
            self.logger.warning("postgres runs without fsync", extra={"slot": self.slot, "impl": self.impl})
        self._tending = asyncio.create_task(self._tend())

    async def disconnect(self) -> None:
        """Let what was begun end and close every connection."""
        tending, self._tending = self._tending, None
        if tending is not None:
            tending.cancel()
            await asyncio.wait([tending])
        await self._db.close()
        await self._embedder.close()

    async def health(self) -> Health:
        """Reads the schema, tries the embedder, and says whether searches compare meanings."""
        try:
            await self._db.read(lambda db: db.fetchval("SELECT max(version) FROM version"))
        except AgentboxError as error:
            return Health("degraded", error.message)
        examined = await self._canary.check()
        return Health("healthy" if examined.ok else "degraded", examined.sentence)

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
        text = text_of(value) if text is None else text
        draft = Draft(
            key=key,
            namespace=namespace,
            value=msgspec.json.encode(value),
            metadata=msgspec.json.encode(metadata),
            text=text,
            hash=content_hash(value, text, embedding),
            vectors=await self._embedded(text) if embedding is None else [_brought(embedding)],
            dimensions=self._embedder.dimensions if embedding is None else len(embedding),
            fingerprint=self._embedder.fingerprint if embedding is None else vector_fingerprint(len(embedding)),
            source=source,
            session_id=session_id,
            bead_id=bead_id,
            ttl_seconds=_reachable(ttl_seconds),
        )
        vector = f"{self._vector_schema}.vector"
        return await self._db.write(lambda db: _pg_records.store(db, draft, vector), again=True)

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
        if query is None and (embedding is None or mode == "text"):
            raise InvalidInput("text: needs a query" if embedding else "search: needs a query or an embedding")
        request = Request(
            namespace=namespace,
            query=query,
            filter=parse(filter),
            vector=await self._query_vector(query, embedding, mode),
            dimensions=self._embedder.dimensions if embedding is None else len(embedding),
            fingerprint=self._embedder.fingerprint if embedding is None else vector_fingerprint(len(embedding)),
            embedder=self._embedder.name,
            semantic=self._embedder.semantic and embedding is None,
            limit=limit,
            prefix=prefix,
            mode="vector" if query is None else mode,
            min_score=min_score,
            explain=explain,
        )
        return await self._db.read(lambda db: matches(db, self._vector_schema, request))

    async def retrieve(self, key: str, *, namespace: str = "default") -> Record:
        return await self._db.read(lambda db: _pg_records.retrieve(db, namespace, key))

    async def delete(self, key: str, *, namespace: str = "default") -> None:
        """Once more after its connection was lost, that there is no such record means that it has happened."""
        attempts = 0

        async def work(db: Connection) -> None:
            nonlocal attempts
            attempts += 1
            if not await _pg_records.delete(db, namespace, key) and attempts == 1:
                raise missing(namespace, key)

        await self._db.write(work, again=True)

    async def list_keys(
        self, *, namespace: str = "default", prefix: str = "", limit: int = 100, after: str | None = None
    ) -> Page[str]:
        return await self._db.read(lambda db: _pg_records.keys(db, namespace, prefix, limit, after))

    async def list_namespaces(self, *, limit: int = 100, after: str | None = None) -> Page[str]:
        return await self._db.read(lambda db: _pg_records.namespaces(db, limit, after))

    async def stats(self) -> list[NamespaceStats]:
        """What each namespace holds, in numbers. Reads the whole store."""
        return await self._db.read(_pg_stats.stats)

    async def reembed(self, namespace: str, to: str) -> AsyncIterator[Progress]:
        """
        Bind *namespace* to the embedder called *to*, embedding all its texts anew; tells how far it is, now and then.

        Searches go on with the old vectors until the new ones take over in one step. Begun again after it was killed,
        also on another machine, it goes on where it was.

        Raises:
            NotFound: There is no such namespace.
            EmbeddingError: Callers brought its vectors; no embedder can make them again.
            UnknownAdapter: No embedder is called so.
        """
        embedder = create_embedder(to, self.config)
        await embedder.open()
        try:
            async with aclosing(_pg_reembed.reembed(self._db, self._vector_schema, namespace, embedder)) as steps:
                async for progress in steps:
                    yield progress
        finally:
            await embedder.close()

    async def tend(self) -> None:
        """Remove what has expired or was left behind, and give an index to each namespace that has grown."""
        while await self._db.write(_pg_records.sweep):
            pass
        for namespace in await self._db.read(_pg_reembed.left_behind):
            await _pg_reembed.tidy(self._db, namespace)
        for index in await self._db.read(unindexed):
            await self._db.write(partial(build_index, schema=self._vector_schema, index=index))

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(self.config.tend_seconds)
            try:
                await self.tend()
            except AgentboxError as error:
                self.logger.warning(
                    "memory could not be tended: %s", error.message, extra={"slot": self.slot, "reason": error.message}
                )

    async def _find_vector(self, db: Connection) -> None:
        self._vector_schema = await installed(db, self.location)

    async def _embedded(self, text: str) -> list[str | None]:
        """The vectors of a text's pieces; none for a piece that the embedder has none for."""
        parts = [piece.text for piece in pieces(text)]
        if not parts:
            return []
        return [written(unit(vector)) for vector in await self._embedder.embed(parts, kind="document")]

    async def _query_vector(self, query: str | None, embedding: tuple[float, ...] | None, mode: str) -> str | None:
        if embedding is not None:
            return _brought(embedding)
        if query is None or mode == "text":
            return None
        return written(unit((await self._embedder.embed([query], kind="query"))[0]))


def _brought(embedding: tuple[float, ...]) -> str:
    if len(embedding) > _ROOM:
        raise InvalidInput(f"Postgres holds vectors of at most {_ROOM:,} dimensions, this one has {len(embedding):,}")
    vector = written(unit(embedding))
    if vector is None:
        raise EmbeddingError("the vector has no length: all its numbers are zero")
    return vector


def _reachable(seconds: float | None) -> float | None:
    """None when no calendar reaches that far."""
    if seconds is None or seconds >= (datetime.max.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() - 86_400:
        return None
    return seconds


Adapter = PostgresMemory
