"""
The promises of an adapter whose server is far away: what it does when the network does not.

    class TestExternalMemcached(BeadsNetworkSuite):
        @pytest.fixture
        def server(self, server_port: int) -> tuple[str, int]:
            return "127.0.0.1", server_port

        @pytest.fixture
        def manifest_at(self) -> ManifestAt:
            return lambda host, port: TEXT.format(address=f"{host}:{port}")

Every method is called in every trouble, through a proxy of its own, and looked at from a connection without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentbox_contracts import contract_of
from agentbox_contracts.beads import Beads
from agentbox_contracts.events import Events
from agentbox_contracts.memory import Memory
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites import _network_beads, _network_events, _network_memory, _network_orchestrator
from agentbox_contracts.suites._network_orchestrator import Followed
from agentbox_contracts.suites._network_troubles import TROUBLES, Trouble
from agentbox_contracts.suites._network_watch import HONEST, ManifestAt, Network, Sample, Seen, watched
from agentbox_contracts.suites._orchestrator_agents import Agents, WithAgents
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.lifecycle import Suite
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = [
    "BeadsNetworkSuite",
    "EventsNetworkSuite",
    "ManifestAt",
    "MemoryNetworkSuite",
    "NetworkSuite",
    "OrchestratorNetworkSuite",
]

SLACK_SECONDS = 1.0

Follow = Callable[[Network, Trouble], Awaitable[Followed]]


class NetworkSuite(Suite):
    """What holds for every slot. Each call under test has `deadline_seconds`, which the suite adds to the manifest."""

    deadline_seconds: ClassVar[float] = 1.0
    troubles: ClassVar[tuple[Trouble, ...]] = TROUBLES
    streams: ClassVar[frozenset[str]] = frozenset()
    """The methods that a clause of their own is about."""

    _watched: ClassVar[list[Seen] | None] = None

    @pytest.fixture
    def server(self) -> tuple[str, int]:
        """Host and port of the server. Every author overrides this fixture and the next."""
        raise AssertionError(f"{type(self).__name__} needs a fixture `server` that returns a host and a port")

    @pytest.fixture
    def manifest_at(self) -> ManifestAt:
        """Gives manifest text for a server at a host and a port; within one test always with the same store."""
        raise AssertionError(f"{type(self).__name__} needs a fixture `manifest_at` that returns a function")

    @pytest_asyncio.fixture
    async def network(
        self, server: tuple[str, int], manifest_at: ManifestAt, open_adapter: OpenAdapter
    ) -> AsyncIterator[Network]:
        """The server, with and without a proxy before it."""

        def text(host: str, port: int) -> str:
            return f"{manifest_at(host, port)}\n[adapters_policy]\ndeadline_seconds = {self.deadline_seconds}\n"

        # Whoever looks on is not under test, and may take its time.
        async with open_adapter(manifest_at(*server)) as direct:
            yield Network(server=server, manifest_at=text, open_adapter=open_adapter, direct=direct)

    @pytest.fixture
    def samples(self) -> Mapping[str, Sample]:
        """A call of each method. Each slot's suite says which."""
        raise NotImplementedError

    async def any_read(self, adapter: Any) -> Any:
        """A call of the port that changes nothing. Each slot's suite says which."""
        raise NotImplementedError

    @pytest_asyncio.fixture
    async def seen(self, network: Network, samples: Mapping[str, Sample]) -> list[Seen]:
        """Every call in every trouble, made once for all the clauses of a class."""
        suite = type(self)
        methods = contract_of(self.slot).methods
        assert {*samples, *self.streams} == {*methods}, "there must be a sample of each method, and of no other"
        if suite._watched is None:
            suite._watched = await watched(network, methods, samples, self.troubles, self.any_read)
        return suite._watched

    @clause("network.call.deadline")
    async def test_a_call_ends_at_its_deadline(self, seen: list[Seen]) -> None:
        """Whatever the network does, a call ends within its deadline."""
        late = {call.name: call.seconds for call in seen if call.seconds > self.deadline_seconds + SLACK_SECONDS}

        assert late == {}

    @clause("network.call.honest")
    async def test_the_network_is_blamed_for_what_it_did(self, seen: list[Seen]) -> None:
        """What the network breaks is AdapterUnavailable or AdapterTimeout, and no other error."""
        others = {call.name: repr(call.error) for call in seen if not isinstance(call.error, (*HONEST, type(None)))}

        assert others == {}

    @clause("network.call.right")
    async def test_an_answer_is_right_or_none_at_all(self, seen: list[Seen]) -> None:
        """An answer that comes through is the right one."""
        assert [call.name for call in seen if call.error is None and not call.is_right] == []

    @clause("network.call.later")
    async def test_the_next_call_is_well(self, seen: list[Seen]) -> None:
        """Once the trouble is over the next call works, and nothing has to be opened anew."""
        assert {call.name: call.later for call in seen if call.later} == {}

    @clause("network.write.one-effect")
    async def test_a_repeated_write_is_one_write(self, seen: list[Seen]) -> None:
        """A write that is repeated with its key, or that needs none, has happened once."""
        counted = {call.name: call.effects for call in seen if call.is_repeatable and call.effects is not None}

        assert counted
        assert {name: effects for name, effects in counted.items() if effects != 1} == {}

    @clause("network.health.honest")
    async def test_a_server_out_of_reach_is_not_healthy(self, network: Network) -> None:
        """While the server is out of reach the adapter is not healthy and says why; afterwards it is healthy again."""
        async with network.proxied() as (proxy, adapter):
            await proxy.refuse()
            await proxy.cut()
            without = await adapter.health()
            await proxy.heal()
            again = await adapter.health()

        assert (without.state, bool(without.reason)) == ("degraded", True)
        assert again.state == "healthy"


