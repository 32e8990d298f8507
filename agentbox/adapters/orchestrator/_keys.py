"""Idempotency keys of `spawn`, as files that outlive every process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from agentbox.adapters.orchestrator import _files
from agentbox.adapters.orchestrator._records import Record, Records
from agentbox_contracts.errors import Conflict, NotFound
from agentbox_contracts.orchestrator import AgentSpec
from agentbox_contracts.wire import encode

__all__ = ["Keys"]

KEPT_SECONDS = 24 * 3600.0
SWEEP_SECONDS = 3600.0


class Keys:
    """Which agent a key stands for. Everything here waits for a lock or the disk: call it in a thread."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._folder = f"{records.folder}/keys"
        self._swept = 0.0

    def create(self, record: Record, spec: AgentSpec, key: str) -> Record:
        """
        The record that *key* stands for: *record* under a new id, or the one that was made before.

        Raises Conflict when the key was used for another spec.
        """
        name, digest = hashlib.sha256(key.encode()).hexdigest(), _digest(spec)
        with self._locked():
            found = self._find(name)
            if found is None:
                record = self._records.create(record)
                _files.put_json(self._folder, name, {"agent_id": record.id, "spec": digest, "at": time.time()})
                _files.sync(f"{self._folder}/{name}", self._folder)
                self._sweep()
                return record
        agent_id, known = found
        if known != digest:
            raise Conflict(f"the key {key!r} was used for another spec ({agent_id})", resource="agent", id=agent_id)
        return self._records.record(agent_id)

    def has_started(self, key: str) -> bool:
        """Whether the agent that *key* stands for was started, so that it needs no turn to be started."""
        found = self._find(hashlib.sha256(key.encode()).hexdigest())
        return found is not None and self._records.started(found[0]) is not None

    def _find(self, name: str) -> tuple[str, str] | None:
        """The agent and the spec of a key in force. One whose agent was withdrawn stands for nothing."""
        entry = _files.read_json(f"{self._folder}/{name}")
        if entry is None or time.time() - float(str(entry["at"])) > KEPT_SECONDS:
            return None
        try:
            return self._records.record(str(entry["agent_id"])).id, str(entry["spec"])
        except NotFound:
            return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        Path(self._folder).mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(f"{self._records.folder}/keys.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        now = time.time()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        for entry in Path(self._folder).iterdir():
            if now - entry.stat().st_mtime > KEPT_SECONDS:
                entry.unlink()


def _digest(spec: AgentSpec) -> str:
    """What tells two specs apart. Values of the environment are no part of it: they are not to be stored."""
    told = attrs.asdict(attrs.evolve(spec, env=dict.fromkeys(spec.env, "")))
    return hashlib.sha256(encode(told)).hexdigest()
