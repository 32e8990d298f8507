"""Durable state and agent processes for agent hosts, behind five pluggable ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentbox.app import Adapters, App, open_app

__all__ = ["Adapters", "App", "__version__", "open_app"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the app when it is first asked for, so that `import agentbox` stays cheap."""
    if name in ("Adapters", "App", "open_app"):
        from agentbox import app

        return getattr(app, name)
    raise AttributeError(f"module 'agentbox' has no attribute {name!r}")
