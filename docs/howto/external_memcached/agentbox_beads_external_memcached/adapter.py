"""The beads slot on a store that speaks memcached's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import attrs
import msgspec

from agentbox_contracts.beads import CONTRACT, Bead, Beads, Outcome, SyncReport
from agentbox_contracts.contract import BaseAdapter, Durability, Health, JsonObject, Page, Settings
from agentbox_contracts.errors import AdapterDisabled, AdapterUnavailable, InvalidInput

from . import rules
from .client import Client
from .ids import new_id, new_uid

__all__ = ["Adapter", "ExternalMemcached", "ExternalMemcachedSettings"]

ATTEMPTS = 200
"""Each lost attempt is somebody else's write, so only a store under siege gets this far."""

HEALTH_SECONDS = 2.0

DOCUMENT = msgspec.json.Decoder(dict[str, Bead])


@attrs.frozen(kw_only=True)
class ExternalMemcachedSettings(Settings):
    """What `[beads.external-memcached]` may say."""

    address: Annotated[str, msgspec.Meta(pattern=r"^\S+:\d{1,5}$")] = "127.0.0.1:11211"
    namespace: Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,200}$")] = "agentbox"


class ExternalMemcached(BaseAdapter, Beads):
    """
    All beads of a namespace are one document under one key, changed by compare-and-set.

    Any number of processes may share it; their clocks decide when a lease has run out. Each call carries the whole
    document, also `get_ready`, so it suits hundreds of beads. The server forgets everything when it stops.
    """

    settings_class = ExternalMemcachedSettings
    contract_version = CONTRACT.version
    capabilities = frozenset({"leases"})
    durability: Durability = "memory"
    config: ExternalMemcachedSettings

    _client: Client | None = None

    @property
    def location(self) -> str:
        """Server and key."""
        return f"{self.config.address}/{self._key}"

    @property
    def _key(self) -> str:
        return f"agentbox:beads:{self.config.namespace}"

    async def connect(self) -> None:
        """Make sure that there is a document. Raises AdapterUnavailable."""
        self._client = Client(self.config.address)
        try:
            await self.init()
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Close the connections, after the answers that are on their way."""
        if self._client is not None:
            await self._client.close()

    async def health(self) -> Health:
        """Whether the server answers, and soon: whoever asks for health sets no deadline."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                await self._connected.version()
        except AdapterUnavailable as error:
            return Health("degraded", error.message)
        except TimeoutError:
            return Health("degraded", f"{self.config.address} gave no answer in {HEALTH_SECONDS:g} s")
        return Health("healthy")

    async def init(self) -> None:
        await self._connected.add(self._key, b"{}")

    async def create_epic(
        self,
        *,
        title: str,
        description: str = "",
        priority: int = 1,
        tags: tuple[str, ...] = (),
        metadata: JsonObject = {},  # noqa: B006 - a default in a signature, never mutated
        actor: str | None = None,
        key: str | None = None,
    ) -> Bead:
        _refuse_key(key)
        fields = {"title": title, "description": description, "priority": priority, "tags": tags, "metadata": metadata}
        return await self._change(lambda beads, now: (_new(beads, now, actor, fields),))

    async def create_child(
        self,
        *,
        parent_id: str,
        title: str,
        description: str = "",
        priority: int = 1,
        tags: tuple[str, ...] = (),
        metadata: JsonObject = {},  # noqa: B006
        actor: str | None = None,
        key: str | None = None,
    ) -> Bead:
        _refuse_key(key)
        fields = {"title": title, "description": description, "priority": priority, "tags": tags, "metadata": metadata}
        return await self._change(
            lambda beads, now: rules.add_child(beads, _new(beads, now, actor, fields), parent_id=parent_id)
        )

    async def add_dependency(self, bead_id: str, *, blocker_id: str) -> Bead:
        return await self._change(
            lambda beads, now: rules.add_dependency(beads, bead_id, blocker_id=blocker_id, now=now)
        )

    async def claim(self, bead_id: str, *, actor: str, lease_seconds: float | None = None) -> Bead:
        return await self._change(
            lambda beads, now: rules.claim(beads, bead_id, actor=actor, lease_seconds=lease_seconds, now=now)
        )

    async def claim_ready(
        self,
        *,
        actor: str,
        parent_id: str | None = None,
        lease_seconds: float | None = None,
        key: str | None = None,
    ) -> Bead | None:
        _refuse_key(key)
        changed = await self._changed(
            lambda beads, now: rules.claim_ready(
                beads, actor=actor, parent_id=parent_id, lease_seconds=lease_seconds, now=now
            )
        )
        return changed[0] if changed else None

    async def renew(self, bead_id: str, *, lease_seconds: float, fence: int | None = None) -> Bead:
        return await self._change(
            lambda beads, now: rules.renew(beads, bead_id, lease_seconds=lease_seconds, fence=fence, now=now)
        )

    async def release(self, bead_id: str, *, actor: str | None = None, fence: int | None = None) -> Bead:
        return await self._change(lambda beads, now: rules.release(beads, bead_id, actor=actor, fence=fence, now=now))

    async def close(
        self,
        bead_id: str,
        *,
        outcome: Outcome = "done",
        reason: str = "",
        actor: str | None = None,
        fence: int | None = None,
    ) -> Bead:
        return await self._change(
            lambda beads, now: rules.close(
                beads, bead_id, outcome=outcome, reason=reason, actor=actor, fence=fence, now=now
            )
        )

    async def get_ready(self, *, parent_id: str | None = None, limit: int = 100) -> list[Bead]:
        beads, _ = await self._read()
        return rules.ready(beads, parent_id=parent_id, now=datetime.now(UTC))[:limit]

    async def show(self, bead_id: str) -> Bead:
        beads, _ = await self._read()
        return rules.show(beads, bead_id)

    async def children(self, bead_id: str, *, limit: int = 100, after: str | None = None) -> Page[Bead]:
        beads, _ = await self._read()
        return rules.children(beads, bead_id, limit=limit, after=after)

    async def sync(self, path: str, *, direction: Literal["both", "import", "export"] = "both") -> SyncReport:
        raise AdapterDisabled("external-memcached offers no sync")

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise AdapterUnavailable(f"{self.config.address}: the adapter is not connected")
        return self._client

    async def _read(self) -> tuple[rules.Beads, int | None]:
        """The document and its version; an empty one where a server that was restarted has none."""
        found = await self._connected.gets(self._key)
        if found is None:
            return {}, None
        document, version = found
        try:
            return DOCUMENT.decode(document), version
        except ValueError as error:
            raise AdapterUnavailable(f"{self.location} is not a document of beads: {error}") from error

    async def _change(self, rule: Callable[[rules.Beads, datetime], rules.Change]) -> Bead:
        return (await self._changed(rule))[0]

    async def _changed(self, rule: Callable[[rules.Beads, datetime], rules.Change]) -> rules.Change:
        """
        Apply *rule* to the document as it stands when the change is written.

        The server decides who was first, here and in other processes; the lock only saves attempts.
        """
        async with self._connected.writing:
            for _ in range(ATTEMPTS):
                beads, version = await self._read()
                change = rule(beads, datetime.now(UTC))
                after = {**beads, **{bead.id: bead for bead in change}}
                if after == beads or await self._write(after, version):
                    return change
        raise AdapterUnavailable(f"{self.location} was changed by others {ATTEMPTS} times in a row")

    async def _write(self, beads: rules.Beads, version: int | None) -> bool:
        document = msgspec.json.encode(beads)
        if version is None:
            return await self._connected.add(self._key, document)
        return await self._connected.cas(self._key, document, version)


def _new(beads: rules.Beads, now: datetime, actor: str | None, fields: dict[str, Any]) -> Bead:
    if "agentbox" in fields["metadata"]:
        raise InvalidInput("metadata: the name agentbox is reserved")
    return Bead(
        id=new_id(beads), uid=new_uid(), kind="epic", created_by=actor, created_at=now, updated_at=now, **fields
    )


def _refuse_key(key: str | None) -> None:
    if key is not None:
        raise AdapterDisabled("external-memcached remembers no keys")


Adapter = ExternalMemcached
