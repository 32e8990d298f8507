"""Events for a CloudEvents endpoint that is no agentbox: a real server, which answers as such servers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.events import Event
from tests.servers.endpoint import Endpoint, endpoint

PATIENCE = 20.0


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


def manifest(server: Endpoint, more: str = "") -> str:
    return (
        '[adapters]\nevents = "external"\n[federation]\nmode = "client"\n'
        f'external_url = "http://127.0.0.1:1"\ntoken = "env:HOST_TOKEN"\n'
        f'[events.external]\nprotocol = "cloudevents"\nurl = "{server.url}"\n{more}'
    )


def event(number: int, **fields: Any) -> Event:
    return Event(type="t", source="here", id=str(number), **fields)


async def taken(server: Endpoint, count: int) -> list[dict[str, Any]]:
    """The events that the server has said yes to, once there are *count*."""
    async with asyncio.timeout(PATIENCE):
        while len(found := accepted(server)) < count:
            await asyncio.sleep(0.01)
    return found


def accepted(server: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for sent in server.sent:
        body = json.loads(sent.body)
        found += body if isinstance(body, list) else [body]
    return found


async def test_a_batch_is_valid_and_has_the_names_that_cloudevents_allows(server: Endpoint, tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        receipt = await adapter.dispatch(event(1, subject="s", time=moment, data={"ü": [1]}, session_id="session"))
        (found,) = await taken(server, 1)
        health = await adapter.health()

    assert (receipt.durability, receipt.seq) == ("spooled", None)
    assert found == {
        "specversion": "1.0",
        "id": "1",
        "source": "here",
        "type": "t",
        "subject": "s",
        "time": "2026-03-01T12:00:00Z",
        "data": {"ü": [1]},
        "sessionid": "session",
    }
    (sent,) = server.sent
    assert (sent.path, sent.headers["content-type"]) == ("/in/box", "application/cloudevents-batch+json")
    assert health.state == "healthy"


async def test_an_endpoint_without_batches_gets_one_at_a_time(server: Endpoint, tmp_path: Path) -> None:
    async with open_slot(manifest(server, "batch = false\n"), "events", folder=tmp_path) as adapter:
        await adapter.dispatch_many([event(number) for number in range(5)])
        found = await taken(server, 5)

    assert [each["id"] for each in found] == [str(number) for number in range(5)]
    assert {sent.headers["content-type"] for sent in server.sent} == {"application/cloudevents+json"}


async def test_the_hosts_token_is_not_shown_to_an_endpoint(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_TOKEN", "of the host")
    monkeypatch.setenv("ENDPOINT_TOKEN", "of the endpoint")
    (tmp_path / "host.token").write_text("of the host")
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        await adapter.dispatch(event(1))
        await taken(server, 1)
    own = 'endpoint_token = "env:ENDPOINT_TOKEN"\n'
    async with open_slot(manifest(server, own), "events", folder=tmp_path) as adapter:
        await adapter.dispatch(event(2))
        await taken(server, 2)

    assert [sent.headers.get("authorization") for sent in server.sent] == [None, "Bearer of the endpoint"]


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_what_may_pass_is_waited_for(server: Endpoint, tmp_path: Path, status: int) -> None:
    server.answers = [(status, "not now"), (status, "not now"), (202, "")]
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        await adapter.dispatch(event(1))
        await taken(server, 3)

    assert not (tmp_path / "events-spool" / "refused.jsonl").exists()


async def test_what_the_endpoint_refuses_is_set_aside(server: Endpoint, tmp_path: Path) -> None:
    server.answers = [(400, "no such type"), (202, "")]
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        await adapter.dispatch(event(1))
        await taken(server, 1)
        await adapter.dispatch(event(2))
        found = await taken(server, 2)
        health = await adapter.health()

    (line,) = (tmp_path / "events-spool" / "refused.jsonl").read_text().splitlines()
    assert (json.loads(line)["event"]["id"], "no such type" in json.loads(line)["refused"]) == ("1", True)
    assert [each["id"] for each in found] == ["1", "2"]
    assert "1 events were refused" in health.reason


async def test_an_event_that_was_damaged_in_the_spool_stands_in_nobodys_way(server: Endpoint, tmp_path: Path) -> None:
    server.answers = [(503, "not now")] * 20
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        await adapter.dispatch_many([event(number) for number in range(3)])
    (segment,) = (tmp_path / "events-spool").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"id":"1"', b'"id":???'))

    server.answers, server.sent = [(202, "")], []
    async with open_slot(manifest(server), "events", folder=tmp_path):
        assert [each["id"] for each in await taken(server, 2)] == ["0", "2"]


async def test_there_is_nothing_to_read_at_an_endpoint(server: Endpoint, tmp_path: Path) -> None:
    async with open_slot(manifest(server), "events", folder=tmp_path) as adapter:
        assert adapter.capabilities == frozenset()
        for call in (adapter.read(), adapter.ack("name", 0), adapter.verify(), anext(adapter.subscribe())):
            with pytest.raises(AdapterDisabled, match="CloudEvents endpoint"):
                await call
