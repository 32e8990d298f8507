"""Known-bad ways to be off, on top of the off adapter of any slot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Health, Method
from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.events import Receipt
from agentbox_contracts.suites.bad import Base, known_bad

__all__: list[str] = []


@known_bad(caught_by="off.words.disabled")
class EnabledWhenOff(Base):
    """Says that it is enabled."""

    enabled = True


@known_bad(caught_by="off.words.durability")
class DurableWhenOff(Base):
    """Says that it keeps what it is given."""

    durability = "fsync"


@known_bad(caught_by="off.words.capabilities")
class CapableWhenOff(Base):
    """Declares what the contract knows, and can do nothing."""

    capabilities = frozenset({"keys"})


@known_bad(caught_by="off.health.off")
class HealthyWhenOff(Base):
    """Says that it is healthy."""

    async def health(self) -> Health:
        return Health("healthy", "nothing can break")


@known_bad(caught_by="off.health.reason")
class SilentWhenOff(Base):
    """Does not say why it is off."""

    async def health(self) -> Health:
        return Health("off")


class Answering(Base):
    """Does some of the calls in another way; `spoil` says which and how."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        methods = list(contract_of(self.slot).methods.values())
        self.refused = [method for method in methods if (self.slot, method.name) != ("events", "dispatch")]
        self.spoil()

    def spoil(self) -> None:
        """Put other methods in the place of the right ones."""

    def answer(self, method: Method) -> None:
        """Have *method* answered as if all were well."""
        setattr(self, method.name, self._nothing if method.stream else self._none)

    async def _none(self, **_: Any) -> None:
        return None

    async def _nothing(self, **_: Any) -> AsyncIterator[None]:
        if self.enabled:
            yield

    async def _refuse(self, **_: Any) -> None:
        raise AdapterDisabled("this is not available")

    async def _refuse_stream(self, **_: Any) -> AsyncIterator[None]:
        if not self.enabled:
            raise AdapterDisabled("this is not available")
        yield


@known_bad(caught_by="off.calls.refused")
class AnswersWhenOff(Answering):
    """Answers its last call as if it had been done."""

    def spoil(self) -> None:
        self.answer([method for method in self.refused if not method.stream][-1])


@known_bad(caught_by="off.calls.refused")
class StreamsWhenOff(Answering):
    """Has empty streams where it should refuse them; in a slot without streams, an empty answer."""

    def spoil(self) -> None:
        self.answer(next((method for method in self.refused if method.stream), self.refused[0]))


@known_bad(caught_by="off.calls.refused")
class PromisesWhenOff(Answering):
    """Gives a receipt that promises to keep the event; in other slots, an answer to the first call."""

    def spoil(self) -> None:
        if self.slot == "events":
            self.dispatch = self._promise
        else:
            self.answer(self.refused[0])

    async def _promise(self, **_: Any) -> Receipt:
        return Receipt(id="kept", durability="fsync")


@known_bad(caught_by="off.calls.refused")
class RefusesEventsWhenOff(Answering):
    """Refuses an event too; in other slots it answers everything."""

    def spoil(self) -> None:
        if self.slot == "events":
            self.dispatch = self._refuse
        else:
            for method in self.refused:
                self.answer(method)


@known_bad(caught_by="off.calls.named")
class VagueWhenOff(Answering):
    """Refuses without saying what is off."""

    def spoil(self) -> None:
        for method in self.refused:
            setattr(self, method.name, self._refuse_stream if method.stream else self._refuse)


@known_bad(caught_by="off.connect.harmless")
class ConnectsOnceWhenOff(Base):
    """Cannot be connected a second time."""

    connects = 0

    async def connect(self) -> None:
        self.connects += 1
        if self.connects == 2:
            raise RuntimeError("already connected")


@known_bad(caught_by="off.connect.harmless")
class DisconnectsOnceWhenOff(Base):
    """Cannot be disconnected a second time."""

    disconnects = 0

    async def disconnect(self) -> None:
        self.disconnects += 1
        if self.disconnects == 2:
            raise RuntimeError("already disconnected")


@known_bad(caught_by="off.connect.harmless")
class TurnsOnWhenConnected(Base):
    """Is no longer off once it was connected again."""

    connects = 0

    async def connect(self) -> None:
        self.connects += 1

    async def health(self) -> Health:
        return await super().health() if self.connects < 2 else Health("healthy")


@known_bad(caught_by="off.state.untouched")
class WritesWhenOff(Base):
    """Makes its file although there is nothing to put in it."""

    async def connect(self) -> None:
        Path(f"{self.slot}.db").touch()
