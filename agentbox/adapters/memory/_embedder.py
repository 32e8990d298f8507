"""The port of embedders: text in, vectors out."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from agentbox_contracts.errors import BootError, UnknownAdapter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["GROUP", "Embedder", "Kind", "Vector", "create_embedder", "embedder_names", "vector_fingerprint"]

GROUP = "agentbox.embedders"
"""The entry points of this group are embedders of other packages: functions that take the adapter's settings."""

Kind = Literal["document", "query"]
Vector: TypeAlias = "array[float] | npt.NDArray[np.float32]"
"""32-bit floats that offer the buffer protocol; not all of them zero."""


class Embedder(Protocol):
    """
    What turns text into vectors of one length.

    Two embedders whose vectors may be compared have the same `fingerprint`, and no others. `semantic` is false for one
    that compares letters and not meanings. What an embedder cannot embed, such as blank text, is a zero vector.
    """

    @property
    def name(self) -> str:
        """What the manifest calls it."""

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""

    @property
    def semantic(self) -> bool:
        """Whether near means alike in meaning."""

    @property
    def fingerprint(self) -> str:
        """What a namespace is bound to."""

    async def open(self) -> None:
        """Make ready. Raises AdapterUnavailable when something needed is missing, saying how to get it."""

    async def close(self) -> None:
        """Release everything. A second time does nothing."""

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        """A vector for each text, in order; documents are what is found, queries what finds them."""


def create_embedder(name: str, settings: Any) -> Embedder:
    """
    The embedder of that name, not yet open; it takes what it needs from *settings*, the memory adapter's own.

    Raises:
        UnknownAdapter: There is none of that name.
        BootError: A module that it needs is not installed.
    """
    if name in _own():
        return _created(name, lambda: import_module(f"{_PACKAGE}.{name}").create, settings)
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        raise _unknown(name)
    from agentbox.adapters.memory._batching import Batched

    return Batched(_created(name, point.load, settings))


def embedder_names() -> list[str]:
    """Every embedder that can be named here, our own and installed plugins', without importing them."""
    return sorted({*_own(), *(point.name for point in entry_points(group=GROUP))})


def vector_fingerprint(dimensions: int) -> str:
    """What a namespace is bound to whose vectors callers bring themselves."""
    return f"vector:{dimensions}"


_PACKAGE = "agentbox.adapters.memory._embedders"


def _created(name: str, load: Any, settings: Any) -> Embedder:
    try:
        found: Embedder = load()(settings)
    except ImportError as error:
        remedy = "pip install 'agentbox[vectors]'" if error.name == "numpy" else "install what it needs"
        raise BootError(
            f"memory: the embedder {name!r} cannot be imported, {error}: {remedy}", slot="memory"
        ) from error
    return found


def _unknown(name: str) -> UnknownAdapter:
    names = embedder_names()
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownAdapter(
        f"memory: no embedder called {name!r}; known: {', '.join(names)}{hint}", slot="memory", id=name
    )


def _own() -> list[str]:
    package = import_module(_PACKAGE)
    return [module.name for module in iter_modules(package.__path__) if not module.name.startswith("_")]
