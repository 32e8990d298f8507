"""Choosing events by type."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["matcher"]


def matcher(types: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether a type is one of *types*, of which `name.*` stands for all that begin with `name.`; None for any."""
    if not types:
        return None
    exact = frozenset(types)
    prefixes = tuple(name[:-1] for name in types if name.endswith(".*"))
    return lambda kind: kind in exact or kind.startswith(prefixes)
