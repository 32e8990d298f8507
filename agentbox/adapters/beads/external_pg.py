"""Beads in a Postgres database that others run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import attrs
from msgspec import Meta

from agentbox.adapters._postgres import Postgres, PostgresSettings
from agentbox.adapters.beads import _pg_merge, _pg_outbox, _pg_work, _rules
from agentbox.adapters.beads._facts import Caller
from agentbox.adapters.beads._ids import short_ids
from agentbox.adapters.beads._jsonl import Record
from agentbox.adapters.beads._pg_tables import MIGRATIONS, SESSION
from agentbox.adapters.beads._plan import Plan, exchange
from agentbox_contracts.beads import CONTRACT, Bead, Beads, SyncReport
from agentbox_contracts.contract import BaseAdapter, Durability, Health, Page
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.outbox import Letter

if TYPE_CHECKING:
    from agentbox.adapters._postgres import Connection

__all__ = ["Adapter", "PostgresBeads", "PostgresBeadsSettings"]

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class PostgresBeadsSettings(PostgresSettings):
    """As `PostgresSettings`, in a schema that only beads use."""

    schema: Annotated[str, Meta(pattern="^(?!pg_)[a-z_][a-z0-9_]*$", max_length=63)] = "agentbox_beads"


class PostgresBeads(BaseAdapter, Beads):
    """
    Any number of processes on any number of machines share the schema. Time is the server's.

    A write whose connection is lost is tried again only if it has a key. Without one the caller gets
    AdapterUnavailable, and a look at the bead tells whether it happened.
    """

    settings_class = PostgresBeadsSettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability: Durability = "fsync"
    config: PostgresBeadsSettings

    def __init__(
        self,
        *,
        slot: str,
        impl: str,
        config: PostgresBeadsSettings,
        logger: logging.Logger,
        ids: Callable[[], Iterator[str]] = short_ids,
    ) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._ids = ids
        self._db = Postgres(config, migrations=MIGRATIONS, logger=logger, session=SESSION)
        self.tells = False
        self.ring: Callable[[], None] = lambda: None

    @property
    def location(self) -> str:
        """Host, port, database and schema, without user and password."""
        return self._db.where

    async def connect(self) -> None:
        """Connect, creating or upgrading the schema."""
        await self._db.open()
        if not self._db.is_durable:
            self.durability = "os"
            self.logger.warning("postgres runs without fsync", extra={"slot": self.slot, "impl": self.impl})

    async def disconnect(self) -> None:
        """Let what was begun end and close every connection."""
        await self._db.close()

    async def health(self) -> Health:
        """Healthy when the schema can be read."""
        try:
            await self._db.read(lambda db: db.fetchval("SELECT max(version) FROM version"))
        except AgentboxError as error:
            return Health("degraded", error.message)
        return Health("healthy")

    async def init(self) -> None:
        await self._db.migrate()

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
        _rules.check_metadata(metadata)
        caller = self._caller()
        act: _Act = lambda db: _pg_work.create_epic(db, self._ids(), fields, caller)  # noqa: E731
        made = await self._keyed("create", fields, key, act)
        assert made is not None
        return made

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
        _rules.check_metadata(metadata)
        caller = self._caller()
        act: _Act = lambda db: _pg_work.create_child(db, parent_id, fields, caller)  # noqa: E731
        while True:
            try:
                made = await self._keyed("create", fields, key, act)
            except _pg_work.NumberTaken:
                await self._db.write(lambda db: _pg_work.skip_number(db, parent_id))
            else:
                assert made is not None
                return made

    async def _keyed(self, method: str, arguments: dict[str, Any], key: str | None, act: _Act) -> Bead | None:
        """Do *act*, once for each *key*; with one it can be done again when the connection is lost."""
        if key is None:
            return await self._write(act)
        request = _rules.fingerprint(method, arguments)
        return await self._write(lambda db: _pg_work.once(db, key, request, lambda: act(db)), again=True)

    def _caller(self) -> Caller | None:
        return Caller.now() if self.tells else None

    async def _write(self, work: Callable[[Connection], Awaitable[T]], *, again: bool = False) -> T:
        """As the database writes it; then whoever carries the outbox is told that something may be in it."""
        result = await self._db.write(work, again=again)
        if self.tells:
            self.ring()
        return result

    async def add_dependency(self, bead_id: str, *, blocker_id: str) -> Bead:
        caller = self._caller()
        return await self._write(lambda db: _pg_work.depend(db, bead_id, blocker_id, caller))

    async def claim(self, bead_id: str, *, actor: str, lease_seconds: float | None = None) -> Bead:
        caller = self._caller()
        return await self._write(lambda db: _pg_work.claim(db, bead_id, actor, lease_seconds, caller))

    async def claim_ready(
        self,
        *,
        actor: str,
        parent_id: str | None = None,
        lease_seconds: float | None = None,
        key: str | None = None,
    ) -> Bead | None:
        arguments = {"actor": actor, "parent_id": parent_id, "lease_seconds": lease_seconds}
        caller = self._caller()
        act: _Act = lambda db: _pg_work.claim_ready(db, parent_id, actor, lease_seconds, caller)  # noqa: E731
        return await self._keyed("claim_ready", arguments, key, act)

    async def renew(self, bead_id: str, *, lease_seconds: float, fence: int | None = None) -> Bead:
        caller = self._caller()
        return await self._write(lambda db: _pg_work.renew(db, bead_id, lease_seconds, fence, caller))

    async def release(self, bead_id: str, *, actor: str | None = None, fence: int | None = None) -> Bead:
        caller = self._caller()
        return await self._write(lambda db: _pg_work.release(db, bead_id, actor, fence, caller))

    async def close(
        self,
        bead_id: str,
        *,
        outcome: str = "done",
        reason: str = "",
        actor: str | None = None,
        fence: int | None = None,
    ) -> Bead:
        caller = self._caller()
        return await self._write(lambda db: _pg_work.close(db, bead_id, outcome, reason, actor, fence, caller))

    async def get_ready(self, *, parent_id: str | None = None, limit: int = 100) -> list[Bead]:
        return await self._db.read(lambda db: _pg_work.ready(db, parent_id, limit))

    async def show(self, bead_id: str) -> Bead:
        return await self._db.read(lambda db: _pg_work.find(db, bead_id))

    async def children(self, bead_id: str, *, limit: int = 100, after: str | None = None) -> Page[Bead]:
        return await self._db.read(lambda db: _pg_work.children(db, bead_id, limit, after))

    async def sync(self, path: str, *, direction: Literal["both", "import", "export"] = "both") -> SyncReport:
        caller = self._caller()

        def merge(records: list[Record]) -> Awaitable[Plan]:
            return self._write(lambda db: _pg_merge.merge(db, records, direction, caller))

        return await exchange(path, direction, merge)

    async def outbox_next(self, *, carrier: str, delivered: Sequence[int] = (), limit: int = 500) -> list[Letter]:
        """As `Outbox` has it. Looking into an empty one writes nothing."""
        return await self._db.write(lambda db: _pg_outbox.unsent(db, carrier, delivered, limit), again=True)

    async def outbox_leave(self, *, carrier: str) -> None:
        """As `Outbox` has it."""
        await self._db.write(lambda db: _pg_outbox.leave(db, carrier), again=True)


if TYPE_CHECKING:
    _Act = Callable[[Connection], Awaitable[Bead | None]]

Adapter = PostgresBeads
