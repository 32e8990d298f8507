"""
A connection to NATS that comes back by itself, and its errors in the contract's words.

A request that has no answer is asked again, with the same message id, until its time is over: the server keeps one of
any number of messages with the same id, so that asking again is safe.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from agentbox.adapters._retry import pause
from agentbox_contracts.errors import AdapterFailed, AdapterTimeout, AdapterUnavailable, AgentboxError, InvalidInput

__all__ = ["Link", "Refused"]

T = TypeVar("T")

ANSWER_SECONDS = 5.0
AGAIN_SECONDS = 0.1
PING_SECONDS = 5
OLDEST = (2, 12)
RESETS = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
QUOTED = re.compile("'(.+)'")

# Too many batches at once; a batch of which a piece was lost with its connection.
_PASSING = (10210, 10176)
_PASSING_STATUS = (429, 503)


class Refused(Exception):
    """JetStream said no. `code` is its own number for why."""

    def __init__(self, code: int, status: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.is_passing = code in _PASSING or status in _PASSING_STATUS


class _Client(Client):
    """
    The driver, more careful about TLS.

    With a server that does not ask for TLS it would go on in the open; and after a handshake that failed it would wait
    for ever for the end of a connection that has none.
    """

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except ssl.SSLError:
            self._transport = None
            raise

    def _connect_command(self) -> bytes:
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise nats.errors.Error("the server offers no TLS, and the url asks for it")
        return super()._connect_command()


class Link:
    """One connection. Whatever is asked over it either has an answer or raises one of the contract's errors."""

    def __init__(self, servers: tuple[str, ...], *, logger: logging.Logger, retry_seconds: float) -> None:
        self.where = ", ".join(servers)
        self._servers = list(servers)
        self._logger = logger
        self._retry_seconds = retry_seconds
        self._client: Client | None = None
        self._waiting: set[asyncio.Timeout] = set()
        self._last_error = ""
        self._was_told = ""
        self._was_reset = False

    @property
    def max_payload(self) -> int:
        """The longest message that the server takes, as it said when it was last connected."""
        if self._client is None:
            raise AdapterUnavailable("events external-nats is not connected")
        return self._client.max_payload

    async def open(self, *, tls: ssl.SSLContext | None, login: Mapping[str, str | None]) -> None:
        """Connect. Raises AdapterUnavailable when nobody answers, or not as a NATS with JetStream does."""
        options: dict[str, Any] = {
            "servers": self._servers,
            "name": "agentbox",
            "error_cb": self._note,
            "disconnected_cb": self._lost,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": AGAIN_SECONDS,
            "connect_timeout": ANSWER_SECONDS,
            "ping_interval": PING_SECONDS,
            "tls": tls,
            **login,
        }
        client = await self._connected(options)
        # To begin with, an address that does not answer is an error; later it is waited for.
        client.options["max_reconnect_attempts"] = -1
        self._client = client
        version = client.connected_server_version
        if (version.major, version.minor) < OLDEST:
            raise AdapterUnavailable(f"{self.where} is NATS {version}, and 2.12 is the oldest that will do")

    async def _connected(self, options: dict[str, Any]) -> Client:
        """
        A client that is connected.

        A server that refuses says why and closes the connection; the reset that follows can overtake its words. So
        where a connection was reset and nothing was said, it is asked again for as long as an answer may take.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_SECONDS
        while True:
            self._last_error = self._was_told = ""
            self._was_reset = False
            client = _Client()
            try:
                await client.connect(**options)
            except BaseException as error:
                await _closed(client)
                if not isinstance(error, Exception):
                    raise
                if self._was_told or not self._was_reset or loop.time() + AGAIN_SECONDS > until:
                    raise AdapterUnavailable(f"{self.where}: {self._why(error)}") from error
            else:
                return client
            await asyncio.sleep(AGAIN_SECONDS)

    async def close(self) -> None:
        """Close the connection. A second time does nothing."""
        client, self._client = self._client, None
        if client is not None:
            await _closed(client)

    async def ask(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Any:
        """
        What JetStream answers on *subject*, asked again while there is none.

        Raises:
            Refused: It says no, and would again.
            AdapterUnavailable, AdapterTimeout: There was no answer in time.
        """
        return await self.again(lambda: self.asked_once(subject, payload, headers))

    async def looked(self, subject: str) -> None:
        """Ask once whether there is an answer now. Raises AdapterUnavailable or AdapterTimeout when there is none."""
        try:
            await self.asked_once(subject)
        except Refused as error:
            raise AdapterUnavailable(f"{self.where}: {error}") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise self._translated(error) from error

    async def again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """*attempt*, until it does not fail for a passing reason, or time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._retry_seconds
        number = 0
        while True:
            number += 1
            try:
                return await attempt()
            except Refused as error:
                if not error.is_passing:
                    raise
                failure: AgentboxError = AdapterUnavailable(f"{self.where}: {error}")
            except nats.errors.MaxPayloadError:
                longest = f"{self.max_payload:,} bytes; the server's max_payload decides"
                raise InvalidInput(f"{self.where} takes messages of at most {longest}") from None
            except (nats.errors.Error, OSError, TimeoutError) as error:
                failure = self._translated(error)
            if (wait := pause(number)) + loop.time() > until:
                raise failure
            await asyncio.sleep(wait)

    async def tell(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> None:
        """Send without waiting for an answer."""
        await self._open().publish(subject, payload, headers=dict(headers))

    async def asked_once(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Any:
        """As `ask`, but not again: for what is told apart by each attempt. Raises the driver's errors too."""
        return _answer((await self.fetched(subject, payload, headers)).data)

    async def fetched(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Msg:
        """The one message that answers a request. Raises the driver's errors, and TimeoutError."""
        client, given = self._open(), dict(headers) if headers else None
        async with self._patience():
            # Ours ends first: it also ends with the connection, where the driver would wait for nothing.
            return await client.request(subject, payload, timeout=2 * ANSWER_SECONDS, headers=given)

    @asynccontextmanager
    async def heard(self, subject: str, hear: Callable[[Msg], None]) -> AsyncIterator[None]:
        """Give whatever comes on *subject* to *hear* for as long as the block lasts."""

        async def callback(message: Msg) -> None:
            hear(message)

        subscription = await self._open().subscribe(subject, cb=callback)
        try:
            yield
        finally:
            await _ended(subscription.unsubscribe())

    async def collected(self, subject: str, payload: bytes) -> list[Msg]:
        """All answers to one request, up to and with the one that ends them. Raises TimeoutError after a silence."""
        client = self._open()
        answers: list[Msg] = []
        came = asyncio.Event()

        def hear(message: Msg) -> None:
            answers.append(message)
            came.set()

        inbox = client.new_inbox()
        async with self.heard(inbox, hear):
            await client.publish(subject, payload, reply=inbox)
            while not (answers and answers[-1].headers and "Status" in answers[-1].headers):
                came.clear()
                async with self._patience():
                    await came.wait()
        return answers

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        """Wait for an answer, not longer than one may take, and not after the connection is gone."""
        async with asyncio.timeout(ANSWER_SECONDS) as scope:
            self._waiting.add(scope)
            try:
                yield
            finally:
                self._waiting.discard(scope)

    async def _lost(self) -> None:
        self._was_told = ""
        now = asyncio.get_running_loop().time()
        for scope in self._waiting:
            scope.reschedule(now)

    def _open(self) -> Client:
        if self._client is None:
            raise AdapterUnavailable("events external-nats is not connected")
        if self._client.is_closed:
            why = self._was_told or self._last_error
            raise AdapterUnavailable(f"{self.where}: the connection was closed ({why})")
        if not self._client.is_connected:
            # What is sent now would wait in a buffer, and be sent once more by whoever tries again.
            raise nats.errors.ConnectionReconnectingError
        return self._client

    def _translated(self, error: Exception) -> AgentboxError:
        client = self._client
        if isinstance(error, nats.errors.NoRespondersError):
            failure: AgentboxError = AdapterUnavailable(f"{self.where} has no JetStream, or not yet")
        elif client is not None and client.is_connected and isinstance(error, TimeoutError):
            failure = AdapterTimeout(f"{self.where} did not answer in time")
        else:
            failure = AdapterUnavailable(f"{self.where}: {self._why(error)}")
        failure.__cause__ = error
        return failure

    def _why(self, error: BaseException) -> str:
        return self._was_told or self._last_error or _words(error)

    async def _note(self, error: Exception) -> None:
        self._last_error = _words(error)
        if told := _told(error):
            self._was_told = told
        elif isinstance(error, RESETS):
            self._was_reset = True  # which may be the end of what was told, and does not replace it
        else:
            self._was_told = ""
        client = self._client
        if client is not None and not client.is_connected and client._transport is not None:
            # The driver tries the next one without closing what has just failed.
            client._transport.close()  # type: ignore[no-untyped-call]
        self._logger.debug("nats", extra={"reason": self._last_error})


def _told(error: Exception) -> str:
    """What the server itself said, which the driver leaves in quotes; nothing when the error is not the server's."""
    found = QUOTED.fullmatch(_words(error)) if isinstance(error, nats.errors.Error) else None
    return found[1] if found else ""


def _answer(data: bytes) -> Any:
    try:
        answer = msgspec.json.decode(data)
        trouble = answer.get("error")
    except (msgspec.DecodeError, AttributeError) as error:
        raise AdapterFailed(f"the answer is not JetStream's: {data[:80]!r}") from error
    if trouble:
        description = str(trouble.get("description", "it gave no reason"))
        raise Refused(int(trouble.get("err_code", 0)), int(trouble.get("code", 0)), description)
    return answer


async def _closed(client: Client) -> None:
    try:
        await client.close()
    except (nats.errors.Error, OSError):
        return


async def _ended(unsubscribing: Awaitable[None]) -> None:
    try:
        await unsubscribing
    except (nats.errors.Error, OSError):
        return


def _words(error: BaseException) -> str:
    return f"{error}".strip().removeprefix("nats: ") or type(error).__name__
