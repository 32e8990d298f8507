"""What goes on behind the calls: indexes are built when they are due, and what has expired is swept."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from agentbox.adapters._sqlite import Database
from agentbox.adapters.memory import _records
from agentbox.adapters.memory._build import Builder
from agentbox_contracts.errors import AgentboxError

__all__ = ["Upkeep"]

REST_SECONDS = 60.0
"""So long after a build that failed no other is tried: on a full disk each would cost minutes of work for nothing."""


class Upkeep:
    """One task for each; `stop` ends both within moments, and what they were at is begun anew another time."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        *,
        sweep_seconds: float,
        index_threads: int,
        exact_upto: int,
        now: Callable[[], int],
        logger: logging.Logger,
    ) -> None:
        self._database = database
        self._folder = folder
        self._sweep_seconds = sweep_seconds
        self._index_threads = index_threads
        self._exact_upto = exact_upto
        self._now = now
        self._logger = logger
        self._due: set[str] = set()
        self._resting_until: dict[str, float] = {}
        self._bell = asyncio.Event()
        self._stopping = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin. The database is open."""
        self._stopping.clear()
        self._tasks = [asyncio.create_task(self._sweep()), asyncio.create_task(self._build())]

    async def stop(self) -> None:
        """End. A second time does nothing."""
        self._stopping.set()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def build_soon(self, namespace: str) -> None:
        """Have the index of a namespace looked after, unless that has just failed."""
        if self._resting_until.get(namespace, 0.0) > monotonic():
            return
        self._due.add(namespace)
        self._bell.set()

    async def _sweep(self) -> None:
        while True:
            try:
                if await self._database.read(lambda db: _records.has_expired(db, self._now())):
                    while await self._database.write(lambda db: _records.sweep(db, self._now())) == _records.SWEEP:
                        pass
            except AgentboxError as error:
                self._logger.warning("expired records not swept: %s", error.message, extra={"reason": error.message})
            await asyncio.sleep(self._sweep_seconds)

    async def _build(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._due:
                # Shielded, so that a thread that is told to stop has stopped when the file is closed.
                work = asyncio.ensure_future(asyncio.to_thread(self._build_one, self._due.pop()))
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    await work
                    raise

    def _build_one(self, namespace: str) -> None:
        try:
            db = self._database.connection()
            builder = Builder(
                db,
                self._folder,
                threads=self._index_threads,
                stopped=self._stopping.is_set,
                tail=self._exact_upto + 1,
            )
            try:
                while builder.run(namespace):
                    self._logger.info("index built", extra={"namespace": namespace})
            finally:
                db.close()
        except Exception:
            # Searches go on without: they compare what is in no index.
            self._resting_until[namespace] = monotonic() + REST_SECONDS
            self._logger.exception("index not built", extra={"namespace": namespace})
