"""Beads: work receipts that say who works on what, with atomic claims."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Instant, JsonObject, Key, Page, route

__all__ = ["CONTRACT", "Bead", "Beads", "SyncConflict", "SyncReport"]

Status = Literal["open", "claimed", "closed"]
Outcome = Literal["done", "failed", "cancelled", "needs_human"]

BeadId = Annotated[str, Meta(min_length=1, max_length=120)]
Actor = Annotated[str, Meta(min_length=1, max_length=200)]
Title = Annotated[str, Meta(min_length=1, max_length=500)]
Text = Annotated[str, Meta(max_length=65_536)]
Tag = Annotated[str, Meta(min_length=1, max_length=100)]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=100)]
Priority = Annotated[int, Meta(ge=0, le=9)]
Lease = Annotated[float, Meta(gt=0, le=31_536_000)]
Fence = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]


@attrs.frozen(kw_only=True)
class Bead:
    """
    One piece of work, as it stood when it was read.

    `id` is short and speakable, `bd-` and four or more of a-z and 0-9, and says where a child belongs (`bd-7k2f.1`);
    `uid`, a UUID of version 7, is the same for ever and in every store. `priority` 0 is the most urgent. `fence` rises
    each time the holder changes. `open_blockers` counts those of `depends_on` that are not closed as done,
    `open_children` the children that are not closed.
    """

    id: str
    uid: str
    kind: Literal["epic", "task"]
    title: str
    description: str = ""
    status: Status = "open"
    priority: int = 1
    parent_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = attrs.field(factory=dict)
    depends_on: tuple[str, ...] = ()
    open_blockers: int = 0
    open_children: int = 0
    holder: str | None = None
    fence: int = 0
    claimed_at: Instant | None = None
    lease_expires_at: Instant | None = None
    outcome: Outcome | None = None
    reason: str = ""
    created_by: str | None = None
    created_at: Instant
    updated_at: Instant
    closed_by: str | None = None
    closed_at: Instant | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether a bead it depends on is not done yet."""
        return self.open_blockers > 0


@attrs.frozen(kw_only=True)
class SyncConflict:
    """One record that `sync` left alone, and why."""

    id: str
    reason: str


