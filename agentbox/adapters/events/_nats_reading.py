"""Reading a stream: pages behind a seq, and the place of each named subscription."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import msgspec

from agentbox.adapters.events._nats_link import Link, Refused
from agentbox.adapters.events._nats_stream import chosen_subject
from agentbox.adapters.events._types import matcher
from agentbox_contracts.errors import AdapterFailed
from agentbox_contracts.events import Event
from agentbox_contracts.wire import encode

__all__ = ["Page", "Places", "Reader"]

PAGE = 500
PAGE_BYTES = 8 * 1024 * 1024
WRONG_PLACE = 10071

_decode = msgspec.json.Decoder(Event).decode


@attrs.frozen
class Page:
    """Events behind a place, the place behind them, and whether the stream ends there."""

    events: list[Event]
    place: int
    is_last: bool


class Reader:
    """Reads the events of *types* from one stream."""

    def __init__(self, link: Link, stream: str, prefix: str, types: tuple[str, ...], logger: logging.Logger) -> None:
        self._link = link
        self._stream = stream
        self._matches = matcher(types)
        self._subject = chosen_subject(prefix, types)
        self._logger = logger

    async def page(self, place: int, limit: int = PAGE) -> Page:
        """What lies behind *place*, as much of it as one answer of the server has."""
        wanted: dict[str, Any] = {"seq": place + 1, "batch": PAGE, "max_bytes": PAGE_BYTES}
        if self._subject is not None:
            wanted["next_by_subj"] = self._subject
        if self._subject is not None or self._matches is None:
            wanted["batch"] = min(limit, PAGE)
        subject = f"$JS.API.DIRECT.GET.{self._stream}"
        answers = await self._link.again(lambda: self._link.collected(subject, encode(wanted)))
        end = answers.pop().headers or {}
        if (status := end["Status"]) not in ("204", "404"):
            raise AdapterFailed(f"{self._link.where}: {self._stream} cannot be read: {end.get('Description', status)}")
        events, before = list[Event](), 0
        for answer in answers:
            headers = answer.headers or {}
            if int(headers["Nats-Last-Sequence"]) != before:
                # A piece was lost with its connection; what came before it is good.
                return Page(events, place, False)
            place = before = int(headers["Nats-Sequence"])
            if (event := self._event(answer.data, place)) is not None:
                events.append(event)
        return Page(events, place, status == "404" or int(end.get("Nats-Num-Pending", 0)) == 0)

    def _event(self, data: bytes, seq: int) -> Event | None:
        """The event in a message; None when it is of another type, or was put there by somebody else and is none."""
        try:
            event = _decode(b'{"seq":%d,' % seq + data.lstrip()[1:])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._logger.warning("a message that is no event: %s", error, extra={"seq": seq, "reason": str(error)})
            return None
        return event if self._matches is None or self._matches(event.type) else None


@attrs.frozen
class Places:
    """How far each named subscription has come: the last message of a subject of its own."""

    link: Link
    stream: str
    prefix: str

    async def place(self, name: str) -> int:
        """What *name* acknowledged, 0 when nothing."""
        return (await self._last(name))[0]

    async def advance(self, name: str, seq: int) -> None:
        """Put *name* at *seq*, unless it is further already; of several at once the furthest stays."""
        while True:
            have, version = await self._last(name)
            if have >= seq:
                return
            try:
                headers = {"Nats-Expected-Last-Subject-Sequence": str(version)}
                await self.link.ask(self._subject(name), str(seq).encode(), headers)
            except Refused as error:
                if error.code != WRONG_PLACE:
                    raise AdapterFailed(f"{self.link.where}: the place of {name!r} cannot be kept: {error}") from error
            else:
                return

    async def _last(self, name: str) -> tuple[int, int]:
        subject = f"$JS.API.DIRECT.GET.{self.stream}.{self._subject(name)}"
        answer = await self.link.again(lambda: self.link.fetched(subject))
        headers = answer.headers or {}
        if "Status" in headers:
            return 0, 0
        return int(answer.data), int(headers["Nats-Sequence"])

    def _subject(self, name: str) -> str:
        return f"{self.prefix}-cursors.{name.encode().hex()}"
