"""
Known-bad adapters: each breaks one promise, and names the clause that must notice.

They are mixins that go before a real adapter of the slot and use nothing but its port, so that the suite can be proven
on top of any adapter. `agentbox contract --prove` runs the pairs and fails on a clause that catches nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import attrs

from agentbox_contracts.contract import BaseAdapter

__all__ = ["Base", "KnownBad", "known_bad", "known_bads"]

T = TypeVar("T", bound=type)

MODULES = ("lifecycle", "off", "network", "beads", "events", "memory", "orchestrator")

Base: Any = object
"""What a mixin is written upon; at run time the adapter that it spoils comes behind it."""


@attrs.frozen
class KnownBad:
    """A way to be wrong: its name, the clause that must catch it, and the mixin that does it."""

    name: str
    clause: str
    mixin: type

    @property
    def fault(self) -> str:
        """What it does wrong, in one sentence."""
        return " ".join((inspect.getdoc(self.mixin) or "").split())

    def derive(self, adapter: type[BaseAdapter]) -> type[BaseAdapter]:
        """*adapter*, spoiled."""
        return type(f"{self.mixin.__name__}{adapter.__name__}", (self.mixin, adapter), {})


_KNOWN: dict[str, KnownBad] = {}


def known_bad(caught_by: str) -> Callable[[T], T]:
    """Register a mixin under its class's name, with the id of the clause that must catch it."""

    def register(mixin: T) -> T:
        if mixin.__name__ in _KNOWN:
            raise ValueError(f"there are two known-bad adapters called {mixin.__name__}")
        _KNOWN[mixin.__name__] = KnownBad(mixin.__name__, caught_by, mixin)
        return mixin

    return register


@cache
def known_bads() -> dict[str, KnownBad]:
    """All of them by name."""
    for name in MODULES:
        importlib.import_module(f"{__name__}.{name}")
    return dict(_KNOWN)
