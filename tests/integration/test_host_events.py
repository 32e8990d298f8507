"""`/v1/events` as any producer and any browser meets it: CloudEvents in their forms, pages, and a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentbox.host.auth import Tokens
from tests.servers.host import Host, host

CLOUDEVENT, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
PLAIN = {"type": "order.paid", "source": "shop"}
CLOUD = PLAIN | {"specversion": "1.0", "id": "7"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="module")
def reader(folder: Path) -> str:
    """A token that only reads events. It is made before the host starts, which looks for new ones now and then."""
    (folder / ".agentbox").mkdir()
    return Tokens(folder / ".agentbox").new("reader", ("events:read",))[1]


@pytest.fixture(scope="module")
def served(folder: Path, reader: str) -> Iterator[Host]:
    with host(folder, '[adapters]\nevents = "local-jsonl"\n') as found:
        yield found


@contextmanager
def asked(
    served: Host, verb: str, path: str = "/v1/events", body: Any = None, token: str = "", **headers: str
) -> Iterator[HTTPResponse]:
    """The answer, not yet read; the connection ends with the block."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    sent = {"Authorization": f"Bearer {token or served.token}", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(connection):
        connection.request(verb, path, None if body is None else json.dumps(body), sent)
        with connection.getresponse() as response:
            yield response


def told(served: Host, body: Any, **headers: str) -> tuple[int, Any]:
    with asked(served, "POST", body=body, **headers) as response:
        return response.status, json.loads(response.read())


def last(served: Host, count: int = 1) -> list[Any]:
    with asked(served, "GET", "/v1/events?limit=10000&types=order.*") as response:
        found: list[Any] = json.loads(response.read())
    return found[-count:]


def test_a_structured_cloud_event_is_kept(served: Host) -> None:
    event = CLOUD | {"subject": "7", "time": "2026-03-01T10:00:00+02:00", "data": {"order": 7}, "sessionid": "s"}
    status, receipt = told(served, event, Content_Type=f"{CLOUDEVENT}; charset=utf-8")
    (kept,) = last(served)

    assert (status, receipt["id"], receipt["durability"], receipt["duplicate"]) == (201, "7", "fsync", False)
    assert (kept["seq"], kept["hash"]) == (receipt["seq"], receipt["hash"])
    assert (kept["time"], kept["session_id"], kept["data"]) == ("2026-03-01T08:00:00Z", "s", {"order": 7})


def test_a_batch_is_kept_whole_or_not_at_all(served: Host) -> None:
    events = [CLOUD | {"id": f"batch {number}"} for number in range(3)]
    status, receipts = told(served, events, Content_Type=BATCH)
    assert (status, [receipt["id"] for receipt in receipts]) == (201, [event["id"] for event in events])
    assert told(served, events)[1][0]["duplicate"], "the same as plain JSON is the same"

    status, problem = told(served, [CLOUD | {"id": "good"}, CLOUD | {"id": "bad", "type": ""}], Content_Type=BATCH)
    assert (status, problem["code"]) == (422, "invalid_input")
    assert "type" in problem["message"]
    assert last(served)[0]["id"] == "batch 2"


def test_the_binary_form_is_taken(served: Host) -> None:
    headers = {"ce_specversion": "1.0", "ce_type": "order.paid", "ce_source": quote("sh öp"), "ce_id": "binary"}
    status, receipt = told(served, {"order": 8}, **headers)
    (kept,) = last(served)

    assert (status, receipt["id"]) == (201, "binary")
    assert (kept["source"], kept["data"], kept["datacontenttype"]) == ("sh öp", {"order": 8}, "application/json")


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (CLOUD | {"traceparent": "00-1"}, {}, "unknown member `traceparent`"),
        (CLOUD | {"data_base64": "eA=="}, {}, "data is JSON here"),
        (CLOUD | {"specversion": "0.3"}, {}, "only '1.0'"),
        (PLAIN, {"Content_Type": CLOUDEVENT}, "specversion"),
        (CLOUD, {"Content_Type": BATCH}, "a batch is an array"),
        ([CLOUD], {"Content_Type": CLOUDEVENT}, "an event is an object"),
        ([7], {}, "an event is an object"),
        (CLOUD | {"seq": 1}, {}, "given by the log"),
        ({"source": "shop"}, {}, "type"),
        (CLOUD, {"ce_specversion": "1.0", "Content_Type": CLOUDEVENT}, "use one of the two"),
    ],
)
def test_what_the_log_would_not_keep_it_does_not_take(
    served: Host, body: Any, headers: dict[str, str], message: str
) -> None:
    before = last(served)
    status, problem = told(served, body, **headers)

    assert (status, problem["code"]) == (422, "invalid_input")
    assert message in problem["message"]
    assert last(served) == before


def test_other_types_of_body_are_not_taken(served: Host) -> None:
    assert told(served, "x", Content_Type="text/plain")[0] == 415
    assert told(served, PLAIN | {"data": "x" * 9_000_000})[0] == 413


def test_a_stream_begins_behind_any_seq_and_goes_on_behind_the_last_id(served: Host) -> None:
    seqs = [told(served, PLAIN | {"type": "order.streamed", "data": number})[1]["seq"] for number in range(4)]
    address = f"/v1/events?after={seqs[0]}&types=order.streamed"
    with asked(served, "GET", address, Accept="text/event-stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        first = [response.readline() for _ in range(3)]
    assert first[0] == f"id: {seqs[1]}\n".encode()
    assert json.loads(first[1].removeprefix(b"data: "))["data"] == 1

    with asked(served, "GET", address, Accept="text/event-stream", Last_Event_ID=str(seqs[2])) as response:
        assert response.readline() == f"id: {seqs[3]}\n".encode()


def test_a_named_subscription_goes_on_behind_what_it_acknowledged(served: Host) -> None:
    seqs = [told(served, PLAIN | {"type": "order.named"})[1]["seq"] for _ in range(2)]
    name = quote("invoices/ü", safe="")
    with asked(served, "POST", f"/v1/events/cursors/{name}", {"seq": seqs[0]}) as response:
        assert (response.status, response.read()) == (200, b"null")
    with asked(served, "POST", f"/v1/events/cursors/{name}", {"seq": seqs[1] + 1000}) as response:
        assert response.status == 422
    with asked(served, "GET", f"/v1/events?name={name}&types=order.named", Accept="text/event-stream") as response:
        assert response.readline() == f"id: {seqs[1]}\n".encode()


def test_the_chain_is_verified(served: Host) -> None:
    told(served, PLAIN)
    with asked(served, "GET", "/v1/events/verify") as response:
        verdict = json.loads(response.read())

    assert (verdict["ok"], verdict["reason"]) == (True, "")
    assert verdict["last_seq"] >= last(served)[0]["seq"]


def test_a_token_for_reading_writes_nothing(served: Host, reader: str) -> None:
    with asked(served, "GET", "/v1/events?limit=1", token=reader) as response:
        assert response.status == 200
    with asked(served, "POST", body=PLAIN, token=reader) as response:
        assert response.status == 403
    with asked(served, "POST", "/v1/events/cursors/x", {"seq": 0}, token=reader) as response:
        assert response.status == 403
