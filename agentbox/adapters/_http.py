"""The client side of a host: calls derived from the ports' routes, over one pool of connections an adapter."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import attrs
import httpx
from msgspec import Meta, Struct
from msgspec.structs import fields
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentbox.adapters._retry import Retries, pause
from agentbox_contracts.context import execution_id, fitting, session_id
from agentbox_contracts.contract import Contract, Method, Secret, Settings
from agentbox_contracts.errors import (
    AdapterDisabled,
    AdapterFailed,
    AdapterUnavailable,
    AgentboxError,
    BootError,
    InvalidInput,
)
from agentbox_contracts.wire import decode, encode, error_of

__all__ = ["Answer", "Client", "Endpoint", "HttpSettings"]

T = TypeVar("T")

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 45.0

_propagator = TraceContextTextMapPropagator()


@attrs.frozen(kw_only=True)
class HttpSettings(Settings):
    """
    How the host is reached. `url` and `token` come from `[federation]` unless they are given here.

    Without a token, the file `token_file` in the state folder is read: a host in the same folder leaves one there.
    `retry_seconds` is how long a call that may be repeated is repeated. `ca_file` replaces the system's certificates.
    """

    url: str
    token: Secret | None = None
    token_file: Path = Path("host.token")
    pool_size: Annotated[int, Meta(ge=1, le=1000)] = 64
    retry_seconds: Annotated[float, Meta(ge=0, le=600)] = 20.0
    ca_file: Path | None = None


class Client:
    """One slot of one host. Errors come back as the classes that the host raised."""

    def __init__(self, contract: Contract, settings: HttpSettings) -> None:
        self._contract = contract
        self._settings = settings
        self._http: httpx.AsyncClient | None = None
        self._retries = Retries(settings.retry_seconds)
        self.url = settings.url.rstrip("/")

    async def open(self) -> dict[str, Any]:
        """Make the pool and shake hands. What the host says of the slot; raises when the two cannot work together."""
        await self.connect()
        meta = await self._retried(lambda: self._exchange("GET", "/v1/meta"), safe=True)
        slot: dict[str, Any] = self.read(meta, _Meta).slots[self._contract.slot]
        return slot

    async def connect(self) -> None:
        """Make the pool, if there is none."""
        if self._http is None:
            limits = httpx.Limits(max_connections=self._settings.pool_size)
            timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
            verify = (
                await asyncio.to_thread(_certificates, self._settings.ca_file)
                if self.url.startswith("https")
                else False
            )
            self._http = httpx.AsyncClient(base_url=self.url, limits=limits, timeout=timeout, verify=verify)

    async def close(self) -> None:
        """Close the pool. A second time does nothing."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def health(self) -> bytes:
        """What the host says of its slots, well or not."""
        return await self._exchange("GET", "/health", accepted=(503,))

    async def call(self, name: str, /, *, safe: bool, **arguments: Any) -> Any:
        """
        Call the port's method *name* at the host.

        With *safe* it may be repeated after it was perhaps carried out, because it is idempotent or has a key. A call
        that never left is repeated in any case.
        """
        method = self._contract.methods[name]
        verb, path, query, body = _request(method, arguments)
        data = await self._retried(lambda: self._exchange(verb, path, params=query, content=body), safe=safe)
        return self.read(data, method.result)

    @staticmethod
    def never_sent(error: AgentboxError) -> bool:
        """Whether a call that failed with *error* has surely not been carried out, because it never left."""
        return isinstance(error.__cause__, NEVER_SENT)

    def read(self, data: bytes, type: Any) -> Any:
        """An answer as a value of *type*. That it is none is the host's fault, and no InvalidInput of the caller's."""
        try:
            return decode(data, type)
        except InvalidInput as error:
            raise AdapterFailed(f"{self.url} answered, and not as an agentbox host does: {error.message}") from error

    async def post(self, path: str, content: bytes, *, headers: dict[str, str], params: dict[str, str]) -> bytes:
        """Send *content* as it is. Safe to repeat."""
        send = lambda: self._exchange("POST", path, params=params, content=content, headers=headers)  # noqa: E731
        return await self._retried(send, safe=True)

    async def send(self, path: str, content: bytes, headers: dict[str, str]) -> bytes:
        """Send *content* as it is, once."""
        return await self._exchange("POST", path, content=content, headers=headers)

    async def stream(self, name: str, /, **arguments: Any) -> AsyncIterator[Any]:
        """The port's stream *name*. A connection that breaks is made anew and goes on behind the last event."""
        method = self._contract.methods[name]
        verb, path, query, _ = _request(method, arguments)
        last: str | None = None
        failures = 0
        while True:
            headers = {"Last-Event-ID": last} if last is not None else {}
            try:
                async with aclosing(self._events(verb, path, query, headers)) as events:
                    async for cursor, data in events:
                        last, failures = cursor or last, 0
                        yield self.read(data, method.result)
                return
            except _Cut as cut:
                failures += 1
                if failures > 8:
                    raise AdapterUnavailable(f"{self.url} breaks the stream again and again: {cut}") from cut
                await asyncio.sleep(pause(failures))

    async def _events(
        self, verb: str, path: str, query: dict[str, Any], headers: dict[str, str]
    ) -> AsyncGenerator[tuple[str | None, bytes], None]:
        """Cursor and data of each event of one connection. Raises _Cut when it ends before the stream has."""
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        headers = headers | self._headers() | {"Accept": "text/event-stream"}
        try:
            async with self._pool().stream(verb, path, params=query, headers=headers, timeout=timeout) as response:
                if response.status_code != 200:
                    self._raise(response.status_code, await response.aread())
                cursor: str | None = None
                kind, data = b"", b""
                async for line in _lines(response):
                    field, _, value = line.partition(b": ")
                    if field == b"id":
                        cursor = value.decode()
                    elif field == b"event":
                        kind = value
                    elif field == b"data":
                        data = value
                    elif not line and data:
                        if kind == b"end":
                            return
                        if kind == b"problem":
                            raise error_of(self.read(data, dict[str, Any]))
                        yield cursor, data
                        kind, data = b"", b""
        except httpx.HTTPError as error:
            raise _Cut(str(error) or type(error).__name__) from error
        raise _Cut("the host closed the connection")

    async def _retried(self, attempt: Callable[[], Awaitable[bytes]], *, safe: bool) -> bytes:
        """*attempt*, repeated when it never left or is *safe* to repeat."""

        def may(error: AgentboxError) -> bool:
            return self._http is not None and (safe or self.never_sent(error))

        return await self._retries.run(attempt, may=may)

    async def _exchange(
        self,
        verb: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        accepted: tuple[int, ...] = (),
        **options: Any,
    ) -> bytes:
        sent = self._headers() | ({"Content-Type": "application/json"} if options.get("content") else {})
        try:
            response = await self._pool().request(verb, path, headers=sent | (headers or {}), **options)
        except NEVER_SENT as error:
            raise AdapterUnavailable(f"the host {self.url} cannot be reached: {_told(error)}") from error
        except httpx.HTTPError as error:
            raise AdapterUnavailable(f"the host {self.url} did not answer: {_told(error)}") from error
        if response.status_code >= 400 and response.status_code not in accepted:
            self._raise(response.status_code, response.content)
        return response.content

    def _raise(self, status: int, body: bytes) -> None:
        """The error that an answer stands for."""
        try:
            problem = json.loads(body)
        except ValueError:
            problem = None
        if isinstance(problem, dict) and "code" in problem:
            error = error_of(problem)
            # On this side the slot is on. At a host that came back before its store did, it is off for a while.
            if isinstance(error, AdapterDisabled) and error.resource == self._contract.slot:
                raise AdapterUnavailable(f"at the host {self.url}, {error.message}") from error
            raise error
        if status in (429, 502, 503, 504):
            raise AdapterUnavailable(f"{self.url} answered {status}, and not as an agentbox host does")
        raise AdapterFailed(f"{self.url} answered {status}, and not as an agentbox host does; is the address right?")

    def _pool(self) -> httpx.AsyncClient:
        if self._http is None:
            raise AdapterUnavailable(f"the connection to {self.url} is not open")
        return self._http

    def _headers(self) -> dict[str, str]:
        headers = {"Agentbox-Contract": self._contract.version}
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        for name, given in (("Agentbox-Session-Id", session_id.get()), ("Agentbox-Execution-Id", execution_id.get())):
            value = fitting(given) or ""
            # Others are no value of a header, or not one that comes through as it was.
            if value and value == value.strip() and value.isascii() and value.isprintable():
                headers[name] = value
        _propagator.inject(headers)
        return headers

    def _token(self) -> str | None:
        if self._settings.token is not None:
            return self._settings.token.reveal()
        try:
            return self._settings.token_file.read_text().strip()
        except OSError:
            return None


