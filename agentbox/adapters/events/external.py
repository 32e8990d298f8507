"""Events of a host, or of any CloudEvents endpoint, with a spool on this disk in front."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import attrs
from msgspec import Meta

from agentbox.adapters._external import ExternalAdapter
from agentbox.adapters._http import HttpSettings
from agentbox.adapters._lane import Lane
from agentbox.adapters._retry import pause
from agentbox.adapters._watch import Watch
from agentbox.adapters.events._endpoint import Endpoint
from agentbox.adapters.events._line import Draft, drafts_of, ids_of_one_process
from agentbox.adapters.events._log import Log
from agentbox.adapters.events._sender import Sender
from agentbox.adapters.events._spool import Spool
from agentbox_contracts import compatible
from agentbox_contracts.contract import Health, Secret
from agentbox_contracts.errors import AdapterDisabled, AdapterUnavailable, ContractMismatch
from agentbox_contracts.events import CONTRACT, Event, Events, Receipt, Verdict

__all__ = ["Adapter", "ExternalEvents", "ExternalEventsSettings"]

GREETING_SECONDS = 1.0
LOOK_SECONDS = 0.01
BATCH_JOBS = 1024


@attrs.frozen(kw_only=True)
class ExternalEventsSettings(HttpSettings):
    """
    `spool` is the folder in which events wait, at most `spool_bytes` of them. `linger_seconds` is how long closing
    waits for what is on its way.

    With `protocol = "cloudevents"`, `url` is the whole address of a CloudEvents endpoint, which gets batches unless
    `batch = false`, and `endpoint_token` as its bearer token; the host's token is not shown to it.
    """

    spool: Path = Path("events-spool")
    spool_bytes: Annotated[int, Meta(ge=4096)] = 256 << 20
    linger_seconds: Annotated[float, Meta(ge=0, le=600)] = 2.0
    busy_timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    protocol: Literal["agentbox", "cloudevents"] = "agentbox"
    batch: bool = True
    endpoint_token: Secret | None = None


class ExternalEvents(ExternalAdapter, Events):
    """
    A dispatch returns once the event is on this disk; a sender takes it to the host, in order, and the host keeps
    what comes twice once. The rest is asked of the host.

    A host that is out of reach does not switch the slot off: events wait, and `read` and `verify` say why they cannot.
    """

    settings_class = ExternalEventsSettings
    contract = CONTRACT
    contract_version = CONTRACT.version
    capabilities = CONTRACT.capabilities
    durability = "spooled"

    def __init__(
        self,
        *,
        slot: str,
        impl: str,
        config: ExternalEventsSettings,
        logger: logging.Logger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        pauses: Callable[[int], float] = pause,
    ) -> None:
        super().__init__(slot=slot, impl=impl, config=config, logger=logger)
        self._clock = clock
        self._ids = ids_of_one_process()
        self._spool = Spool(
            config.spool.absolute(),
            most_bytes=config.spool_bytes,
            busy_timeout_seconds=config.busy_timeout_seconds,
            clock=clock,
            tell=self._tell,
        )
        self._sender = Sender(self._spool, self._deliver, pause=pauses)
        self._sending: asyncio.Task[None] | None = None
        self._lane: Lane[Log] | None = None
        self._watch: Watch | None = None
        self._is_open = False
        self._has_met = False
        self._limits: dict[str, float] = {}
        if self._is_endpoint:
            self.capabilities = frozenset()

    def client(self) -> Any:
        """The host, or the endpoint."""
        if not self._is_endpoint:
            return super().client()
        return Endpoint(self.contract, self.config, batch=self.config.batch, token=self.config.endpoint_token)

    @property
    def _is_endpoint(self) -> bool:
        return bool(self.config.protocol == "cloudevents")

    @property
    def limits(self) -> Mapping[str, float]:
        """Those of the host, and how many bytes may wait for it."""
        return {**self._limits, "spool_bytes": self.config.spool_bytes}

    async def connect(self) -> None:
        """Open the spool, ask the host what it has if it can be reached, and begin to send."""
        try:
            await asyncio.to_thread(self._spool.prepare)
        except OSError as error:
            raise AdapterUnavailable(f"the spool {self._spool.folder} cannot be used: {error.strerror}") from error
        self._is_open = True
        await self._greet()
        self._watch = Watch()
        # In a context of its own: what is sent belongs to no session and no trace of whoever opened the app.
        sending = self._sender.run(self._watch)
        self._sending = asyncio.get_running_loop().create_task(sending, context=contextvars.Context())

    async def disconnect(self) -> None:
        """Finish what was begun, give what is on its way a moment, and leave the rest for the next time."""
        was_open, self._is_open = self._is_open, False
        lane, self._lane = self._lane, None
        if lane is not None:
            await lane.stop()
        if was_open:
            await self._linger()
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        await self._host.close()

    async def health(self) -> Health:
        """What the host says of the slot, and what waits for it here."""
        if not self._is_open:
            return Health("degraded", f"the connection to {self.location} is not open")
        waiting, refused = await asyncio.to_thread(lambda: (self._spool.waiting(), self._spool.refused()))
        waits = f"{waiting:,} events wait in the spool" if waiting else ""
        there = Health("healthy") if self._is_endpoint else await super().health()
        if self._sender.failure or there.state != "healthy":
            reasons = [self._sender.failure or there.reason, waits]
            return Health("degraded", "; ".join(filter(None, reasons)))
        if refused:
            kept = f"{refused:,} events were refused by {self.location} and lie in {self._spool.folder}/refused.jsonl"
            return Health("degraded", "; ".join(filter(None, (kept, waits))))
        return Health("healthy", waits)

    async def dispatch(self, event: Event) -> Receipt:
        (receipt,) = await self._spooled(drafts_of([event], self._ids, self._clock()))
        return receipt

    async def dispatch_many(self, events: list[Event]) -> list[Receipt]:
        return await self._spooled(drafts_of(events, self._ids, self._clock())) if events else []

    async def read(self, *, after: int | None = None, limit: int = 1000, types: tuple[str, ...] = ()) -> list[Event]:
        self._needs_log("read")
        call = self._host.call("read", safe=True, after=after, limit=limit, types=types)
        return cast("list[Event]", await call)

    async def subscribe(
        self, *, after: int | None = None, name: str | None = None, types: tuple[str, ...] = ()
    ) -> AsyncGenerator[Event, None]:
        """A connection that breaks is made anew, for as long as it takes, and goes on behind the last event."""
        self.needs("subscribe")
        if name is not None:
            self.needs("ack")
        failures = 0
        while True:
            try:
                stream = self._host.stream("subscribe", after=after, name=name, types=types)
                async with aclosing(stream) as events:
                    async for event in events:
                        after, failures = event.seq, 0
                        yield event
                return
            except AdapterUnavailable:
                if not self._is_open:
                    raise
                failures += 1
                await asyncio.sleep(pause(failures))

    async def ack(self, name: str, seq: int) -> None:
        self.needs("ack")
        await self._host.call("ack", safe=True, name=name, seq=seq)

    async def verify(self) -> Verdict:
        self.needs("verify")
        return cast("Verdict", await self._host.call("verify", safe=True))

    def needs(self, capability: str) -> None:
        self._needs_log(capability)
        super().needs(capability)

    def _needs_log(self, method: str) -> None:
        if self._is_endpoint:
            raise AdapterDisabled(f"{self.location} is a CloudEvents endpoint: it takes events and has no {method}")

    async def _spooled(self, drafts: list[Draft]) -> list[Receipt]:
        if self._sender.fatal is not None:
            raise ContractMismatch(self._sender.fatal.message)
        if self._lane is None:
            if not self._is_open:
                raise AdapterUnavailable(f"the connection to {self.location} is not open")
            self._lane = Lane(
                "agentbox-spool",
                acquire=self._spool.log,
                run=self._spool.append,
                release=Log.close,
                translated=lambda error: error,
                batch=BATCH_JOBS,
            )
        return await self._lane.run(drafts)  # type: ignore[no-any-return]

    async def _greet(self) -> None:
        """Meet the host now if it is there; the sender will, before the first event, if it is not."""
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(GREETING_SECONDS):
                    await self._meet()
                    return
            except AdapterUnavailable as error:
                self._tell(error.message)
                return
        self._tell(f"the host {self.location} did not answer within {GREETING_SECONDS:g} s")

    async def _meet(self) -> None:
        """
        Learn what the host has.

        Raises:
            ContractMismatch: The two do not understand each other.
            AdapterUnavailable: It is out of reach, or has no events.
        """
        found = await self._host.open()
        if self._is_endpoint or found["impl"] == "off":
            self._has_met = self._is_endpoint
            if not self._is_endpoint:
                raise AdapterUnavailable(f"events is off at the host {self.location}: {found['reason'] or 'by choice'}")
            return
        self._limits = found.get("limits", {})
        if not compatible(found["contract"], CONTRACT.accepts):
            told = f"{self.location} speaks events {found['contract']}, and this side accepts {CONTRACT.accepts}"
            raise ContractMismatch(told)
        self.contract_version = found["contract"]
        self.capabilities = CONTRACT.capabilities.intersection(found["capabilities"])
        self._has_met = True

    async def _deliver(self, bodies: list[bytes]) -> None:
        if not self._has_met:
            await self._meet()
        if self._is_endpoint:
            await self._host.send_events(bodies)
            return
        answer = await self._host.send("/v1/events", b"[%b]" % b",".join(bodies), {"Content-Type": "application/json"})
        receipts = self._host.read(answer, list[Receipt])
        if len(receipts) != len(bodies) or any(receipt.durability == "none" for receipt in receipts):
            raise AdapterUnavailable(f"{self.location} took {len(bodies)} events and does not keep them")

    async def _linger(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.config.linger_seconds
        while self._sender.has_turn and not self._sender.failure and loop.time() < until:
            if not await asyncio.to_thread(self._spool.waiting):
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _tell(self, what: str) -> None:
        self.logger.warning("event spool: %s", what, extra={"slot": self.slot, "impl": self.impl, "reason": what})


Adapter = ExternalEvents
