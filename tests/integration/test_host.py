"""A host as its clients meet it: a process of its own, over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterUnavailable, ContractMismatch, NotFound, PermissionDenied
from agentbox_contracts.orchestrator import AgentSpec
from tests.servers.host import Host, host

JSON = {"Content-Type": "application/json"}
SMALL = "[host]\nbody_bytes = 4096\nrequests_per_second = 200\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), SMALL) as found:
        yield found


class Answer:
    """One answer, read whole."""

    def __init__(self, connection: HTTPConnection) -> None:
        response = connection.getresponse()
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(served: Host, verb: str, path: str, body: Any = None, *, token: str | None = "own", **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {served.token if token == 'own' else token}"
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    if data is not None and "Content-Type" not in sent:
        sent |= JSON
    try:
        connection.request(verb, path, data, sent)
        return Answer(connection)
    finally:
        connection.close()


def agentbox(served: Host, *words: str) -> str:
    command = [sys.executable, "-m", "agentbox", *words]
    return subprocess.run(command, cwd=served.folder, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_bead_is_created_claimed_and_closed(served: Host) -> None:
    epic = ask(served, "POST", "/v1/beads/epics", {"title": "Ship it"})
    assert (epic.status, epic.json["status"]) == (201, "open")
    path = f"/v1/beads/{epic.json['id']}"
    assert ask(served, "POST", f"{path}/claim", {"actor": "ada"}).json["fence"] == 1
    lost = ask(served, "POST", f"{path}/claim", {"actor": "grace"})
    assert (lost.status, lost.headers["content-type"]) == (409, "application/problem+json")
    assert lost.json["code"] == "already_claimed"
    assert (lost.json["resource"], lost.json["id"], lost.json["actor"]) == ("bead", epic.json["id"], "ada")
    child = ask(served, "POST", "/v1/beads/children", {"parent_id": epic.json["id"], "title": "part"})
    assert ask(served, "GET", f"/v1/beads/ready?parent_id={epic.json['id']}&limit=5").json[0]["id"] == child.json["id"]
    circle = ask(served, "POST", f"/v1/beads/{child.json['id']}/deps", {"blocker_id": epic.json["id"]})
    assert (circle.status, circle.json["code"]) == (409, "conflict")
    assert ask(served, "POST", f"/v1/beads/{child.json['id']}/close", {"outcome": "done"}).status == 200
    assert ask(served, "POST", f"{path}/close", {"actor": "ada"}).json["outcome"] == "done"


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        (None, {}, 401),
        ("abx_wrong", {}, 401),
        ("", {}, 401),
        ("own", {"Origin": "https://evil.example"}, 403),
        ("own", {"Host": "evil.example"}, 421),
        ("own", {"Host": "127.0.0.1.evil.example"}, 421),
        ("own", {"X-Long": "x" * 40_000}, 431),
    ],
)
def test_strangers_are_told_nothing(served: Host, token: str | None, headers: dict[str, str], status: int) -> None:
    refused = ask(served, "GET", "/v1/beads/ready", token=token, **headers)
    assert refused.status == status
    assert set(refused.json) == {"type", "title", "status", "code", "message"}
    assert served.token not in refused.body.decode()
    assert "abx_wrong" not in (served.folder / "host.log").read_text()


def test_a_token_covers_its_scopes_and_no_more(served: Host) -> None:
    text = json.loads(agentbox(served, "token", "new", "reader", "--scope", "beads:read", "--json"))["token"]
    assert ask(served, "GET", "/v1/beads/ready", token=text).status == 200
    for verb, path in (("POST", "/v1/beads/epics"), ("GET", "/v1/agents"), ("GET", "/v1/meta"), ("GET", "/metrics")):
        refused = ask(served, verb, path, {"title": "x"} if verb == "POST" else None, token=text)
        assert (refused.status, refused.json["code"]) == (403, "permission_denied")
    assert text not in agentbox(served, "token", "list")
    assert text not in (served.folder / ".agentbox" / "tokens.json").read_text()
    agentbox(served, "token", "revoke", "reader")
    assert ask(served, "GET", "/v1/beads/ready", token=text).status == 401


def test_a_token_has_its_share_of_the_rate(served: Host) -> None:
    text = agentbox(served, "token", "new", "eager", "--scope", "beads:read").strip()
    with ThreadPoolExecutor(8) as threads:
        asked = threads.map(lambda _: ask(served, "GET", "/v1/beads/bd-none", token=text).status, range(1000))
        statuses = list(asked)
    refused = ask(served, "GET", "/v1/beads/bd-none", token=text)
    assert set(statuses) <= {404, 429}
    assert 429 in statuses
    assert refused.headers.get("retry-after") == "1" or refused.status == 404
    assert ask(served, "GET", "/v1/beads/bd-none").status == 404


def test_keys_are_private_files(served: Host) -> None:
    for name in ("host.token", "tokens.json"):
        assert (served.folder / ".agentbox" / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        ("/v1/beads/epics", b"not json", {}, 422, "the body is not JSON"),
        ("/v1/beads/epics", b"[]", {}, 422, "not a JSON object"),
        ("/v1/beads/epics", {"titel": "x"}, {}, 422, "unknown argument `titel`"),
        ("/v1/beads/epics", {"title": ""}, {}, 422, "title"),
        ("/v1/beads/epics", {"title": 7}, {}, 422, "title"),
        ("/v1/beads/epics", b"{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        ("/v1/beads/epics", {"title": "x" * 5000}, {}, 413, "at most 4,096"),
        ("/v1/beads/bd-1/claim", {"bead_id": "bd-2", "actor": "ada"}, {}, 422, "cannot be in the body too"),
        ("/v1/beads/sync", {"path": "../../tokens.json"}, {}, 403, "only files in the host's folder"),
        ("/v1/beads/sync", {"path": "/etc/passwd"}, {}, 403, "only files in the host's folder"),
        ("/v1/beads/sync", b"x", {"Content-Type": "text/plain"}, 415, "application/jsonl"),
    ],
)
def test_bad_input_is_refused(
    served: Host, path: str, body: Any, headers: dict[str, str], status: int, words: str
) -> None:
    refused = ask(served, "POST", path, body, **headers)
    assert (refused.status, refused.json["status"]) == (status, status)
    assert words in refused.json["message"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/beads/ready?limit=many", "limit"),
        ("/v1/beads/ready?limit=0", "limit"),
        ("/v1/beads/ready?limit=1&limit=2", "more than once"),
        ("/v1/beads/ready?nonsense=1", "nonsense"),
        ("/v1/agents?status=flying", "status"),
    ],
)
def test_a_bad_query_is_refused(served: Host, path: str, words: str) -> None:
    refused = ask(served, "GET", path)
    assert (refused.status, refused.json["code"]) == (422, "invalid_input")
    assert words in refused.json["message"]


def test_what_is_not_there_is_a_problem_too(served: Host) -> None:
    assert ask(served, "GET", "/nowhere").json["code"] == "not_found"
    assert ask(served, "PUT", "/v1/beads/epics", {}).status == 405
    assert ask(served, "GET", "/v1/beads/bd-none").json["id"] == "bd-none"
    assert ask(served, "GET", "/v1/memory/default/key").json["code"] == "not_found"
    assert ask(served, "GET", "/pods/x").json["code"] == "adapter_disabled"


def test_probes_and_pages(served: Host) -> None:
    assert ask(served, "GET", "/livez", token=None).json == {"state": "alive"}
    assert ask(served, "GET", "/ready", token=None).json == {"state": "ready"}
    health = ask(served, "GET", "/health")
    assert (health.status, health.json["state"]) == (200, "healthy")
    assert ask(served, "GET", "/v1/meta").json["slots"]["beads"]["canonical"] == "local-sqlite"
    assert b"agentbox_adapter_dispatch_total" in ask(served, "GET", "/metrics").body
    document = ask(served, "GET", "/openapi.json", token=None).json
    page = ask(served, "GET", "/docs", token=None).body.decode()
    assert all(path in page for path in document["paths"])
    assert "http://" not in page.replace("http://127", "")
    assert "<script" not in page


def test_each_request_is_one_log_line_with_the_trace(served: Host) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    ask(served, "GET", "/v1/beads/ready", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    lines: list[Any] = []
    while not lines:  # it is written once the answer has gone out
        log = (served.folder / "host.log").read_text()
        lines = [json.loads(line) for line in log.splitlines() if f'"trace_id": "{trace}"' in line]
    (line,) = lines
    assert (line["event"], line["verb"], line["status"], line["token"]) == ("request", "GET", 200, "local")
    assert line["route"] == "/v1/beads/ready"


def test_a_stream_goes_on_behind_the_last_event(served: Host) -> None:
    spec = {"spec": {"command": "echo", "args": ["hello"]}}
    agent = ask(served, "POST", "/v1/agents", spec).json["id"]
    whole = ask(served, "GET", f"/v1/agents/{agent}/events")
    assert whole.headers["content-type"].startswith("text/event-stream")
    events = whole.body.decode().split("\n\n")
    cursors = [line.removeprefix("id: ") for event in events for line in event.splitlines() if line.startswith("id: ")]
    rest = ask(served, "GET", f"/v1/agents/{agent}/events", Last_Event_ID=cursors[0])
    assert rest.body.decode().split("\n\n") == events[1:]
    assert events[-2] == "event: end\ndata: {}"
    assert ask(served, "GET", "/v1/agents/ag-none/events").status == 404


def test_another_major_version_is_refused_by_the_host(served: Host) -> None:
    refused = ask(served, "GET", "/v1/beads/ready", Agentbox_Contract="2.0.0")
    assert (refused.status, refused.json["code"]) == (409, "contract_mismatch")
    assert "2.0.0" in refused.json["message"]
    assert ">=1.0,<2" in refused.json["message"]


async def test_another_major_version_is_refused_by_the_client(served: Host, tmp_path: Path) -> None:
    text = served.client("beads") + '[federation.accepts]\nbeads = ">=2,<3"\n'
    with pytest.raises(ContractMismatch, match=r"1\.0\.0.*>=2,<3"):
        async with open_slot(text, "beads", folder=tmp_path):
            pass


async def test_a_client_says_why_it_cannot_connect(served: Host, tmp_path: Path) -> None:
    wrong = served.client("beads").replace("token = ", "# ") + 'token = "env:WRONG_TOKEN"\n'
    os.environ["WRONG_TOKEN"] = "abx_nobody"
    try:
        with pytest.raises((AdapterUnavailable, PermissionDenied), match="a valid token is needed"):
            async with open_slot(wrong, "beads", folder=tmp_path):
                pass
    finally:
        del os.environ["WRONG_TOKEN"]


async def test_a_local_client_finds_the_token_of_its_folder(served: Host) -> None:
    text = "".join(line for line in served.client("beads").splitlines(keepends=True) if not line.startswith("token"))
    async with open_slot(text, "beads", folder=served.folder / ".agentbox") as beads:
        with pytest.raises(NotFound, match="bd-none"):
            await beads.show("bd-none")


async def test_a_call_outlives_a_killed_host(tmp_path: Path) -> None:
    folder = tmp_path / "host"
    folder.mkdir()
    with host(folder) as served:
        async with open_slot(served.client("beads"), "beads", folder=tmp_path / "client") as adapter:
            beads: Any = adapter
            first = await beads.create_epic(title="before")
            served.kill()
            starter = threading.Timer(0.5, served.start)
            starter.start()
            second = await beads.create_epic(title="after")
            starter.join()
            assert {bead.id for bead in await beads.get_ready()} == {first.id, second.id}


async def test_a_host_that_stops_ends_its_streams_and_the_client_follows_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "host"
    folder.mkdir()
    with host(folder) as served:
        async with open_slot(served.client("orchestrator"), "orchestrator", folder=tmp_path / "client") as adapter:
            agents: Any = adapter
            agent = await agents.spawn(AgentSpec(command="sh", args=("-c", "read x; echo got $x"), stdin="pipe"))
            seen = []
            async for event in agents.stream(agent.id):
                seen.append(event.type)
                if event.type == "started":
                    began = time.monotonic()
                    assert served.stop() == 0
                    assert time.monotonic() - began < 5
                    served.start()
                    await agents.send(agent.id, b"it\n", end=True)
            assert seen == ["started", "stdout", "exited"]


def test_a_taken_port_says_so(served: Host, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentbox", "serve", "--port", str(served.port)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{served.port}: Address already in use" in done.stderr