@attrs.frozen
class Answer:
    """What a service answered. `retry_after` is how many seconds it asks to wait, None when it does not."""

    status: int
    content: bytes = attrs.field(repr=False)
    retry_after: float | None


class Endpoint:
    """One address of a service that is no host of ours: JSON is posted there, and whatever it answers comes back."""

    def __init__(self, url: str, *, key: Secret | None, timeout_seconds: float, ca_file: Path | None = None) -> None:
        self.url = url
        self._key = key
        self._timeout = timeout_seconds
        self._ca_file = ca_file
        self._http: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Make the pool. Nothing is sent."""
        if self._http is None:
            verify = await asyncio.to_thread(_certificates, self._ca_file) if self.url.startswith("https") else False
            timeout = httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS))
            self._http = httpx.AsyncClient(timeout=timeout, verify=verify)

    async def close(self) -> None:
        """Close the pool. A second time does nothing."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def post(self, content: bytes) -> Answer:
        """Send *content* once. Raises AdapterUnavailable when there is no answer in time."""
        if self._http is None:
            raise AdapterUnavailable(f"the connection to {self.url} is not open")
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._http.post(self.url, content=content, headers=headers)
        except (httpx.HTTPError, TimeoutError) as error:
            raise AdapterUnavailable(f"{self.url} did not answer: {_told(error)}") from error
        return Answer(response.status_code, response.content, _seconds(response.headers.get("Retry-After")))


