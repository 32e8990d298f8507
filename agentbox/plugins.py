"""Find implementations by name: our own modules by convention, other packages' by entry point."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from agentbox_contracts.contract import BaseAdapter
from agentbox_contracts.errors import BootError, UnknownAdapter

__all__ = ["adapter_class", "adapter_names", "load", "missing", "unknown"]

# Which extra brings which module, so that a missing one can be named.
EXTRAS = {
    "asyncpg": "postgres",
    "nats": "nats",
    "starlette": "host",
    "uvicorn": "host",
    "uvloop": "host",
    "httptools": "host",
    "usearch": "vectors",
    "numpy": "vectors",
    "pyoxigraph": "pods",
    "websockets": "pods",
    "mcp": "mcp",
    "pytest": "suite",
    "pytest_asyncio": "suite",
    "hypothesis": "suite",
    "opentelemetry.exporter": "otlp",
}


def adapter_class(slot: str, impl: str) -> type[BaseAdapter]:
    """
    The class behind `<slot> = "<impl>"`, imported now and not before.

    Raises:
        UnknownAdapter: Neither a module here nor an entry point has that name.
        BootError: It is there, but an import of it fails; the message says what to install.
    """
    module = f"agentbox.adapters.{slot}.{impl.replace('-', '_')}"
    if not impl.startswith("_"):
        try:
            found: type[BaseAdapter] = importlib.import_module(module).Adapter
        except ModuleNotFoundError as error:
            if error.name != module:
                raise missing(f"{slot} {impl!r}", error) from error
        else:
            return found
    if _point(f"agentbox.{slot}", impl) is not None:
        return _checked(slot, impl, load(f"agentbox.{slot}", impl))
    raise unknown(slot, impl)


def adapter_names(slot: str) -> list[str]:
    """Every name that can be resolved for *slot* here, our own and installed plugins', without importing them."""
    package = importlib.import_module(f"agentbox.adapters.{slot}")
    own = [m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]
    return sorted({*own, *(point.name for point in entry_points(group=f"agentbox.{slot}"))})


def load(group: str, name: str) -> Any:
    """
    What the entry point *name* of *group* (`agentbox.engines`, `agentbox.targets`, `agentbox.embedders`…) provides.

    Raises:
        UnknownAdapter: There is none.
        BootError: Its import fails.
    """
    point = _point(group, name)
    if point is None:
        names = sorted(entry.name for entry in entry_points(group=group))
        raise UnknownAdapter(f"{group}: nothing called {name!r}; known: {', '.join(names) or 'none'}", id=name)
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise missing(f"{group} {name!r}", error) from error
    except (ImportError, AttributeError) as error:
        raise BootError(f"{group}: {name!r} ({point.value}) cannot be imported: {error}", id=name) from error


def unknown(slot: str, impl: str) -> UnknownAdapter:
    """The error for a name that nothing provides, with what would have worked."""
    names = adapter_names(slot)
    near = get_close_matches(impl, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownAdapter(
        f"{slot}: no adapter called {impl!r} in this version; known: {', '.join(names)}{hint}", slot=slot, id=impl
    )


def _point(group: str, name: str) -> Any:
    return next(iter(entry_points(group=group, name=name)), None)


def _checked(slot: str, impl: str, found: Any) -> type[BaseAdapter]:
    if not (isinstance(found, type) and issubclass(found, BaseAdapter)):
        raise BootError(
            f"{slot}: {impl!r} leads to {found!r}, which is not a subclass of BaseAdapter", slot=slot, id=impl
        )
    return found


def missing(what: str, error: ModuleNotFoundError) -> BootError:
    """The error for a module that *what* needs and that is not installed, with what to install."""
    name = error.name or str(error)
    extra = next((extra for module, extra in EXTRAS.items() if name == module or name.startswith(f"{module}.")), None)
    remedy = f"pip install 'agentbox[{extra}]'" if extra else f"install the package that provides {name!r}"
    return BootError(f"{what} needs the module {name!r}, which is not installed: {remedy}")