@attrs.frozen(kw_only=True)
class SyncReport:
    """What `sync` did: counts into the store (`created`, `updated`, `deleted`) and into the file (`exported`)."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    exported: int = 0
    conflicts: tuple[SyncConflict, ...] = ()


class Beads(Adapter, Protocol):
    """
    The port of the beads slot.

    Every method may also raise what dispatch raises: InvalidInput before anything is written, AdapterTimeout,
    AdapterUnavailable. A method with `key` gives the same result for the same key within 24 hours and writes once; the
    same key with other arguments is a Conflict.
    """

    @route("POST", "/v1/beads/init")
    @abstractmethod
    async def init(self) -> None:
        """Create or upgrade the store. Doing it again changes nothing; `connect` does it too."""

    @route("POST", "/v1/beads/epics", status=201)
    @abstractmethod
    async def create_epic(
        self,
        *,
        title: Title,
        description: Text = "",
        priority: Priority = 1,
        tags: Tags = (),
        metadata: JsonObject = {},  # noqa: B006 - a default in a signature, never mutated
        actor: Actor | None = None,
        key: Key | None = None,
    ) -> Bead:
        """
        Record an epic: a bead that may have children. It is open, and ready until it has children.

        Raises:
            InvalidInput: *metadata* has the member `agentbox`, which `sync` keeps for itself.
        """

    @route("POST", "/v1/beads/children", status=201)
    @abstractmethod
    async def create_child(
        self,
        *,
        parent_id: BeadId,
        title: Title,
        description: Text = "",
        priority: Priority = 1,
        tags: Tags = (),
        metadata: JsonObject = {},  # noqa: B006
        actor: Actor | None = None,
        key: Key | None = None,
    ) -> Bead:
        """
        Record a piece of work under *parent_id*, which may itself be a child. Children are numbered in order.

        Raises:
            NotFound: There is no such parent.
            InvalidInput: *metadata* has the member `agentbox`.
            Conflict: The parent is closed, or eight levels down already.
        """

    @route("POST", "/v1/beads/{bead_id}/deps")
    @abstractmethod
    async def add_dependency(self, bead_id: BeadId, *, blocker_id: BeadId) -> Bead:
        """
        Let *bead_id* wait until *blocker_id* is closed as done. A dependency that is there already changes nothing.

        Raises:
            NotFound: One of the two does not exist.
            InvalidInput: A bead cannot wait for itself.
            Conflict: The bead is closed, or the two would wait for each other. An epic waits for its children, so a
                child cannot depend on its own epic.
        """

    @route("POST", "/v1/beads/{bead_id}/claim")
    @abstractmethod
    async def claim(self, bead_id: BeadId, *, actor: Actor, lease_seconds: Lease | None = None) -> Bead:
        """
        Give *bead_id* to *actor*, in one atomic step: of any number of simultaneous claimers exactly one wins.

        Claiming a bead one already holds changes nothing, not even the lease. With *lease_seconds* the claim expires
        then unless renewed, and the bead can be claimed by anyone. The fence rises each time the holder changes, and
        after an expired lease also for the same actor.

        Raises:
            NotFound: There is no such bead.
            AlreadyClaimed: Another actor holds it.
            Conflict: It is closed, or it waits for a bead that is not done.
        """

    @route("POST", "/v1/beads/claim-ready")
    @abstractmethod
    async def claim_ready(
        self,
        *,
        actor: Actor,
        parent_id: BeadId | None = None,
        lease_seconds: Lease | None = None,
        key: Key | None = None,
    ) -> Bead | None:
        """
        Find the first bead of `get_ready` and claim it, in one atomic step. None when nothing is ready.

        A key remembers a bead that was given, not that there was none.
        """

    @route("POST", "/v1/beads/{bead_id}/renew")
    @abstractmethod
    async def renew(self, bead_id: BeadId, *, lease_seconds: Lease, fence: Fence | None = None) -> Bead:
        """
        Let the claim last *lease_seconds* from now. A claim without a lease gets one.

        A lease that ran out can be renewed as long as nobody else has claimed the bead.

        Raises:
            NotFound: There is no such bead.
            StaleClaim: The fence is missing under a lease, or not the current one.
            Conflict: The bead is not claimed.
        """

    @route("POST", "/v1/beads/{bead_id}/release")
    @abstractmethod
    async def release(self, bead_id: BeadId, *, actor: Actor | None = None, fence: Fence | None = None) -> Bead:
        """
        Give a claimed bead back: it is open again and keeps its fence. Releasing an open bead changes nothing.

        Raises:
            NotFound: There is no such bead.
            StaleClaim: The fence is missing under a lease, or not the current one.
            AlreadyClaimed: *actor* is given and another actor holds it.
            Conflict: The bead is closed.
        """

    @route("POST", "/v1/beads/{bead_id}/close")
    @abstractmethod
    async def close(
        self,
        bead_id: BeadId,
        *,
        outcome: Outcome = "done",
        reason: Text = "",
        actor: Actor | None = None,
        fence: Fence | None = None,
    ) -> Bead:
        """
        End the work with an outcome. Only `done` unblocks the beads that wait for it.

        Closing a closed bead again with the same outcome changes nothing. An open bead can be closed by anyone. Holder
        and fence stay, the lease ends; `closed_by` is *actor*, else the holder. A wrong fence is refused before all
        else, also on a closed bead.

        Raises:
            NotFound: There is no such bead.
            StaleClaim: The fence is missing under a lease, or not the current one.
            AlreadyClaimed: *actor* is given and another actor holds it.
            Conflict: It has children that are not closed, or it was closed with another outcome.
        """

    @route("GET", "/v1/beads/ready")
    @abstractmethod
    async def get_ready(self, *, parent_id: BeadId | None = None, limit: Limit = 100) -> list[Bead]:
        """
        What can be claimed now: open or with an expired lease, waiting for nothing, without open children.

        The most urgent priority first, then the oldest. With *parent_id* only the direct children of that bead; a bead
        that does not exist has none. The cost depends on the answer, not on how many beads there are.
        """

    @route("GET", "/v1/beads/{bead_id}")
    @abstractmethod
    async def show(self, bead_id: BeadId) -> Bead:
        """
        The bead as it stands.

        Raises:
            NotFound: There is no such bead.
        """

    @route("GET", "/v1/beads/{bead_id}/children")
    @abstractmethod
    async def children(self, bead_id: BeadId, *, limit: Limit = 100, after: BeadId | None = None) -> Page[Bead]:
        """
        The direct children in the order of their numbers, a page at a time.

        Raises:
            NotFound: There is no such bead.
            InvalidInput: *after* is not one of its children.
        """

    @route("POST", "/v1/beads/sync")
    @abstractmethod
    async def sync(self, path: FilePath, *, direction: Literal["both", "import", "export"] = "both") -> SyncReport:
        """
        Exchange beads with a JSONL file in the format of the `bd` tool, what is ours under `metadata.agentbox`.

        Beads are the same when their `uid` is the same; of two versions the later `updated_at` wins. Doing it again
        changes nothing. An id that means another bead on the other side is a reported conflict and left alone. Nothing
        is deleted because it is absent: only a record with status `tombstone` deletes. The store changes in one
        transaction, the file is replaced whole.

        Raises:
            NotFound: The file is not there and should be imported.
            InvalidInput: A line is not a bead; the message names it, and nothing was changed.
        """


CONTRACT = Contract(slot="beads", version="1.0.0", port=Beads, capabilities=frozenset({"keys", "leases", "sync"}))
