"""Events in a stream of NATS JetStream that others run."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import attrs
from msgspec import Meta

from agentbox.adapters.events._line import Draft, drafts_of, ids_of_one_process
from agentbox.adapters.events._nats_link import Link, Refused
from agentbox.adapters.events._nats_reading import Places, Reader
from agentbox.adapters.events._nats_stream import cursor_stream, ensured, event_stream
from agentbox.adapters.events._nats_writing import LONGEST_BATCH, Message, Stored, Writer
from agentbox_contracts.contract import BaseAdapter, Durability, Health, Secret, Settings
from agentbox_contracts.errors import (
    AdapterDisabled,
    AdapterUnavailable,
    AgentboxError,
    InvalidInput,
    ManifestError,
)
from agentbox_contracts.events import CONTRACT, Event, Events, Receipt, Verdict

__all__ = ["Adapter", "NatsEvents", "NatsSettings"]

ADVICE = (
    "the server acknowledges before its disk has the event: set jetstream { sync_interval: always } there "
    'and server_sync = "always" here for fsync, or replicas = 3 for quorum'
)

FOLLOW_SECONDS = 1.0
# The bell is rung when a message arrives, which may be just before the stream has it.
ECHOES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)

_HOST = r"[^/@?#,\s]+"
_SEVERAL = "|".join(f"{scheme}://{_HOST}(, *({scheme}://)?{_HOST})*" for scheme in ("nats", "tls"))
# All are of one kind: a second address must not be one where the password goes in the open.
URLS = f"^({_SEVERAL})$"

Words = Annotated[str, Meta(min_length=1, max_length=200)]
Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=100)]


@attrs.frozen(kw_only=True)
class NatsSettings(Settings):
    """
    Where the server is, which stream is used, and what is known of the server that it does not tell its clients.

    `url` is one address or several of one kind with commas between. The stream is made when it is not there;
    `replicas`, `max_age_seconds` and `dedupe_window_seconds` must then be as said here where something is said.
    `server_sync` is what the server's `sync_interval` is: `always`, or the default, an interval.
    """

    url: Annotated[str, Meta(pattern=URLS)] = "nats://127.0.0.1:4222"
    stream: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+$", max_length=100)] = "AGENTBOX_EVENTS"
    subject: Token = "agentbox.events"
    user: Words | None = None
    password: Secret | None = None
    token: Secret | None = None
    tls_ca: Path | None = None
    replicas: Annotated[int, Meta(ge=1, le=5)] | None = None
    max_age_seconds: Annotated[float, Meta(gt=0)] | None = None
    dedupe_window_seconds: Annotated[float, Meta(gt=0)] | None = None
    server_sync: Literal["interval", "always"] = "interval"
    retry_seconds: Annotated[float, Meta(ge=0, le=600)] = 10.0


class NatsEvents(BaseAdapter, Events):
    """
    `seq` is the stream's own sequence. There is no chain: many writers at once, each waiting for the last one's hash,
    would be as slow as the slowest way to it, and the server's word is all that a reader has anyway.
    """

    settings_class = NatsSettings
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities - {"verify"}
    durability: Durability = "os"
    config: NatsSettings

    def __init__(self, *, slot: str, impl: str, config: NatsSettings, logger: logging.Logger) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._ids = ids_of_one_process()
        scheme, _, hosts = config.url.partition("://")
        servers = tuple(f"{scheme}://{part.strip().removeprefix(f'{scheme}://')}" for part in hosts.split(","))
        self._link = Link(servers, logger=logger, retry_seconds=config.retry_seconds)
        self._places = Places(self._link, f"{config.stream}_CURSORS", config.subject)
        self._writer = Writer(self._link, config.stream)
        self._bells: set[asyncio.Event] = set()
        self._listening: AsyncExitStack | None = None
        self._turn = asyncio.Lock()
        self._info = f"$JS.API.STREAM.INFO.{config.stream}"
        self.dedupe_window_seconds = 0.0

    @property
    def location(self) -> str:
        """The server's address and the stream."""
        return f"{self._link.where}/{self.config.stream}"

    @property
    def advice(self) -> str:
        """How to get more than the durability there is."""
        return ADVICE if self.durability == "os" else ""

    @property
    def limits(self) -> Mapping[str, float]:
        """How many events one `dispatch_many` takes, and for how long a second one is found."""
        return {"dispatch_many": LONGEST_BATCH, "dedupe_window_seconds": self.dedupe_window_seconds}

    async def connect(self) -> None:
        """Connect, and make the streams or check that they will do."""
        config = self.config
        try:
            login = {
                "user": config.user,
                "password": None if config.password is None else config.password.reveal(),
                "token": None if config.token is None else config.token.reveal(),
            }
        except ManifestError as error:
            raise AdapterUnavailable(error.message) from error
        await self._link.open(tls=_tls(config), login=login)
        found = await ensured(
            self._link,
            *event_stream(
                config.stream,
                config.subject,
                replicas=config.replicas,
                max_age=config.max_age_seconds,
                dedupe=config.dedupe_window_seconds,
            ),
        )
        replicas = found["num_replicas"]
        await ensured(self._link, *cursor_stream(config.stream, config.subject, replicas=replicas))
        longest = found.get("max_msg_size", -1)
        self._writer = Writer(self._link, config.stream, longest if longest > 0 else None)
        self.dedupe_window_seconds = found["duplicate_window"] / 1e9
        self.durability = "quorum" if replicas > 1 else "fsync" if config.server_sync == "always" else "os"

    async def disconnect(self) -> None:
        """Close the connection; whoever follows is told so."""
        await self._link.close()
        self._ring()

    async def health(self) -> Health:
        """Healthy when the server knows the stream."""
        try:
            await self._link.looked(self._info)
        except AgentboxError as error:
            return Health("degraded", error.message)
        return Health("healthy")

    async def dispatch(self, event: Event) -> Receipt:
        (draft,) = self._drafts([event])
        return self._receipt(draft, await self._writer.write(Message.of(draft, event.type, self.config.subject)))

    async def dispatch_many(self, events: list[Event]) -> list[Receipt]:
        if not events:
            return []
        drafts = self._drafts(events)
        pairs = zip(drafts, events, strict=True)
        messages = [Message.of(draft, event.type, self.config.subject) for draft, event in pairs]
        receipts: list[Receipt] = []
        seen: set[str] = set()
        for draft, message, stored in zip(drafts, messages, await self._writer.write_all(messages), strict=True):
            again = attrs.evolve(stored, duplicate=stored.duplicate or message.id in seen)
            receipts.append(self._receipt(draft, again))
            seen.add(message.id)
        return receipts

    async def read(self, *, after: int | None = None, limit: int = 1000, types: tuple[str, ...] = ()) -> list[Event]:
        reader, place, found = self._reader(types), after or 0, list[Event]()
        while len(found) < limit:
            page = await reader.page(place, limit - len(found))
            found += page.events
            place = page.place
            if page.is_last:
                break
        return found[:limit]

    async def subscribe(
        self, *, after: int | None = None, name: str | None = None, types: tuple[str, ...] = ()
    ) -> AsyncIterator[Event]:
        """As the port has it. A server that stays away for `retry_seconds` ends it with AdapterUnavailable."""
        place = after if after is not None else 0 if name is None else await self._places.place(name)
        reader, echo = self._reader(types), 0
        async with self._listened() as bell:
            while True:
                bell.clear()
                page = await reader.page(place)
                for event in page.events:
                    yield event
                place = page.place
                if page.is_last:
                    patience = ECHOES[echo] if echo < len(ECHOES) else FOLLOW_SECONDS
                    echo = 0 if await _rung(bell, patience) else echo + 1

    async def ack(self, name: str, seq: int) -> None:
        if seq > (last := await self._last()):
            raise InvalidInput(f"seq {seq} cannot be acknowledged: the log ends with {last}")
        await self._places.advance(name, seq)

    async def verify(self) -> Verdict:
        raise AdapterDisabled("external-nats has no hash chain to verify; its events are as good as the server's word")

    def _drafts(self, events: list[Event]) -> list[Draft]:
        return drafts_of(events, self._ids, datetime.now(UTC))

    def _receipt(self, draft: Draft, stored: Stored) -> Receipt:
        # An id that was made for this call can only be found again because an answer to it was lost.
        duplicate = stored.duplicate and draft.is_given
        return Receipt(id=draft.id, seq=stored.seq, durability=self.durability, duplicate=duplicate)

    def _reader(self, types: tuple[str, ...]) -> Reader:
        return Reader(self._link, self.config.stream, self.config.subject, types, self.logger)

    async def _last(self) -> int:
        """The seq with which the log ends."""
        try:
            found = await self._link.ask(self._info)
        except Refused as error:
            raise AdapterUnavailable(f"{self.location}: {error}") from error
        last: int = found["state"]["last_seq"]
        return last

    @asynccontextmanager
    async def _listened(self) -> AsyncIterator[asyncio.Event]:
        """A bell that is rung for every event on its way to the stream. All who follow share one subscription."""
        bell = asyncio.Event()
        async with self._turn:
            if not self._bells:
                self._listening = AsyncExitStack()
                hearing = self._link.heard(f"{self.config.subject}.>", lambda _: self._ring())
                await self._listening.enter_async_context(hearing)
            self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)
            async with self._turn:
                if not self._bells and self._listening is not None:
                    await self._listening.aclose()
                    self._listening = None

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()


async def _rung(bell: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    return True


def _tls(config: NatsSettings) -> ssl.SSLContext | None:
    if not config.url.startswith("tls://"):
        return None
    try:
        return ssl.create_default_context(cafile=config.tls_ca)
    except OSError as error:
        raise AdapterUnavailable(f"tls_ca: {config.tls_ca} cannot be used: {error}") from error


Adapter = NatsEvents
