"""Every call in every trouble, each through a proxy of its own, and what was seen of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal
from uuid import uuid4

import attrs
from msgspec.structs import fields

from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AdapterTimeout, AdapterUnavailable
from agentbox_contracts.suites._network_troubles import Trouble
from agentbox_contracts.suites.faults import Proxy
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["HONEST", "ManifestAt", "Network", "Sample", "Seen", "watched"]

ManifestAt = Callable[[str, int], str]
"""Manifest text that chooses the adapter under test, with its server at a host and a port."""

Read = Callable[[Any], Awaitable[Any]]

HONEST = (AdapterUnavailable, AdapterTimeout)
"""What a call may raise because of the network."""

AT_ONCE = 8
PATIENCE = 10.0


@attrs.frozen(kw_only=True)
class Sample:
    """
    One call of a method, in a scene of its own, and how to tell what came of it.

    `arrange` makes the scene from an adapter and a word that nobody else has. `call` gets an adapter, the scene and a
    key; again with the same key, or for a method without one again at all, it must change nothing more. `is_right`
    looks at the answer, and `effects` counts how often the call has happened.

    Where a call is answered before it has come to the server, `settle` gets the adapter, one without trouble and the
    scene, and returns once all that the adapter was told is with the server.
    """

    arrange: Callable[[Any, str], Awaitable[Any]]
    call: Callable[[Any, Any, str | None], Awaitable[Any]]
    is_right: Callable[[Any, Any], bool]
    effects: Callable[[Any, Any], Awaitable[int]] | None = None
    settle: Callable[[Any, Any, Any], Awaitable[None]] | None = None
    needs: str | None = None
    keyed_by: str | None = None
    """The capability by which the call takes a key, where its argument is not called so."""


@attrs.frozen(kw_only=True)
class Network:
    """Where the server is, how the adapter is opened, and an adapter that no trouble meets."""

    server: tuple[str, int]
    manifest_at: ManifestAt
    open_adapter: OpenAdapter
    direct: Any
    gate: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(AT_ONCE))

    @asynccontextmanager
    async def proxied(self) -> AsyncIterator[tuple[Proxy, Any]]:
        """A proxy, and an adapter that knows only its address."""
        async with Proxy(*self.server) as proxy, self.open_adapter(self.manifest_at(proxy.host, proxy.port)) as adapter:
            try:
                yield proxy, adapter
            finally:
                await proxy.heal()


@attrs.frozen(kw_only=True)
class Seen:
    """
    One call in one trouble.

    `error` is what it raised, None when it answered; `is_right` says whether the answer was. `later` is what was wrong
    with the next call once the trouble was over. `effects` counts how often it has happened in the end. Without
    `is_repeatable`, the next call was another one.
    """

    name: str
    seconds: float
    error: Exception | None
    is_right: bool
    later: str
    effects: int | None
    is_repeatable: bool


@attrs.frozen
class _Call:
    """A sample, with a key or without."""

    name: str
    sample: Sample
    key: Literal["given", "none", "unknown"]
    """`unknown` to methods that take none, which are to be idempotent."""

    async def made(self, adapter: Any, scene: Any, word: str) -> Any:
        """The answer, or the error; a call that goes on and on is ended."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.sample.call(adapter, scene, word if self.key == "given" else None)
        except Exception as error:
            return error


async def watched(
    network: Network,
    methods: Mapping[str, Method],
    samples: Mapping[str, Sample],
    troubles: Iterable[Trouble],
    any_read: Read,
) -> list[Seen]:
    """What each of *samples* looks like in each of *troubles*."""
    calls = _calls(methods, samples, network.direct.capabilities)
    spares = [(call, await call.sample.arrange(network.direct, _word())) for call in calls]
    loud = [trouble for trouble in troubles if not trouble.is_silent]
    # What hangs keeps what it had locked, and would keep the others from showing anything.
    rounds = [loud, *([trouble] for trouble in troubles if trouble.is_silent)]
    seen: list[Seen] = []
    for each in rounds:
        seen += await _round(
            [_Cell(network, call, spare, trouble) for trouble in each for call, spare in spares], any_read
        )
    return seen