class StreamClauses:
    """For slots that have a stream."""

    troubles: ClassVar[tuple[Trouble, ...]]

    @pytest.fixture
    def follow(self) -> Follow:
        """What becomes of a stream in one trouble. Each slot's suite says how."""
        raise NotImplementedError

    @clause("network.stream.resumes")
    async def test_a_stream_loses_and_repeats_nothing(self, network: Network, follow: Follow) -> None:
        """A stream goes on behind its last event, by itself or when asked for anew: none is lost, none comes twice."""
        streams = await asyncio.gather(*(follow(network, trouble) for trouble in self.troubles))

        assert {stream.name: stream.came for stream in streams if not stream.is_whole} == {}
        dishonest = {stream.name: stream.errors for stream in streams if not all(map(_is_honest, stream.errors))}
        assert dishonest == {}


class UnkeyedClauses:
    """For slots with writes that are another one each time they come."""

    @clause("network.write.at-most-once")
    async def test_a_write_without_a_key_is_at_most_one(self, seen: list[Seen]) -> None:
        """A write without a key happens at most once, and once when it was answered."""
        writes = [call for call in seen if not call.is_repeatable and call.effects is not None]

        assert writes
        assert [call.name for call in writes if call.effects != 1 and (call.error is None or call.effects)] == []


class BeadsNetworkSuite(UnkeyedClauses, NetworkSuite):
    """Beads on a server."""

    slot = "beads"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> Mapping[str, Sample]:
        return _network_beads.samples(tmp_path)

    async def any_read(self, adapter: Beads) -> Any:
        return await adapter.get_ready(limit=1)


class EventsNetworkSuite(StreamClauses, UnkeyedClauses, NetworkSuite):
    """Events on a host. Whatever the adapter keeps on its own side, each server's address must have its own."""

    slot = "events"
    streams = frozenset({"subscribe"})

    @pytest.fixture
    def samples(self) -> Mapping[str, Sample]:
        return _network_events.samples()

    @pytest.fixture
    def follow(self) -> Follow:
        return _network_events.followed

    async def any_read(self, adapter: Events) -> Any:
        return await adapter.read(limit=1)


class MemoryNetworkSuite(NetworkSuite):
    """Memory on a server. Every write is the same when it comes twice."""

    slot = "memory"

    @pytest.fixture
    def samples(self) -> Mapping[str, Sample]:
        return _network_memory.samples()

    async def any_read(self, adapter: Memory) -> Any:
        return await adapter.list_namespaces(limit=1)


class OrchestratorNetworkSuite(WithAgents, StreamClauses, UnkeyedClauses, NetworkSuite):
    """Agents on a host."""

    slot = "orchestrator"
    streams = frozenset({"stream"})

    @pytest.fixture
    def samples(self, agents: Agents) -> Mapping[str, Sample]:
        return _network_orchestrator.samples(agents)

    @pytest.fixture
    def follow(self, agents: Agents) -> Follow:
        return lambda network, trouble: _network_orchestrator.followed(network, agents, trouble)

    async def any_read(self, adapter: Orchestrator) -> Any:
        return await adapter.list_agents(limit=1)


def _is_honest(error: Exception) -> bool:
    return isinstance(error, HONEST)
