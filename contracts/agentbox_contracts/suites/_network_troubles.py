"""What befalls the network between an adapter and its server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from agentbox_contracts.suites.faults import Proxy

__all__ = ["TROUBLES", "Trouble"]

MEGABYTE = 1_000_000


@attrs.frozen
class Trouble:
    """Harm to the connections that are open, and a script for those to come. It lasts until the proxy is healed."""

    name: str
    now: Callable[[Proxy], Awaitable[None]]
    script: str
    is_silent: bool = False

    async def strike(self, proxy: Proxy) -> None:
        """Let it begin."""
        proxy.follow(self.script)
        await self.now(proxy)


async def _refuse(proxy: Proxy) -> None:
    await proxy.refuse()
    await proxy.cut()


async def _slow(proxy: Proxy) -> None:
    await proxy.delay(0.01)
    await proxy.throttle(100_000)


TROUBLES = (
    Trouble("refused", _refuse, ""),
    Trouble("cut before the request", lambda proxy: proxy.truncate(0, "up"), "up after 0: cut"),
    Trouble("cut before the answer", lambda proxy: proxy.truncate(0), "down after 1: cut"),
    Trouble("cut within the answer", lambda proxy: proxy.truncate(40), "down after 40: cut"),
    Trouble("reset", Proxy.reset, "down after 1: reset"),
    Trouble("request held back", lambda proxy: proxy.hang("up"), "up after 0: hang", is_silent=True),
    Trouble("answer held back", lambda proxy: proxy.hang("down"), "down after 0: hang", is_silent=True),
    Trouble("half-closed by the server", lambda proxy: proxy.half_close("down"), "down after 0: half-close"),
    Trouble("half-closed by the client", lambda proxy: proxy.half_close("up"), "up after 0: half-close"),
    Trouble("slow", _slow, "down after 0: delay 0.01\nup after 0: throttle 100000\ndown after 0: throttle 100000"),
    Trouble("nonsense", lambda proxy: proxy.nonsense(MEGABYTE), f"down after 0: nonsense {MEGABYTE}"),
)
