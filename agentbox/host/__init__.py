"""An agentbox that serves its slots to others: `create_app(app)` is an ASGI application, `serve` runs it."""

from __future__ import annotations

from agentbox.host.asgi import create_app
from agentbox.host.server import serve

__all__ = ["create_app", "serve"]