class _Meta(Struct):
    """What is read of `/v1/meta`."""

    slots: dict[str, dict[str, Any]]


class _Cut(Exception):
    """A stream's connection ended before the stream did."""


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The lines of a stream. Only a line feed ends one: JSON may hold whatever else Unicode takes for a line's end."""
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line


def _request(method: Method, arguments: dict[str, Any]) -> tuple[str, str, dict[str, Any], bytes | None]:
    """Verb, path, query and body of a call. What is None is left out, where that is the default."""
    assert method.route is not None
    names = re.findall(r"\{(\w+)\}", method.route.path)
    path = method.route.path.format(**{name: _piece(str(arguments[name])) for name in names})
    needed = _required(method)
    rest = {
        name: value for name, value in arguments.items() if (value is not None or name in needed) and name not in names
    }
    if method.route.verb in ("GET", "DELETE"):
        return method.route.verb, path, rest, None
    return method.route.verb, path, {}, encode(rest)


@cache
def _required(method: Method) -> frozenset[str]:
    """The arguments that have no default."""
    return frozenset(field.name for field in fields(method.arguments) if field.required)


def _piece(name: str) -> str:
    """*name* as one piece of an address. Dots alone would be a step up the path."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _certificates(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except OSError as error:
        raise BootError(f"ca_file {ca_file} cannot be read: {error}") from error


def _seconds(retry_after: str | None) -> float | None:
    """The seconds of a Retry-After header; a date, which hardly anyone sends, counts as none."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None
