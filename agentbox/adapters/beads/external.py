"""Beads of a host."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from agentbox.adapters._external import ExternalAdapter
from agentbox.adapters.beads import _rules
from agentbox.adapters.beads._jsonl import SyncFile
from agentbox_contracts.beads import CONTRACT, Bead, Beads, Outcome, SyncReport
from agentbox_contracts.contract import Page
from agentbox_contracts.errors import InvalidInput

__all__ = ["Adapter", "ExternalBeads"]


class Synced(msgspec.Struct):
    """What the host answers to a file: the report, and the file as it should be afterwards."""

    report: SyncReport
    file: bytes


class ExternalBeads(ExternalAdapter, Beads):
    """
    Every call goes to the host.

    Reads, and writes that change nothing when they come twice, are repeated when the host was out of reach; what
    creates or chooses is given a key first, so that it too can be repeated. A renewal or a release without a fence is
    not: the bead may have another holder by then.
    """

    contract = CONTRACT
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities

    async def init(self) -> None:
        await self._host.call("init", safe=True)

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
        fields = {"title": title, "description": description, "priority": priority, "tags": tags, "metadata": metadata}
        return await self._create("create_epic", {**fields, "actor": actor}, key)

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
        fields = {"title": title, "description": description, "priority": priority, "tags": tags, "metadata": metadata}
        return await self._create("create_child", {"parent_id": parent_id, **fields, "actor": actor}, key)

    async def _create(self, name: str, fields: dict[str, Any], key: str | None) -> Bead:
        key = self.keyed(key)
        return cast("Bead", await self._host.call(name, safe=key is not None, **fields, key=key))

    async def add_dependency(self, bead_id: str, *, blocker_id: str) -> Bead:
        return cast("Bead", await self._host.call("add_dependency", safe=True, bead_id=bead_id, blocker_id=blocker_id))

    async def claim(self, bead_id: str, *, actor: str, lease_seconds: float | None = None) -> Bead:
        call = self._host.call("claim", safe=True, bead_id=bead_id, actor=actor, lease_seconds=lease_seconds)
        return cast("Bead", await call)

    async def claim_ready(
        self,
        *,
        actor: str,
        parent_id: str | None = None,
        lease_seconds: float | None = None,
        key: str | None = None,
    ) -> Bead | None:
        key = self.keyed(key)
        fields = {"actor": actor, "parent_id": parent_id, "lease_seconds": lease_seconds, "key": key}
        return cast("Bead | None", await self._host.call("claim_ready", safe=key is not None, **fields))

    async def renew(self, bead_id: str, *, lease_seconds: float, fence: int | None = None) -> Bead:
        fields = {"lease_seconds": lease_seconds, "fence": fence}
        return cast("Bead", await self._host.call("renew", safe=fence is not None, bead_id=bead_id, **fields))

    async def release(self, bead_id: str, *, actor: str | None = None, fence: int | None = None) -> Bead:
        fields = {"actor": actor, "fence": fence}
        return cast("Bead", await self._host.call("release", safe=fence is not None, bead_id=bead_id, **fields))

    async def close(
        self,
        bead_id: str,
        *,
        outcome: Outcome = "done",
        reason: str = "",
        actor: str | None = None,
        fence: int | None = None,
    ) -> Bead:
        fields = {"outcome": outcome, "reason": reason, "actor": actor, "fence": fence}
        return cast("Bead", await self._host.call("close", safe=True, bead_id=bead_id, **fields))

    async def get_ready(self, *, parent_id: str | None = None, limit: int = 100) -> list[Bead]:
        return cast("list[Bead]", await self._host.call("get_ready", safe=True, parent_id=parent_id, limit=limit))

    async def show(self, bead_id: str) -> Bead:
        # The address of such a bead is that of `get_ready`.
        if bead_id == "ready":
            raise _rules.no_bead(bead_id)
        return cast("Bead", await self._host.call("show", safe=True, bead_id=bead_id))

    async def children(self, bead_id: str, *, limit: int = 100, after: str | None = None) -> Page[Bead]:
        call = self._host.call("children", safe=True, bead_id=bead_id, limit=limit, after=after)
        return cast("Page[Bead]", await call)

    async def sync(self, path: str, *, direction: Literal["both", "import", "export"] = "both") -> SyncReport:
        """The file is the caller's: it travels to the host and comes back."""
        self.needs("sync")
        file = SyncFile(Path(path))
        async with file.locked():
            content = await asyncio.to_thread(file.content, required=direction == "import")
            headers = {"Content-Type": "application/jsonl", "Agentbox-File": "none" if content is None else "sent"}
            try:
                answer = await self._host.post(
                    "/v1/beads/sync", content or b"", headers=headers, params={"direction": direction}
                )
            except InvalidInput as error:
                raise InvalidInput(re.sub("^file(?=:)", lambda _: path, error.message)) from error
            synced: Synced = self._host.read(answer, Synced)
            if direction != "import":
                await asyncio.to_thread(file.replace, synced.file)
        return synced.report


Adapter = ExternalBeads