def _calls(methods: Mapping[str, Method], samples: Mapping[str, Sample], have: frozenset[str]) -> list[_Call]:
    """Every sample that the adapter declares; with and without a key where there may be one."""
    calls = []
    for name, sample in samples.items():
        if sample.needs is not None and sample.needs not in have:
            continue
        if not _takes_a_key(methods[name]) and sample.keyed_by is None:
            calls.append(_Call(name, sample, "unknown"))
            continue
        calls.append(_Call(f"{name} without a key", sample, "none"))
        if (sample.keyed_by or "keys") in have:
            calls.append(_Call(f"{name} with a key", sample, "given"))
    return calls


def _takes_a_key(method: Method) -> bool:
    """Whether a call may have a key of its own; what must be given is the name of something."""
    return any(field.name == "key" and not field.required for field in fields(method.arguments))


async def _round(cells: list[_Cell], any_read: Read) -> list[Seen]:
    """Trouble for all at the same time, and only when it is over for all, the next call of each."""
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(cell.prepare(stack) for cell in cells))
        await asyncio.gather(*(cell.suffer() for cell in cells))
        await asyncio.gather(*(cell.proxy.heal() for cell in cells))
        return await asyncio.gather(*(cell.look(any_read) for cell in cells))


class _Cell:
    """One call in one trouble."""

    proxy: Proxy

    def __init__(self, network: Network, call: _Call, spare: Any, trouble: Trouble) -> None:
        self._network = network
        self._call = call
        self._spare = spare
        self._trouble = trouble
        self._word = _word()

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Set the scene, and open the adapter behind a proxy."""
        async with self._network.gate:
            self._scene = await self._call.sample.arrange(self._network.direct, self._word)
            self.proxy, self._adapter = await stack.enter_async_context(self._network.proxied())
            # Whatever a first call prepares is then prepared, so that the trouble meets the call itself.
            await self._call.made(self._adapter, self._spare, "spare")

    async def suffer(self) -> None:
        """Make the call in trouble."""
        await self._trouble.strike(self.proxy)
        began = time.monotonic()
        self._ended = await self._call.made(self._adapter, self._scene, self._word)
        self._seconds = time.monotonic() - began

    async def look(self, any_read: Read) -> Seen:
        """Make the next call, and see what has happened in all."""
        sample = self._call.sample
        async with self._network.gate:
            return Seen(
                name=f"{self._call.name}, {self._trouble.name}",
                seconds=round(self._seconds, 2),
                error=self._ended if isinstance(self._ended, Exception) else None,
                is_right=_is_right(sample, self._ended, self._scene),
                later=await self._later(any_read),
                effects=await self._effects(),
                is_repeatable=self._call.key != "none",
            )

    async def _effects(self) -> int | None:
        sample, direct = self._call.sample, self._network.direct
        if sample.effects is None:
            return None
        if sample.settle is not None:
            await sample.settle(self._adapter, direct, self._scene)
        return await sample.effects(direct, self._scene)

    async def _later(self, any_read: Read) -> str:
        """What is wrong with the next call: the same again, or a read where that would be another write."""
        if self._call.key != "none":
            ended = await self._call.made(self._adapter, self._scene, self._word)
            return "" if _is_right(self._call.sample, ended, self._scene) else repr(ended)
        try:
            await any_read(self._adapter)
        except Exception as error:
            return repr(error)
        return ""


def _is_right(sample: Sample, ended: Any, scene: Any) -> bool:
    try:
        return not isinstance(ended, Exception) and sample.is_right(ended, scene)
    except (AttributeError, TypeError):
        return False  # it is not even of the right type


def _word() -> str:
    return f"network-{uuid4().hex}"
