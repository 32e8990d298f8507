"""What every port, adapter and contract is made of."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, get_origin, get_type_hints

import attrs
import msgspec

__all__ = [
    "SLOTS",
    "Adapter",
    "BaseAdapter",
    "Contract",
    "Durability",
    "Health",
    "Instant",
    "JsonObject",
    "Key",
    "Method",
    "Page",
    "Probe",
    "Route",
    "Secret",
    "Settings",
    "State",
    "resolve_paths",
    "route",
]

SLOTS = ("beads", "pods", "memory", "events", "orchestrator")

State = Literal["healthy", "degraded", "off"]
Durability = Literal["none", "memory", "os", "fsync", "spooled", "quorum"]

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment: an aware datetime, UTC on the wire."""

JsonObject = dict[str, Any]
"""Any JSON object. Finite numbers, at most 1 MiB encoded and 64 levels deep."""

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
"""An idempotency key: the same key within 24 hours is one write with one result."""

T = TypeVar("T")
S = TypeVar("S", bound=attrs.AttrsInstance)
F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen
class Health:
    """What an adapter says of itself now."""

    state: State
    reason: str = ""


@attrs.frozen(kw_only=True)
class Probe:
    """What the app says of one slot."""

    slot: str
    state: State
    reason: str
    checked_at: Instant


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """A piece of a long list. *next* is the `after` of the following piece, None when this was the last."""

    items: list[T]
    next: str | None = None


class Secret:
    """
    A secret that the manifest names by reference (`env:NAME`, `file:PATH`) and never by value.

    It prints as its reference. `reveal()` reads the value anew each time, so that a rotated secret is seen.
    """

    __slots__ = ("_read", "reference")

    def __init__(self, reference: str, read: Callable[[], str]) -> None:
        self.reference = reference
        self._read = read

    def reveal(self) -> str:
        """The value itself. Raises ManifestError when the reference leads nowhere."""
        return self._read()

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"


@attrs.frozen(kw_only=True)
class Settings:
    """
    Settings of one adapter, read from `[<slot>.<impl>]`.

    A subclass adds its own fields. A `Path` is taken as inside the state folder unless absolute; a `Secret` is written
    as a reference. None for the two below means: as `[adapters_policy]` says.
    """

    connect_timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None


class Adapter(Protocol):
    """What every adapter offers besides the methods of its port."""

    slot: str
    impl: str
    enabled: bool
    contract_version: str
    capabilities: frozenset[str]
    durability: Durability

    async def connect(self) -> None:
        """Open what the adapter needs, ready for calls. Raises AdapterUnavailable when that cannot be had."""

    async def disconnect(self) -> None:
        """Close everything. Calls already handed to the store complete. A second time does nothing."""

    async def health(self) -> Health:
        """A real look at the store behind the adapter. Does not raise for an unhealthy store."""


class BaseAdapter:
    """
    The base that adapters share: identity, settings, and the lifecycle's defaults.

    A subclass names its `settings_class`, `contract_version`, `capabilities` and `durability`, and implements its port.
    """

    settings_class: ClassVar[type[Settings]] = Settings
    enabled: bool = True
    contract_version: str = "0.0.0"
    capabilities: frozenset[str] = frozenset()
    durability: Durability = "none"

    def __init__(self, *, slot: str, impl: str, config: Settings, logger: logging.Logger) -> None:
        self.slot = slot
        self.impl = impl
        self.config = config
        self.logger = logger

    @property
    def location(self) -> str | None:
        """Where the state lives, for people: a path or an address without secrets."""
        return None

    @property
    def advice(self) -> str:
        """What could be had that is not, for people: how to get a better durability. Empty when there is nothing."""
        return ""

    @property
    def limits(self) -> Mapping[str, float]:
        """Bounds of this adapter's own that the port does not have, or leaves open, by name. Shown in `/v1/meta`."""
        return {}

    async def connect(self) -> None:
        """Nothing to open by default."""

    async def disconnect(self) -> None:
        """Nothing to close by default."""

    async def health(self) -> Health:
        """Healthy by default."""
        return Health("healthy")


@attrs.frozen
class Route:
    """How a port method looks over HTTP."""

    verb: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    status: int = 200


def route(verb: Literal["GET", "POST", "PUT", "PATCH", "DELETE"], path: str, *, status: int = 200) -> Callable[[F], F]:
    """
    Declare the HTTP form of a port method. Server, client and OpenAPI are derived from it.

    A stream may share its address with a method that gives a page: `Accept: text/event-stream` asks for the stream.
    """

    def mark(function: F) -> F:
        function.__route__ = Route(verb, path, status)  # type: ignore[attr-defined]
        return function

    return mark


@attrs.frozen(eq=False)
class Method:
    """One method of a port: its arguments as a strict struct, its result type, its route."""

    name: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    result: Any
    stream: bool
    route: Route | None

    @property
    def doc(self) -> str:
        """The promise, as the port's docstring has it."""
        return inspect.getdoc(self.function) or ""

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Method:
        """Read a port method's signature."""
        hints = get_type_hints(function, include_extras=True)
        result = hints.pop("return")
        stream = get_origin(result) is AsyncIterator
        fields: list[Any] = []
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            field: tuple[Any, ...] = (parameter.name, hints[parameter.name])
            if parameter.default is not parameter.empty:
                field += (_default(parameter.default),)
            fields.append(field)
        arguments = msgspec.defstruct(_camel(name), fields, kw_only=True, forbid_unknown_fields=True)
        return cls(
            name=name,
            function=function,
            arguments=arguments,
            result=result.__args__[0] if stream else result,
            stream=stream,
            route=getattr(function, "__route__", None),
        )


@attrs.frozen(eq=False)
class Contract:
    """
    Port and version of one slot. Types, errors and promises live beside the port.

    `capabilities` are what an adapter may do without: one that it does not declare it refuses with AdapterDisabled.
    """

    slot: str
    version: str
    port: type
    capabilities: frozenset[str] = frozenset()

    @functools.cached_property
    def methods(self) -> Mapping[str, Method]:
        """The port's methods by name, in the order of the port."""
        return {
            name: Method.of(name, cast("Callable[..., Any]", function))
            for name, function in vars(self.port).items()
            if getattr(function, "__isabstractmethod__", False)
        }

    @property
    def accepts(self) -> str:
        """The range of versions this side can live with when the manifest does not say."""
        major, minor, _ = self.version.split(".")
        return f">={major}.0,<{int(major) + 1}" if int(major) else f">=0.{minor},<1"


def resolve_paths(settings: S, folder: Path) -> S:
    """*settings* with each relative Path, also in tables within, taken as inside *folder*."""
    found: dict[str, Any] = {}
    for field in attrs.fields(type(settings)):
        value = getattr(settings, field.name)
        if isinstance(value, Path) and not value.is_absolute():
            found[field.name] = folder / value
        elif attrs.has(type(value)):
            found[field.name] = resolve_paths(value, folder)
    return attrs.evolve(settings, **found) if found else settings  # type: ignore[misc]


def _default(value: Any) -> Any:
    return msgspec.field(default_factory=type(value)) if isinstance(value, (dict, list)) else value


def _camel(name: str) -> str:
    return "".join(word.title() for word in name.split("_"))
