"""What known-bad beads are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec

from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.suites.bad import Base

__all__ = ["OnPaper", "Record", "Remembers", "Touches", "rewrite", "touched"]

Record = dict[str, Any]


def touched(bead: Any) -> Any:
    """*bead* as if somebody had written to it."""
    return attrs.evolve(bead, metadata={**bead.metadata, "touched": True})


class Remembers(Base):
    """Has a memory of its own, which it should not trust."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.memory: dict[Any, Any] = {}


class Touches(Remembers):
    """Refuses the call *on*, and has changed the bead all the same."""

    def __init_subclass__(cls, *, on: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if on:
            setattr(cls, on, _touching(cls, on))

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return touched(bead) if bead_id in self.memory else bead


def _touching(cls: Any, on: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: Any, **call: Any) -> Any:
        try:
            return await getattr(super(cls, self), on)(**call)
        except AgentboxError:
            self.memory[call.get("bead_id") or call.get("parent_id")] = True
            raise

    return method


class OnPaper(Base):
    """Tells what the call *on* would give, and writes nothing."""

    def __init_subclass__(cls, *, on: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if on:
            setattr(cls, on, _on_paper(cls, on))

    def told(self, bead: Any, **call: Any) -> Any:
        """The bead as it would be."""
        return touched(bead)


def _on_paper(cls: Any, on: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: Any, **call: Any) -> Any:
        return self.told(await super(cls, self).show(call["bead_id"]), **call)

    return method


def rewrite(path: str, change: Callable[[Record], Record | None]) -> None:
    """Change each record of a file; None drops it, and so does not being one."""
    kept = []
    for line in Path(path).read_bytes().splitlines():
        try:
            record = change(msgspec.json.decode(line, type=Record))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if record is not None:
            kept.append(msgspec.json.encode(record) + b"\n")
    Path(path).write_bytes(b"".join(kept))
