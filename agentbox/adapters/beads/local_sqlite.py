"""Beads in one SQLite file."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import attrs
from msgspec import Meta

from agentbox.adapters._sqlite import Database
from agentbox.adapters._time import micros
from agentbox.adapters.beads import _merge, _outbox, _rules, _work
from agentbox.adapters.beads._facts import Caller
from agentbox.adapters.beads._ids import short_ids
from agentbox.adapters.beads._jsonl import Record
from agentbox.adapters.beads._plan import Plan, exchange
from agentbox.adapters.beads._tables import migrate
from agentbox_contracts.beads import CONTRACT, Bead, Beads, SyncReport
from agentbox_contracts.contract import BaseAdapter, Health, Page, Settings
from agentbox_contracts.errors import AdapterUnavailable, AgentboxError
from agentbox_contracts.outbox import Letter

__all__ = ["Adapter", "SqliteBeads", "SqliteSettings"]

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class SqliteSettings(Settings):
    """`path` is the database file. `busy_timeout_seconds` is how long a write waits for other processes' writes."""

    path: Path = Path("beads.db")
    busy_timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0


class SqliteBeads(BaseAdapter, Beads):
    """Several processes may share the file. Concurrent writes of one process share a transaction."""

    settings_class = SqliteSettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability = "fsync"
    config: SqliteSettings

    def __init__(
        self,
        *,
        slot: str,
        impl: str,
        config: SqliteSettings,
        logger: logging.Logger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        ids: Callable[[], Iterator[str]] = short_ids,
    ) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._clock = clock
        self._ids = ids
        self._db = Database(config.path, busy_timeout_seconds=config.busy_timeout_seconds)
        self.tells = False
        self.ring: Callable[[], None] = lambda: None

    @property
    def location(self) -> str:
        """The database file."""
        return str(self.config.path)

    async def connect(self) -> None:
        """Open the file, creating or upgrading the store."""
        if sqlite3.sqlite_version_info < (3, 35):
            raise AdapterUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
        try:
            self.config.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AdapterUnavailable(f"{self.config.path.parent} cannot be made: {error.strerror}") from error
        await self._db.open(self._prepare)

    async def disconnect(self) -> None:
        """Finish what was begun and close the file."""
        await self._db.close()

    async def health(self) -> Health:
        """Reads the store."""
        try:
            await self._db.read(lambda db: db.execute("SELECT max(version) FROM version").fetchone())
        except AgentboxError as error:
            return Health("degraded", error.message)
        return Health("healthy")

    async def init(self) -> None:
        await self._db.write(self._prepare)

    def _prepare(self, db: sqlite3.Connection) -> None:
        migrate(db)
        _outbox.trim(db, micros(self._clock()))

    async def create_epic(
        self,
        *,
        title: str,
        description: str = "",
        priority: int = 1,
        tags: tuple[str, ...] = (),
        metadata: dict[str, Any] = {},  # noqa: B006 - never mutated
        actor: str | None = None,
        key: str | None = None,
    ) -> Bead:
        fields = {
            "title": title,
            "description": description,
            "priority": priority,
            "tags": tags,
            "metadata": metadata,
            "actor": actor,
        }
        return await self._create(fields, key)

    async def create_child(
        self,
        *,
        parent_id: str,
        title: str,
        description: str = "",
        priority: int = 1,
        tags: tuple[str, ...] = (),
        metadata: dict[str, Any] = {},  # noqa: B006 - never mutated
        actor: str | None = None,
        key: str | None = None,
    ) -> Bead:
        fields = {
            "parent_id": parent_id,
            "title": title,
            "description": description,
            "priority": priority,
            "tags": tags,
            "metadata": metadata,
            "actor": actor,
        }
        return await self._create(fields, key)

    async def _create(self, fields: dict[str, Any], key: str | None) -> Bead:
        _rules.check_metadata(fields["metadata"])
        tell = self._tell()

        def work(db: sqlite3.Connection) -> Bead:
            now = self._clock()

            def act() -> Bead:
                parent = fields.get("parent_id")
                ids = _work.child_ids(db, parent) if parent else self._ids()
                return _work.create(db, ids, now, fields, tell)

            return cast("Bead", _work.once(db, key, _rules.fingerprint("create", fields), now, act))

        return await self._write(work)

    def _tell(self) -> _outbox.Tell | None:
        return _outbox.teller(Caller.now()) if self.tells else None

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As the database writes it; then whoever carries the outbox is told that something may be in it."""
        result = await self._db.write(work)
        if self.tells:
            self.ring()
        return result

    async def add_dependency(self, bead_id: str, *, blocker_id: str) -> Bead:
        tell = self._tell()
        return await self._write(lambda db: _work.depend(db, bead_id, blocker_id, self._clock(), tell))

    async def claim(self, bead_id: str, *, actor: str, lease_seconds: float | None = None) -> Bead:
        tell = self._tell()
        return await self._write(lambda db: _work.claim(db, bead_id, actor, lease_seconds, self._clock(), tell))

    async def claim_ready(
        self,
        *,
        actor: str,
        parent_id: str | None = None,
        lease_seconds: float | None = None,
        key: str | None = None,
    ) -> Bead | None:
        request = _rules.fingerprint(
            "claim_ready", {"actor": actor, "parent_id": parent_id, "lease_seconds": lease_seconds}
        )
        tell = self._tell()

        def work(db: sqlite3.Connection) -> Bead | None:
            now = self._clock()
            act = lambda: _work.claim_ready(db, parent_id, actor, lease_seconds, now, tell)  # noqa: E731
            return _work.once(db, key, request, now, act)

        return await self._write(work)

    async def renew(self, bead_id: str, *, lease_seconds: float, fence: int | None = None) -> Bead:
        tell = self._tell()
        return await self._write(lambda db: _work.renew(db, bead_id, lease_seconds, fence, self._clock(), tell))

    async def release(self, bead_id: str, *, actor: str | None = None, fence: int | None = None) -> Bead:
        tell = self._tell()
        return await self._write(lambda db: _work.release(db, bead_id, actor, fence, self._clock(), tell))

    async def close(
        self,
        bead_id: str,
        *,
        outcome: str = "done",
        reason: str = "",
        actor: str | None = None,
        fence: int | None = None,
    ) -> Bead:
        tell = self._tell()
        return await self._write(
            lambda db: _work.close(db, bead_id, outcome, reason, actor, fence, self._clock(), tell)
        )

    async def get_ready(self, *, parent_id: str | None = None, limit: int = 100) -> list[Bead]:
        def look(db: sqlite3.Connection) -> list[Bead] | None:
            now = self._clock()
            return None if _work.has_expired(db, now) else _work.ready(db, parent_id, limit, now)

        def sweep(db: sqlite3.Connection) -> list[Bead]:
            now = self._clock()
            _work.sweep(db, now)
            return _work.ready(db, parent_id, limit, now)

        found = await self._db.read(look)
        return await self._db.write(sweep) if found is None else found

    async def show(self, bead_id: str) -> Bead:
        return await self._db.read(lambda db: _work.find(db, bead_id))

    async def children(self, bead_id: str, *, limit: int = 100, after: str | None = None) -> Page[Bead]:
        return await self._db.read(lambda db: _work.children(db, bead_id, limit, after))

    async def sync(self, path: str, *, direction: Literal["both", "import", "export"] = "both") -> SyncReport:
        tell = self._tell()

        def merge(records: list[Record]) -> Awaitable[Plan]:
            return self._write(lambda db: _merge.merge(db, records, direction, self._clock(), tell))

        return await exchange(path, direction, merge)

    async def outbox_next(self, *, carrier: str, delivered: Sequence[int] = (), limit: int = 500) -> list[Letter]:
        """As `Outbox` has it. Looking into an empty one writes nothing."""
        if not delivered and not await self._db.read(_outbox.waits):
            return []
        return await self._db.write(lambda db: _outbox.unsent(db, carrier, delivered, limit, micros(self._clock())))

    async def outbox_leave(self, *, carrier: str) -> None:
        """As `Outbox` has it."""
        await self._db.write(lambda db: _outbox.leave(db, carrier))


Adapter = SqliteBeads
