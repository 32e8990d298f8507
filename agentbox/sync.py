"""The app for code without an event loop: one loop thread per app, calls that block."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentbox import app as async_app
from agentbox.app import HealthReport
from agentbox.manifest import Manifest
from agentbox_contracts import SLOTS

__all__ = ["SyncAdapters", "SyncApp", "open_app"]

T = TypeVar("T")

_END = object()


class SyncAdapter:
    """A slot whose methods block until they are done. A stream is an iterator."""

    def __init__(self, adapter: Any, loop: _Loop) -> None:
        self._adapter = adapter
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._adapter, name)
        if inspect.iscoroutinefunction(member):
            return lambda *args, **kwargs: self._loop.run(member(*args, **kwargs))
        if inspect.isasyncgenfunction(member):
            return lambda *args, **kwargs: self._loop.iterate(member(*args, **kwargs))
        return member


class SyncAdapters:
    """The five slots, blocking."""

    beads: SyncAdapter
    pods: SyncAdapter
    memory: SyncAdapter
    events: SyncAdapter
    orchestrator: SyncAdapter

    def __init__(self, adapters: async_app.Adapters, loop: _Loop) -> None:
        for slot in SLOTS:
            setattr(self, slot, SyncAdapter(getattr(adapters, slot), loop))


class SyncApp:
    """An open app for blocking code."""

    def __init__(self, app: async_app.App, loop: _Loop) -> None:
        self._app = app
        self._loop = loop
        self.adapters = SyncAdapters(app.adapters, loop)
        self.manifest = app.manifest
        self.registry = app.registry

    def health(self) -> HealthReport:
        """As `App.health`."""
        return self._loop.run(self._app.health())

    def meta(self) -> dict[str, Any]:
        """As `App.meta`."""
        return self._app.meta()

    def attach(self, host_app: Any) -> None:
        """Give *host_app* (Flask, any object) the attribute `adapters`, for its handlers to use."""
        host_app.adapters = self.adapters


@contextmanager
def open_app(
    manifest: str | Path | Manifest | None = None, *, overrides: Mapping[str, Any] | None = None
) -> Iterator[SyncApp]:
    """As `agentbox.open_app`, for code without an event loop. Any thread may use it, except one whose loop runs."""
    _refuse_running_loop()
    with _Loop() as loop:
        context = async_app.open_app(manifest, overrides=overrides)
        app = loop.run(context.__aenter__())
        try:
            yield SyncApp(app, loop)
        finally:
            loop.run(context.__aexit__(None, None, None))


class _Loop:
    """An event loop on a thread of its own."""

    def __enter__(self) -> _Loop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentbox-sync", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(_cancel_others())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            _refuse_running_loop()
            if self._loop.is_closed():
                raise RuntimeError("this app is closed")
        except RuntimeError:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("the app was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: Any) -> Iterator[Any]:
        try:
            while (item := self.run(anext(items, _END))) is not _END:
                yield item
        finally:
            if not self._loop.is_closed():
                self.run(items.aclose())


async def _cancel_others() -> None:
    """End the calls of other threads that were under way, so that none of them waits for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("agentbox.sync would block the event loop of this thread; use agentbox.open_app there")
