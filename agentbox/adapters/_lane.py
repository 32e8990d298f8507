"""A thread that takes whatever waits, does it together, and wakes the event loop once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Job", "Lane"]

R = TypeVar("R")


class Job:
    """What one caller waits for: `work` goes in, `result` or `error` comes out."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Any, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: Exception | None = None


class Lane(Generic[R]):
    """
    A thread with a resource of its own, on which it runs the jobs that wait, as many as *batch* at once.

    Loop and thread ring each other by pipes: a queue's locks and the socket behind `call_soon_threadsafe` cost a lone
    caller half of the way there and back. Cancelled while it waits, a job is withdrawn.
    """

    def __init__(
        self,
        name: str,
        *,
        acquire: Callable[[], R],
        run: Callable[[R, list[Job]], None],
        release: Callable[[R], None],
        translated: Callable[[Exception], Exception],
        batch: int,
    ) -> None:
        self._acquire = acquire
        self._run = run
        self._release = release
        self._translated = translated
        self._batch = batch
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Job | None] = deque()
        self._done: deque[list[Job]] = deque()
        self._rung = False
        self._thread_bell, self._ring_thread = os.pipe()
        self._loop_bell, self._ring_loop = os.pipe()
        self._loop.add_reader(self._loop_bell, self._woken)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> asyncio.Future[Any]:
        """Let the thread do *work*; the future has what came of it."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._put(Job(work, future))
        return future

    async def stop(self) -> None:
        """Do what waits, release the resource and end the thread."""
        self._put(None)
        await asyncio.to_thread(self._thread.join)
        self._loop.remove_reader(self._loop_bell)
        for descriptor in (self._thread_bell, self._ring_thread, self._loop_bell, self._ring_loop):
            os.close(descriptor)
        self._settle()

    def _put(self, job: Job | None) -> None:
        self._waiting.append(job)
        if not self._rung:
            self._rung = True
            os.write(self._ring_thread, b"!")

    def _serve(self) -> None:
        try:
            resource = self._acquire()
        except Exception as error:
            self._refuse(error)
            return
        try:
            while jobs := self._take():
                if live := [job for job in jobs if not job.future.cancelled()]:
                    self._run(resource, live)
                    self._deliver(live)
        finally:
            self._release(resource)

    def _take(self) -> list[Job]:
        """What waits now, at least one job; nothing when the lane should stop. Jobs before the stop are served."""
        waiting = self._waiting
        jobs: list[Job] = []
        while not jobs:
            if not waiting:
                os.read(self._thread_bell, 64)
            self._rung = False  # before looking: whoever comes after the look rings again
            while waiting and len(jobs) < self._batch:
                job = waiting.popleft()
                if job is None:
                    if jobs:
                        waiting.appendleft(None)
                    return jobs
                jobs.append(job)
        return jobs

    def _refuse(self, error: Exception) -> None:
        """Answer every job with *error* until the lane is stopped: there is no resource to be had."""
        while jobs := self._take():
            for job in jobs:
                job.error = error
            self._deliver(jobs)

    def _deliver(self, jobs: list[Job]) -> None:
        self._done.append(jobs)
        os.write(self._ring_loop, b"!")

    def _woken(self) -> None:
        os.read(self._loop_bell, 4096)
        self._settle()

    def _settle(self) -> None:
        while self._done:
            for job in self._done.popleft():
                if job.future.done():
                    continue
                if job.error is None:
                    job.future.set_result(job.result)
                else:
                    job.future.set_exception(self._translated(job.error))
