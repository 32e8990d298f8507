"""Known-bad lifecycles, on top of an adapter of any slot."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Health
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.suites.bad import Base, known_bad

__all__: list[str] = []

KEPT: list[object] = []
"""What is leaked on purpose: the loop forgets tasks that nobody holds."""


@known_bad(caught_by="lifecycle.health.connected")
class NeverHealthy(Base):
    """Is degraded from the first moment."""

    async def health(self) -> Any:
        return Health("degraded", "it always is")


@known_bad(caught_by="lifecycle.health.disconnected")
class HealthyWhenDisconnected(Base):
    """Says that it is healthy without a look."""

    async def health(self) -> Any:
        return Health("healthy")


@known_bad(caught_by="lifecycle.health.disconnected")
class SilentWhenDisconnected(Base):
    """Does not say why it is not healthy."""

    async def health(self) -> Any:
        return attrs.evolve(await super().health(), reason="")


@known_bad(caught_by="lifecycle.words.capabilities")
class DeclaresWhatNobodyKnows(Base):
    """Declares a capability that the contract does not have."""

    async def connect(self) -> None:
        await super().connect()
        self.capabilities: frozenset[str] = self.capabilities | {"telepathy"}


@known_bad(caught_by="lifecycle.words.durability")
class DurableForEver(Base):
    """Praises its durability in a word of its own."""

    durability = "eternal"


@known_bad(caught_by="lifecycle.words.enabled")
class SaysItIsOff(Base):
    """Works, and says that it does not."""

    enabled = False


@known_bad(caught_by="lifecycle.disconnect.twice")
class RaisesOnTheSecondDisconnect(Base):
    """Cannot be disconnected when it is not connected."""

    disconnects = 0

    async def disconnect(self) -> None:
        await super().disconnect()
        self.disconnects += 1
        if self.disconnects == 2:
            raise RuntimeError("already disconnected")


@known_bad(caught_by="lifecycle.disconnect.refuses")
class DisconnectsWhenAskedTwice(Base):
    """Goes on answering after the first disconnect."""

    disconnects = 0

    async def disconnect(self) -> None:
        self.disconnects += 1
        if self.disconnects > 1:
            await super().disconnect()


@known_bad(caught_by="lifecycle.disconnect.refuses")
class HangsWhenDisconnected(Base):
    """Never answers a call after disconnect."""

    is_over = False

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name, method in contract_of(self.slot).methods.items():
            if not method.stream:
                setattr(self, name, functools.partial(self._hang, getattr(self, name)))

    async def disconnect(self) -> None:
        self.is_over = True
        await super().disconnect()

    async def _hang(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self.is_over:
            await asyncio.sleep(60)
        return await call(*args, **kwargs)


@known_bad(caught_by="lifecycle.open.again")
class OpensOnce(Base):
    """Cannot be opened a second time."""

    opened: Counter[str] = Counter()

    async def connect(self) -> None:
        await super().connect()
        self.opened[self.location] += 1
        if self.opened[self.location] > 1:
            raise AdapterUnavailable("it was opened before")


@known_bad(caught_by="lifecycle.open.again")
class DegradedWhenOpenedAgain(Base):
    """Opens a second time, but does not work then."""

    opened: Counter[str] = Counter()

    async def connect(self) -> None:
        await super().connect()
        self.opened[self.location] += 1

    async def health(self) -> Any:
        return Health("degraded", "worn out") if self.opened[self.location] > 1 else await super().health()


class CountsOpen(Base):
    """Knows how many have the store open in this process."""

    now_open: Counter[str] = Counter()
    is_counted = False

    async def connect(self) -> None:
        await super().connect()
        self.now_open[self.location] += 1
        self.is_counted = True

    async def disconnect(self) -> None:
        if self.is_counted:
            self.now_open[self.location] -= 1
            self.is_counted = False
        await super().disconnect()


@known_bad(caught_by="lifecycle.open.together")
class OpensForOne(CountsOpen):
    """Lets only one have the store open."""

    async def connect(self) -> None:
        await super().connect()
        if self.now_open[self.location] > 1:
            raise AdapterUnavailable("another has it open")


@known_bad(caught_by="lifecycle.open.together")
class WorksForOne(CountsOpen):
    """Lets a second open the store, and does not work for it."""

    async def health(self) -> Any:
        return Health("degraded", "shared") if self.now_open[self.location] > 1 else await super().health()


@known_bad(caught_by="lifecycle.open.together")
class ClosesForAll(CountsOpen):
    """Closes the store for everybody when one closes it."""

    closed: set[str] = set()

    async def disconnect(self) -> None:
        self.closed.add(self.location)
        await super().disconnect()

    async def health(self) -> Any:
        return Health("degraded", "closed") if self.location in self.closed else await super().health()


def _beside(location: str | None, word: str) -> Path:
    """A file that all processes with this store see, wherever the store is."""
    if location and Path(location).is_absolute():
        Path(location).parent.mkdir(parents=True, exist_ok=True)
        return Path(f"{location}.{word}")
    name = hashlib.sha256(str(location).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"agentbox-known-bad-{name}.{word}"


@known_bad(caught_by="lifecycle.open.processes")
class LocksItsStore(Base):
    """Keeps every other process out."""

    lock = -1

    async def connect(self) -> None:
        await super().connect()
        self.lock = os.open(_beside(self.location, "taken"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AdapterUnavailable(f"{self.location} is taken") from None

    async def disconnect(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1
        await super().disconnect()


@known_bad(caught_by="lifecycle.open.processes")
class BelongsToTheLast(Base):
    """Works only for the process that opened it last."""

    async def connect(self) -> None:
        await super().connect()
        _beside(self.location, "owner").write_text(str(os.getpid()))

    async def health(self) -> Any:
        if _beside(self.location, "owner").read_text() != str(os.getpid()):
            return Health("degraded", "another process has it")
        return await super().health()


@known_bad(caught_by="lifecycle.close.leaves-nothing")
class LeaksADescriptor(Base):
    """Leaves a descriptor open each time it is opened."""

    async def connect(self) -> None:
        await super().connect()
        os.open(os.devnull, os.O_RDONLY)


@known_bad(caught_by="lifecycle.close.leaves-nothing")
class LeaksAThread(Base):
    """Leaves a thread running each time it is opened."""

    async def connect(self) -> None:
        await super().connect()
        threading.Thread(target=time.sleep, args=(10,), daemon=True).start()


@known_bad(caught_by="lifecycle.close.leaves-nothing")
class LeaksATask(Base):
    """Leaves a task waiting each time it is opened."""

    async def connect(self) -> None:
        await super().connect()
        KEPT.append(asyncio.create_task(asyncio.sleep(60)))
