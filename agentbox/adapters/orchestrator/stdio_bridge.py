"""Agents behind a program that speaks JSON-RPC on its standard input: in a container, over ssh, anywhere."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import attrs
import msgspec
from msgspec import Meta
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentbox.adapters._peer import Peer
from agentbox.adapters._retry import Retries, pause
from agentbox.adapters.orchestrator.external import ExternalOrchestrator
from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.contract import Contract, Settings
from agentbox_contracts.errors import AdapterFailed, AdapterUnavailable, BootError, InvalidInput
from agentbox_contracts.wire import decode

__all__ = ["Adapter", "Bridge", "BridgeSettings", "StdioBridge"]

DEEPEST = 4
SHOWN = 120
DEPTH = "AGENTBOX_BRIDGE_DEPTH"
OWN = (sys.executable, "-m", "agentbox", "host", "--stdio")

_propagator = TraceContextTextMapPropagator()


@attrs.frozen(kw_only=True)
class BridgeSettings(Settings):
    """
    The program at the other end. Without `command` it is `python -m agentbox host --stdio`, its state in `folder`.

    A program that ends or hangs is started again, unless `reconnect` is false; calls that may be repeated are, for
    `retry_seconds`. One that is silent for `silence_seconds` hangs.
    """

    command: str | tuple[str, ...] = ()
    folder: Path = Path("bridge")
    reconnect: bool = True
    retry_seconds: Annotated[float, Meta(ge=0, le=600)] = 20.0
    silence_seconds: Annotated[float, Meta(gt=0, le=3600)] = 15.0


class Bridge:
    """The other side, whichever program is running there now."""

    def __init__(self, contract: Contract, settings: BridgeSettings) -> None:
        self._contract = contract
        self._settings = settings
        given = settings.command
        self._command = (shlex.split(given) if isinstance(given, str) else list(given)) or list(OWN)
        self._own = not given
        self._peer: Peer | None = None
        self._starting = asyncio.Lock()
        self._open = False
        self._hello: dict[str, Any] = {}
        self._retries = Retries(settings.retry_seconds)
        shown = shorten(shlex.join(self._command), SHOWN, placeholder=" …")
        self.url = f"stdio:{shown}" + (f" in {settings.folder}" if self._own else "")

    async def open(self) -> dict[str, Any]:
        """Start the program and shake hands. What it says of the slot; raises when the two cannot work together."""
        self._open = True
        await self._ready()
        return self._hello

    async def close(self) -> None:
        """Let the program end. A second time does nothing."""
        self._open = False
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()

    async def health(self) -> bytes:
        """What the other side says of its slots."""
        return await self._request("health")

    async def call(self, name: str, /, *, safe: bool, **arguments: Any) -> Any:
        """Call the port's method *name* at the other side; with *safe* it may be repeated."""
        data = await self._retries.run(
            lambda: self._request(f"{self._contract.slot}.{name}", _given(arguments)),
            may=lambda _: safe and self._open and self._settings.reconnect,
        )
        return self._read(data, self._contract.methods[name].result)

    async def stream(self, name: str, /, **arguments: Any) -> AsyncIterator[Any]:
        """The port's stream *name*. When the program is replaced it goes on behind the last event."""
        result = self._contract.methods[name].result
        failures = 0
        while True:
            try:
                peer = await self._ready()
                method = f"{self._contract.slot}.{name}"
                async with aclosing(peer.stream(method, _given(arguments), _context())) as items:
                    async for raw in items:
                        item = self._read(bytes(self._read(raw, _Event).item), result)
                        arguments["after"], failures = item.cursor, 0
                        yield item
                return
            except AdapterUnavailable:
                failures += 1
                if failures > 8 or not self._open or not self._settings.reconnect:
                    raise
                await asyncio.sleep(pause(failures))

    def _read(self, data: bytes, type: Any) -> Any:
        """What came as a value of *type*. That it is none is the other side's fault, not the caller's InvalidInput."""
        try:
            return decode(data, type)
        except InvalidInput as error:
            raise AdapterFailed(f"{self.url} answered, and not as an agentbox host does: {error.message}") from error

    async def _request(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        return await (await self._ready()).request(method, params, _context())

    async def _ready(self) -> Peer:
        """The program that runs; a new one in place of one that is gone."""
        async with self._starting:
            if not self._open:
                raise AdapterUnavailable(f"the bridge {self.url} is not open")
            if self._peer is not None and self._peer.failure:
                if not self._settings.reconnect:
                    raise AdapterUnavailable(f"the bridge {self.url} is gone: {self._peer.failure}")
                gone, self._peer = self._peer, None
                await gone.close()
            if self._peer is None:
                self._peer = await self._started()
            return self._peer

    async def _started(self) -> Peer:
        peer = await Peer.start(
            self._command, env=self._environment(), name=self.url, silence_seconds=self._settings.silence_seconds
        )
        try:
            greeting = {"slot": self._contract.slot, "contract": self._contract.version}
            self._hello = self._read(await peer.request("hello", greeting), dict[str, Any])
        except BaseException:
            await asyncio.shield(peer.close())
            raise
        return peer

    def _environment(self) -> dict[str, str]:
        told = os.environ.get(DEPTH) or "0"
        if not told.isdecimal():
            raise BootError(f"{DEPTH} is {told!r}, and agentbox sets it to a number: unset it")
        depth = int(told) + 1
        if depth > DEEPEST:
            raise BootError(
                f"{depth} bridges stand behind each other, and {DEEPEST} are allowed; does one lead to itself?"
            )
        own = {"AGENTBOX_STATE": str(self._settings.folder)} if self._own else {}
        inherited = {name: value for name, value in os.environ.items() if name != "AGENTBOX_MANIFEST"}
        return inherited | own | {DEPTH: str(depth)}


class _Event(msgspec.Struct):
    item: msgspec.Raw


class StdioBridge(ExternalOrchestrator):
    """Agents run where the program runs. They outlive it, and the next one finds them again."""

    settings_class = BridgeSettings
    config: BridgeSettings

    def client(self) -> Bridge:
        """The other side."""
        return Bridge(self.contract, self.config)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _context() -> dict[str, str]:
    found: dict[str, str] = {}
    _propagator.inject(found)
    for name, value in (("session", session_id.get()), ("execution", execution_id.get())):
        if value is not None:
            found[name] = value
    return found


Adapter = StdioBridge
