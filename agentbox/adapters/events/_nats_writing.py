"""Writing to a stream: one message, or several that are stored together or not at all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from uuid import uuid4

import attrs

from agentbox.adapters.events._line import Draft
from agentbox.adapters.events._nats_link import Link, Refused
from agentbox.adapters.events._nats_stream import subject_of
from agentbox_contracts.errors import AdapterUnavailable, AgentboxError, InvalidInput

__all__ = ["LONGEST_BATCH", "Message", "Stored", "Writer"]

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
DUPLICATE_IN_BATCH, TOO_LARGE, TOO_LONG, WRONG_LAST_ID = 10201, 10199, 10054, 10070
HEADERS = 512
LONGEST_BATCH = 1000
"""How many messages the server stores together or not at all; it has no setting for that."""
PROBES = 100


@attrs.frozen
class Message:
    """An event as it goes to the server."""

    id: str
    subject: str
    payload: bytes

    @classmethod
    def of(cls, draft: Draft, event_type: str, prefix: str) -> Message:
        """*draft* under an id made from the event's source and id, however long they are."""
        name = f"{len(draft.source)}:{draft.source}{draft.id}"
        body = b"{%b}" % draft.body
        return cls(hashlib.sha256(name.encode()).hexdigest(), subject_of(prefix, event_type), body)


@attrs.frozen
class Stored:
    """Where a message lies, and whether the server says that it had it before."""

    seq: int
    duplicate: bool = False


@attrs.frozen
class Writer:
    """Writes to one stream."""

    link: Link
    stream: str
    longest: int | None = None
    """How many bytes of a message the stream takes, headers among them; None when it does not mind."""

    async def write(self, message: Message) -> Stored:
        """Store *message*, unless the stream has one with its id."""
        self._check([message])
        try:
            return _stored(await self.link.ask(message.subject, message.payload, self._headers(message)))
        except Refused as error:
            raise self._refusal(error) from error

    async def write_all(self, messages: Sequence[Message]) -> list[Stored]:
        """Store those that the stream does not have, all or none, in their order."""
        self._check(messages)
        first = {message.id: message for message in reversed(messages)}
        once = [message for message in messages if first[message.id] is message]
        if len(once) > LONGEST_BATCH:
            raise self._too_many(f"{len(once):,} events")
        known: dict[str, Stored] = {}
        while missing := [message for message in once if message.id not in known]:
            try:
                last = int((await self.link.again(lambda: self._committed(missing)))["seq"])
            except Refused as error:
                if error.code != DUPLICATE_IN_BATCH:
                    raise self._refusal(error) from error
                known |= await self._had(missing)
            else:
                known |= {message.id: Stored(last - before) for before, message in enumerate(reversed(missing))}
        return [known[message.id] for message in messages]

    async def _committed(self, messages: Sequence[Message]) -> dict[str, int]:
        """What the server says to a batch: an id of its own for each attempt, the messages' ids as they are."""
        batch, last = uuid4().hex, len(messages)
        for number, message in enumerate(messages, 1):
            headers = {**self._headers(message), "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if number < last:
                await self.link.tell(message.subject, message.payload, headers)
        headers["Nats-Batch-Commit"] = "1"
        answer: dict[str, int] = await self.link.asked_once(message.subject, message.payload, headers)
        return answer

    async def _had(self, messages: Sequence[Message]) -> dict[str, Stored]:
        """Those of *messages* that the stream has already. Nothing is stored: the rest is asked for the impossible."""
        found: dict[str, Stored] = {}
        for start in range(0, len(messages), PROBES):
            some = messages[start : start + PROBES]
            answers = await asyncio.gather(*(self._probed(message) for message in some))
            found |= {message.id: stored for message, stored in zip(some, answers, strict=True) if stored is not None}
        return found

    async def _probed(self, message: Message) -> Stored | None:
        # The server looks for the id of a message before it looks at what should have come last.
        headers = {**self._headers(message), "Nats-Expected-Last-Msg-Id": uuid4().hex}
        try:
            return _stored(await self.link.ask(message.subject, b"", headers))
        except Refused as error:
            if error.code != WRONG_LAST_ID:
                raise self._refusal(error) from error
            return None

    def _headers(self, message: Message) -> dict[str, str]:
        return {"Nats-Msg-Id": message.id, "Nats-Expected-Stream": self.stream, "Content-Type": CONTENT_TYPE}

    def _check(self, messages: Sequence[Message]) -> None:
        longest, what = self.link.max_payload, "its max_payload"
        if self.longest is not None and self.longest < longest:
            longest, what = self.longest, "the stream's max_msg_size"
        if any(len(message.payload) > longest - HEADERS for message in messages):
            most = f"{self.link.where} takes events of at most {longest - HEADERS:,} bytes"
            raise InvalidInput(f"{most}; {what} could be higher")

    def _refusal(self, error: Refused) -> AgentboxError:
        if error.code == TOO_LARGE:
            return self._too_many(str(error))
        if error.code == TOO_LONG:  # the stream was changed since: no use to try again
            return InvalidInput(f"{self.link.where}: the event cannot be kept: {error}")
        return AdapterUnavailable(f"{self.link.where}: the event cannot be kept: {error}")

    def _too_many(self, what: str) -> InvalidInput:
        most = f"at most {LONGEST_BATCH:,} events together or not at all"
        return InvalidInput(f"{what}: {self.link.where} stores {most}; dispatch fewer at once")


def _stored(answer: dict[str, object]) -> Stored:
    return Stored(int(str(answer["seq"])), bool(answer.get("duplicate")))
