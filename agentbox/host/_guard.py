"""What every request passes before it reaches a slot: its host, its origin, its token, its share of the rate."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from agentbox.host._answers import Refusal
from agentbox.host._observed import Headers
from agentbox.host._requests import Request
from agentbox.host.auth import Token, Tokens

__all__ = ["Guard", "Rate"]

HEADER_BYTES = 32 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Rate:
    """A bucket for each token that fills steadily and holds what comes in one second."""

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> float:
        """Take one. Zero, or the seconds until there is one again."""
        now = self._clock()
        left, then = self._buckets.get(who, (self._per_second, now))
        left = min(self._per_second, left + (now - then) * self._per_second)
        if left < 1:
            self._buckets[who] = (left, now)
            return (1 - left) / self._per_second
        self._buckets[who] = (left - 1, now)
        return 0.0


@attrs.frozen(kw_only=True)
class Guard:
    """The checks, in the order that tells a stranger least."""

    tokens: Tokens
    rate: Rate
    hosts: frozenset[str]
    origins: frozenset[str]

    def check_place(self, request: Request) -> None:
        """Refuse a request that a browser was tricked into: another host's name, another page's origin."""
        headers = request.headers
        if sum(len(name) + len(value) for name, value in request.scope["headers"]) > HEADER_BYTES:
            raise Refusal(431, "the headers are too long")
        if _name_of(headers.get("host", "")) not in self.hosts:
            raise Refusal(421, "this host does not answer to that name")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise Refusal(403, "requests from that origin are not taken")

    def identify(self, headers: Headers) -> Token:
        """The token of the request. One answer for none, a malformed and a wrong one."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        token = self.tokens.find(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise Refusal(401, "a valid token is needed", {"WWW-Authenticate": "Bearer"})
        if wait := self.rate.take(token.id):
            raise Refusal(429, "too many requests for this token", {"Retry-After": str(max(1, round(wait)))})
        return token


def _name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
