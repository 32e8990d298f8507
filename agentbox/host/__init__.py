"""An agentbox that serves its slots to others: `create_app(app)` is an ASGI application, `serve` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentbox.host.asgi import create_app
    from agentbox.host.server import serve

__all__ = ["create_app", "serve"]


def __getattr__(name: str) -> Any:
    """What speaks HTTP needs the extra `host`; tokens, and the host on standard input and output, do not."""
    if name == "create_app":
        from agentbox.host.asgi import create_app

        return create_app
    if name == "serve":
        from agentbox.host.server import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
