"""Memory in one SQLite file, with an index of its vectors beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import attrs
import msgspec
from msgspec import Meta

from agentbox.adapters._sqlite import Database
from agentbox.adapters._time import micros
from agentbox.adapters.memory import _records
from agentbox.adapters.memory._canary import Canary
from agentbox.adapters.memory._embedder import Embedder, create_embedder, vector_fingerprint
from agentbox.adapters.memory._embedder_settings import EmbedderSettings
from agentbox.adapters.memory._filters import parse
from agentbox.adapters.memory._gathered import Gathered
from agentbox.adapters.memory._records import Draft
from agentbox.adapters.memory._reembed import Progress, reembed, vectors_of
from agentbox.adapters.memory._search import Request, Searcher
from agentbox.adapters.memory._stats import NamespaceStats, stats
from agentbox.adapters.memory._subsets import Sieve
from agentbox.adapters.memory._tables import migrate
from agentbox.adapters.memory._text import content_hash, text_of
from agentbox.adapters.memory._upkeep import Upkeep
from agentbox.adapters.memory._vectors import unit
from agentbox_contracts.contract import BaseAdapter, Health, Page
from agentbox_contracts.errors import AdapterUnavailable, AgentboxError, EmbeddingError, InvalidInput, NotFound
from agentbox_contracts.memory import CONTRACT, Match, Memory, Record
from agentbox_contracts.wire import encode

__all__ = ["Adapter", "EmbeddedMemory", "EmbeddedSettings"]

T = TypeVar("T")

PAGES_KIB = 65_536
"""So much of the file SQLite keeps for searches at most: what they read lies anywhere in it."""


@attrs.frozen(kw_only=True)
class EmbeddedSettings(EmbedderSettings):
    """
    `path` is the database file; the index lies beside it. `embedder` turns text into vectors: `lexical`, `minilm`,
    `openai`, or what an entry point in the group `agentbox.embedders` provides.

    `busy_timeout_seconds` is how long a write waits for other processes' writes. What has expired is invisible at once
    and swept every `sweep_seconds`. Above `exact_upto` vectors in a namespace an index is built, by `index_threads`
    threads, 0 for half of the cores.
    """

    path: Path = Path("memory.db")
    busy_timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    sweep_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    exact_upto: Annotated[int, Meta(ge=100, le=10_000_000)] = 10_000
    index_threads: Annotated[int, Meta(ge=0, le=256)] = 0


class EmbeddedMemory(BaseAdapter, Memory):
    """Several processes may share the file. Concurrent writes of one process share a transaction."""

    settings_class = EmbeddedSettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability = "fsync"
    config: EmbeddedSettings

    def __init__(
        self,
        *,
        slot: str,
        impl: str,
        config: EmbeddedSettings,
        logger: logging.Logger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._clock = clock
        self._db = Database(config.path, busy_timeout_seconds=config.busy_timeout_seconds)
        self._opening = asyncio.Lock()
        self._is_connected = self._is_open = False
        self._opened_file: int | None = None
        self._embedder: Embedder = create_embedder(config.embedder, config)
        self._canary = Canary(self._embedder)
        # Of two files of one name with different suffixes each has its own.
        name = config.path.stem if config.path.suffix == ".db" else config.path.name
        self._index = config.path.with_name(f"{name}.index")
        self._searcher = Searcher(self._index, config.exact_upto)
        self._searches: Gathered[Request, list[Match]] = Gathered(self._answer)
        self._written: Counter[str] = Counter()
        self._upkeep = Upkeep(
            self._db,
            self._index,
            sweep_seconds=config.sweep_seconds,
            index_threads=config.index_threads or max(1, (os.cpu_count() or 1) // 2),
            exact_upto=config.exact_upto,
            now=self._now,
            logger=logger,
        )

    @property
    def location(self) -> str:
        """The database file."""
        return str(self.config.path)

    async def connect(self) -> None:
        """Open the file where there is one; the first write creates it."""
        if sqlite3.sqlite_version_info < (3, 35):
            raise AdapterUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
        try:
            self.config.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AdapterUnavailable(f"{self.config.path.parent} cannot be made: {error.strerror}") from error
        await self._embedder.open()
        self._is_connected = True
        await self._opened()

    async def disconnect(self) -> None:
        """Finish what was begun and close the file."""
        self._is_connected = self._is_open = False
        await self._upkeep.stop()
        await self._db.close()
        await self._embedder.close()

    async def health(self) -> Health:
        """Reads the store, tries the embedder, and says whether searches compare meanings."""
        try:
            await self._read(lambda db: db.execute("SELECT max(version) FROM version").fetchone(), None)
        except AgentboxError as error:
            return Health("degraded", error.message)
        if self._is_open and self._file() != self._opened_file:
            reason = f"{self.config.path} was removed or replaced while it was open, and what is stored is lost with it"
            return Health("degraded", f"{reason}; open it anew")
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
        vectors = [_brought(embedding)] if embedding is not None else await vectors_of(self._embedder, text)
        draft = Draft(
            key=key,
            namespace=namespace,
            value=msgspec.json.encode(value),
            metadata=metadata,
            text=text,
            hash=content_hash(value, text, embedding),
            vectors=vectors,
            fingerprint=self._embedder.fingerprint if embedding is None else vector_fingerprint(len(embedding)),
            source=source,
            session_id=session_id,
            bead_id=bead_id,
        )

        def work(db: sqlite3.Connection) -> Record:
            now = self._clock()
            expires_at = None if ttl_seconds is None else _later(now, ttl_seconds)
            return _records.store(db, draft, micros(now), expires_at)

        await self._opened(create=True)
        stored = await self._db.write(work)
        self._count(namespace, len(vectors))
        return stored

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
        sieve = Sieve(parse(filter), prefix)
        vector = _brought(embedding) if embedding is not None else None
        if not await self._opened():
            return []
        if vector is None and mode != "text":
            vector = unit((await self._embedder.embed([query or ""], kind="query"))[0])
        request = Request(
            namespace=namespace,
            query=query,
            vector=vector,
            fingerprint=self._embedder.fingerprint if embedding is None else vector_fingerprint(len(embedding)),
            embedder=self._embedder.name,
            semantic=self._embedder.semantic and embedding is None,
            limit=limit,
            sieve=sieve,
            sieve_name=encode([filter, prefix]),
            mode="vector" if query is None else mode,
            min_score=min_score,
            explain=explain,
        )
        return await self._searches.ask(request)

    async def retrieve(self, key: str, *, namespace: str = "default") -> Record:
        missing = _records.missing(namespace, key)
        return await self._read(lambda db: _records.retrieve(db, namespace, key, self._now()), missing)

    async def delete(self, key: str, *, namespace: str = "default") -> None:
        if not await self._opened():
            raise _records.missing(namespace, key)
        await self._db.write(lambda db: _records.delete(db, namespace, key, self._now()))

    async def list_keys(
        self, *, namespace: str = "default", prefix: str = "", limit: int = 100, after: str | None = None
    ) -> Page[str]:
        nothing: Page[str] = Page(items=[])
        return await self._read(lambda db: _records.keys(db, namespace, prefix, limit, after, self._now()), nothing)

    async def list_namespaces(self, *, limit: int = 100, after: str | None = None) -> Page[str]:
        nothing: Page[str] = Page(items=[])
        return await self._read(lambda db: _records.namespaces(db, limit, after, self._now()), nothing)

    async def stats(self) -> list[NamespaceStats]:
        """What each namespace holds, in numbers. Reads the whole store."""
        return await self._read(lambda db: stats(db, self._now()), [])

    async def reembed(self, namespace: str, to: str) -> AsyncIterator[Progress]:
        """
        Bind *namespace* to the embedder called *to*, embedding all its texts anew; tells how far it is, now and then.

        Searches go on with the old vectors until the new ones take over in one step. Begun again after it was killed,
        it goes on where it was.

        Raises:
            NotFound: There is no such namespace.
            EmbeddingError: Callers brought its vectors; no embedder can make them again.
            UnknownAdapter: No embedder is called so.
        """
        if not await self._opened():
            raise NotFound(f"{namespace}: no such namespace holds vectors", resource="memory", id=namespace)
        embedder = create_embedder(to, self.config)
        await embedder.open()
        try:
            async with aclosing(reembed(self._db, namespace, embedder)) as steps:
                async for progress in steps:
                    yield progress
        finally:
            await embedder.close()

    async def _answer(self, requests: Sequence[Request]) -> Sequence[list[Match] | Exception]:
        answers = await self._db.read(lambda db: self._searcher.search(db, requests, self._now()))
        for namespace in {request.namespace for request in requests}:
            if self._searcher.due(namespace):
                self._upkeep.build_soon(namespace)
        return answers

    def _count(self, namespace: str, vectors: int) -> None:
        """Have the index looked after now and then, also when nobody searches."""
        self._written[namespace] += vectors
        if self._written[namespace] >= self.config.exact_upto // 4:
            del self._written[namespace]
            self._upkeep.build_soon(namespace)

    def _now(self) -> int:
        return micros(self._clock())

    async def _opened(self, *, create: bool = False) -> bool:
        """Whether the file is open; it is opened when it is there, and made when that is asked for."""
        if not self._is_connected:
            raise AdapterUnavailable(f"{self.config.path.name} is not open")
        if self._is_open or not (create or self.config.path.exists()):
            return self._is_open
        async with self._opening:
            if not self._is_open:
                await self._db.open(migrate)
                await self._db.read(lambda db: db.execute(f"PRAGMA cache_size=-{PAGES_KIB}").close())
                self._opened_file = self._file()
                self._upkeep.start()
                self._is_open = True
        return True

    def _file(self) -> int | None:
        """What tells the database file from another of its name; None when it is not there."""
        try:
            return self.config.path.stat().st_ino
        except OSError:
            return None

    async def _read(self, work: Callable[[sqlite3.Connection], T], nothing: T | AgentboxError) -> T:
        """What *work* finds; *nothing*, returned or raised, as long as there is no file."""
        if await self._opened():
            return await self._db.read(work)
        if isinstance(nothing, AgentboxError):
            raise nothing
        return nothing


def _brought(embedding: tuple[float, ...]) -> Any:
    vector = unit(embedding)
    if vector is None:
        raise EmbeddingError("the vector has no length: all its numbers are zero")
    return vector


def _later(now: datetime, seconds: float) -> int | None:
    """The moment that many seconds after *now*; None when no calendar reaches that far."""
    try:
        return micros(now + timedelta(seconds=seconds))
    except OverflowError:
        return None


Adapter = EmbeddedMemory
