"""The JSONL file that beads are exchanged with: the `bd` tool's fields, ours under `metadata.agentbox`."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from agentbox.adapters.beads._ids import uuid7_from
from agentbox_contracts.beads import Actor, Bead, BeadId, Priority, Tags, Text, Title
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput, NotFound
from agentbox_contracts.wire import check_json, encode, explained

__all__ = ["Record", "SyncFile", "bead_of_record", "record_of"]

Record = dict[str, Any]
T = TypeVar("T")

LOOK_SECONDS = 0.01

_STATUS = {"open": "open", "claimed": "in_progress", "closed": "closed"}
_OURS = ("uid", "fence", "outcome", "claimed_at", "lease_expires_at", "created_by", "closed_by")


class Bounds(msgspec.Struct):
    """What the contract allows of a bead, for records that came in by no method of the port."""

    id: BeadId
    uid: Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    title: Title
    description: Text
    priority: Priority
    parent_id: BeadId | None
    tags: Tags
    depends_on: tuple[BeadId, ...]
    holder: Actor | None
    fence: Annotated[int, Meta(ge=0, le=1 << 53)]
    reason: Text
    created_by: Actor | None
    closed_by: Actor | None


class SyncFile:
    """One JSONL file, read and replaced whole while a lock beside it is held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = b""

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep everybody else from exchanging with the same file, in this process and in others."""
        handle = self._use(os.open, self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # A thread that waited for the lock could not be cancelled, and would get it when nobody wants it any more.
            while not self._use(_is_taken, handle):  # noqa: ASYNC110 - the kernel rings no bell for this
                await asyncio.sleep(LOOK_SECONDS)
            yield
        finally:
            os.close(handle)

    def _use(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        except OSError as error:
            raise AdapterUnavailable(f"{self.path} cannot be used: {error.strerror}") from error

    def content(self, *, required: bool) -> bytes | None:
        """What is in the file, None when there is none and none is required."""
        try:
            self._before = self.path.read_bytes()
        except FileNotFoundError as error:
            if required:
                raise NotFound(f"there is no file {self.path}", resource="file", id=str(self.path)) from error
            return None
        except OSError as error:
            raise AdapterUnavailable(f"{self.path} cannot be read: {error.strerror}") from error
        return self._before

    def read(self, *, required: bool) -> list[Record]:
        """The records of the file. Raises InvalidInput that names the first line which is not a bead."""
        lines = enumerate((self.content(required=required) or b"").split(b"\n"), start=1)
        return [self._record(number, line) for number, line in lines if line.strip()]

    def _record(self, number: int, line: bytes) -> Record:
        try:
            record = msgspec.json.decode(line, type=dict[str, Any])
            check_json("record", record)
            if record.get("status") == "tombstone":
                if not isinstance(record.get("id"), str):
                    raise InvalidInput("id: a tombstone needs one")
            else:
                bead_of_record(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"{self.path}:{number}: {explained(error)}") from None
        except InvalidInput as error:
            raise InvalidInput(f"{self.path}:{number}: {error.message}") from None
        return record

    def write(self, records: Iterable[Record]) -> None:
        """Replace the file, in the order of ids, unless nothing changed."""
        self.replace(b"".join(encode(record) + b"\n" for record in sorted(records, key=lambda record: record["id"])))

    def replace(self, after: bytes) -> None:
        """Put *after* into the file, whole and durably, unless it is there already."""
        if after == self._before and self.path.exists():
            return
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.draft")
        try:
            with draft.open("wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise AdapterUnavailable(f"{self.path} cannot be written: {error.strerror}") from error


def _is_taken(handle: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def record_of(bead: Bead) -> Record:
    """A bead as a line of the file."""
    metadata = dict(bead.metadata)
    ours = {name: value for name in _OURS if (value := getattr(bead, name)) is not None}
    record: Record = {
        "id": bead.id,
        "title": bead.title,
        "description": bead.description,
        "status": _STATUS[bead.status],
        "priority": bead.priority,
        "issue_type": metadata.pop("issue_type", "epic" if bead.kind == "epic" else "task"),
        "assignee": bead.holder,
        "created_at": bead.created_at,
        "updated_at": bead.updated_at,
        "closed_at": bead.closed_at,
        "close_reason": bead.reason,
        "labels": list(bead.tags),
        "dependencies": [{"issue_id": bead.id, "depends_on_id": other, "type": "blocks"} for other in bead.depends_on],
        "metadata": metadata | {"agentbox": ours},
    }
    if bead.parent_id is not None:
        record["dependencies"].append({"issue_id": bead.id, "depends_on_id": bead.parent_id, "type": "parent-child"})
    plain: Record = msgspec.to_builtins({name: value for name, value in record.items() if value not in (None, "", [])})
    return plain


def bead_of_record(record: Record) -> Bead:
    """A line of the file as a bead; a line of another tool gets a `uid` that is the same every time."""
    metadata = dict(_member(record, "metadata", dict, {}))
    ours = metadata.pop("agentbox", {})
    if not isinstance(ours, dict):
        raise InvalidInput("metadata.agentbox: not an object")
    bead_id = _member(record, "id", str, None)
    created_at = _moment(record.get("created_at"), "created_at")
    links = _member(record, "dependencies", list, [])
    issue_type = _member(record, "issue_type", str, "task")
    if issue_type not in ("epic", "task"):
        metadata["issue_type"] = issue_type
    status = {"in_progress": "claimed", "closed": "closed"}.get(_member(record, "status", str, "open"), "open")
    if status == "claimed" and not record.get("assignee"):
        status = "open"
    fields: dict[str, Any] = {
        "id": bead_id,
        "uid": ours.get("uid") or uuid7_from(created_at, f"{bead_id} {created_at.isoformat()}"),
        "kind": "epic" if issue_type == "epic" else "task",
        "title": _member(record, "title", str, None),
        "description": _member(record, "description", str, ""),
        "status": status,
        "priority": _member(record, "priority", int, 1),
        "parent_id": next(iter(_links(links, bead_id, "parent-child")), None),
        "tags": tuple(_member(record, "labels", list, [])),
        "metadata": metadata,
        "depends_on": tuple(dict.fromkeys(_links(links, bead_id, "blocks"))),
        "holder": record.get("assignee") if status != "open" else None,
        "fence": ours.get("fence", 1 if status == "claimed" else 0),
        "claimed_at": _perhaps(ours.get("claimed_at"), "claimed_at"),
        "lease_expires_at": _perhaps(ours.get("lease_expires_at"), "lease_expires_at"),
        "outcome": ours.get("outcome", "done") if status == "closed" else None,
        "reason": _member(record, "close_reason", str, ""),
        "created_by": ours.get("created_by"),
        "created_at": created_at,
        "updated_at": _moment(record.get("updated_at") or record.get("created_at"), "updated_at"),
        "closed_by": ours.get("closed_by"),
        "closed_at": _perhaps(record.get("closed_at"), "closed_at"),
    }
    msgspec.convert(fields, Bounds)
    return msgspec.convert(fields, Bead)


def _links(links: list[Any], bead_id: str, kind: str) -> list[str]:
    """The ids this bead is linked to by *kind*. Links of other kinds are the other tool's affair."""
    found = []
    for link in links:
        if not isinstance(link, dict) or not isinstance(link.get("depends_on_id"), str):
            raise InvalidInput("dependencies: each needs a depends_on_id")
        if link.get("type", "blocks") == kind and link.get("issue_id", bead_id) == bead_id:
            found.append(link["depends_on_id"])
    return found


def _member(record: Record, name: str, kind: type, default: Any) -> Any:
    value = record.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInput(f"{name}: {'missing' if value is None else f'expected {kind.__name__}'}")
    return value


def _moment(value: Any, name: str) -> datetime:
    try:
        moment = msgspec.convert(value, datetime)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (msgspec.ValidationError, OverflowError):
        raise InvalidInput(f"{name}: {value!r:.50} is not a date and time") from None


def _perhaps(value: Any, name: str) -> datetime | None:
    return None if value is None else _moment(value, name)
