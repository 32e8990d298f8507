"""What a sync changes, worked out on values: the beads of a store on one side, the records of a file on the other."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import attrs

from agentbox.adapters.beads._jsonl import Record, SyncFile, bead_of_record, record_of
from agentbox_contracts.beads import Bead, SyncConflict, SyncReport
from agentbox_contracts.wire import encode

__all__ = ["Plan", "exchange", "plan"]


@attrs.frozen
class Plan:
    """
    What to do in the store, in the order of the fields, what to report, and what the file should hold.

    `stored` are new or changed beads, but what they wait for is in `linked`, by id, together with the beads that lost a
    blocker. Counters and readiness follow from both and are the store's to count.
    """

    deleted: list[str]
    stored: list[Bead]
    linked: dict[str, tuple[str, ...]]
    graves: dict[str, Record]
    report: SyncReport
    records: list[Record]

    @property
    def is_empty(self) -> bool:
        """Whether the store stays as it is."""
        return not (self.deleted or self.stored or self.linked or self.graves)


async def exchange(path: str, direction: str, merge: Callable[[list[Record]], Awaitable[Plan]]) -> SyncReport:
    """Read the file at *path*, have its records merged into the store, and write back what it should hold."""
    file = SyncFile(Path(path))
    async with file.locked():
        records = await asyncio.to_thread(file.read, required=direction == "import")
        merged = await merge(records)
        if direction != "import":
            await asyncio.to_thread(file.write, merged.records)
    return merged.report


def plan(beads: Iterable[Bead], tombstones: Mapping[str, Record], records: list[Record], direction: str) -> Plan:
    """Bring *records* into a store of *beads* and *tombstones* (by uid) unless only exporting."""
    merger = _Merger(beads, tombstones)
    if direction != "export":
        merger.take(records)
    held = merger.export(records)
    report = SyncReport(
        created=merger.created,
        updated=merger.updated,
        deleted=len(merger.deleted),
        unchanged=merger.unchanged,
        exported=0 if direction == "import" else merger.exported,
        conflicts=tuple(SyncConflict(id=bead_id, reason=reason) for bead_id, reason in merger.conflicts.items()),
    )
    return Plan(merger.deleted, list(merger.stored.values()), merger.linked, merger.graves, report, held)


class _Merger:
    def __init__(self, beads: Iterable[Bead], tombstones: Mapping[str, Record]) -> None:
        self.by_id: dict[str, Bead] = {}
        self.by_uid: dict[str, Bead] = {}
        self.children: defaultdict[str, set[str]] = defaultdict(set)
        self.waiting: defaultdict[str, set[str]] = defaultdict(set)
        self.tombstones = dict(tombstones)
        self.deleted: list[str] = []
        self.stored: dict[str, Bead] = {}
        self.linked: dict[str, tuple[str, ...]] = {}
        self.graves: dict[str, Record] = {}
        self.created = self.updated = self.unchanged = self.exported = 0
        self.conflicts: dict[str, str] = {}
        for bead in beads:
            self._put(bead)

    def take(self, records: list[Record]) -> None:
        """Into the store: tombstones first, then beads, parents before children, then dependencies."""
        beads = [bead_of_record(record) for record in records if record.get("status") != "tombstone"]
        for record in records:
            if record.get("status") == "tombstone":
                self._bury(record)
        touched = [bead for bead in _parents_first(beads) if self._accept(bead)]
        for bead in touched:
            self._link(bead)

    def export(self, records: list[Record]) -> list[Record]:
        """What the file should hold: ours, and whatever of the file's the store does not know or may not replace."""
        held = {record["id"]: record for record in records}
        ours = [record_of(self.by_id[bead_id]) for bead_id in sorted(self.by_id)]
        for record in (*ours, *self.tombstones.values()):
            there = held.get(record["id"])
            if there is None or (there != record and self._may_replace(there, record)):
                self.exported += 1
                held[record["id"]] = record
        return list(held.values())

    def _bury(self, record: Record) -> None:
        uid, bead_id = _uid(record), record["id"]
        found = self.by_uid.get(uid) if uid else self.by_id.get(bead_id)
        if found is None:
            self.unchanged += 1
            if uid:
                self._remember(uid, record)
        elif self.children[found.id]:
            self.conflicts[bead_id] = "it is deleted in the file and has children here"
        else:
            for other in list(self.waiting[found.id]):
                self._relink(other, tuple(blocker for blocker in self.by_id[other].depends_on if blocker != found.id))
            self._drop(found)
            self._remember(found.uid, record)
            self.deleted.append(found.id)

    def _accept(self, bead: Bead) -> bool:
        """Create or update; False when the store stays as it is."""
        same = self.by_uid.get(bead.uid)
        if same is None:
            return self._create(bead)
        if same.id != bead.id:
            self.conflicts[bead.id] = f"the same bead is {same.id} here"
            return False
        theirs, ours = record_of(bead), record_of(same)
        if theirs == ours or not _is_newer(theirs, ours, bead, same):
            self.unchanged += 1
            return False
        fence = max(bead.fence, same.fence)
        self._store(attrs.evolve(bead, fence=fence, parent_id=same.parent_id, depends_on=same.depends_on))
        self.updated += 1
        return True

    def _create(self, bead: Bead) -> bool:
        if bead.uid in self.tombstones:
            self.unchanged += 1
            return False
        if bead.id in self.by_id:
            self.conflicts[bead.id] = "the id means another bead here"
            return False
        if bead.parent_id is not None and bead.parent_id not in self.by_id:
            self.conflicts[bead.id] = f"its parent {bead.parent_id} is not here"
            return False
        self._store(attrs.evolve(bead, depends_on=()))
        self.created += 1
        return True

    def _link(self, bead: Bead) -> None:
        """Give the bead the dependencies of its record; those that cannot be are conflicts."""
        self._relink(bead.id, ())
        kept: list[str] = []
        for blocker in bead.depends_on:
            if blocker == bead.id or self._waits(bead.id, blocker):
                self.conflicts[bead.id] = f"it would wait for {blocker}, which waits for it"
            elif blocker not in self.by_id:
                self.conflicts[bead.id] = f"it waits for {blocker}, which is not here"
            else:
                kept.append(blocker)
        self._relink(bead.id, tuple(kept))

    def _may_replace(self, there: Record, ours: Record) -> bool:
        if there.get("status") == "tombstone" or ours["status"] == "tombstone":
            return there.get("status") != "tombstone"
        theirs, mine = bead_of_record(there), bead_of_record(ours)
        if theirs.uid != mine.uid:
            self.conflicts[mine.id] = "the id means another bead in the file"
            return False
        if mine.id in self.conflicts:
            return False
        return record_of(theirs) != ours and not _is_newer(there, ours, theirs, mine)

    def _waits(self, bead_id: str, blocker_id: str) -> bool:
        """Whether *blocker_id* waits, over any number of steps, for *bead_id*."""
        seen, ahead = {bead_id}, [bead_id]
        while ahead:
            at = ahead.pop()
            if at == blocker_id:
                return True
            parent = self.by_id[at].parent_id
            above = {*self.waiting[at], *([parent] if parent is not None else [])} - seen
            seen |= above
            ahead += above
        return False

    def _store(self, bead: Bead) -> None:
        self._put(bead)
        self.stored[bead.id] = bead

    def _put(self, bead: Bead) -> None:
        self.by_id[bead.id] = self.by_uid[bead.uid] = bead
        if bead.parent_id is not None:
            self.children[bead.parent_id].add(bead.id)
        for blocker in bead.depends_on:
            self.waiting[blocker].add(bead.id)

    def _drop(self, bead: Bead) -> None:
        del self.by_id[bead.id], self.by_uid[bead.uid]
        self.linked.pop(bead.id, None)
        if bead.parent_id is not None:
            self.children[bead.parent_id].discard(bead.id)
        for blocker in bead.depends_on:
            self.waiting[blocker].discard(bead.id)

    def _relink(self, bead_id: str, blockers: tuple[str, ...]) -> None:
        bead = self.by_id[bead_id]
        for blocker in bead.depends_on:
            self.waiting[blocker].discard(bead_id)
        self._put(attrs.evolve(bead, depends_on=blockers))
        self.linked[bead_id] = blockers

    def _remember(self, uid: str, record: Record) -> None:
        if uid not in self.tombstones:
            self.tombstones[uid] = self.graves[uid] = record


def _uid(record: Record) -> str | None:
    metadata = record.get("metadata")
    ours = metadata.get("agentbox") if isinstance(metadata, dict) else None
    uid = ours.get("uid") if isinstance(ours, dict) else None
    return uid if isinstance(uid, str) else None


def _is_newer(theirs: Record, ours: Record, bead: Bead, same: Bead) -> bool:
    """The later change wins; of two at the same moment the greater record, so that both sides choose alike."""
    if bead.updated_at != same.updated_at:
        return bead.updated_at > same.updated_at
    return encode(theirs) > encode(ours)


def _parents_first(beads: list[Bead]) -> list[Bead]:
    by_id = {bead.id: bead for bead in beads}

    def depth(bead: Bead) -> int:
        steps, parent = 0, bead.parent_id
        while parent in by_id and steps <= len(by_id):
            steps, parent = steps + 1, by_id[parent].parent_id
        return steps

    return sorted(beads, key=depth)
