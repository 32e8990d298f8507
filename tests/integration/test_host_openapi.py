"""A host keeps what its OpenAPI document says, whatever is sent to it."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import attrs
import hypothesis
import jsonschema  # type: ignore[import-untyped]
import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi import checks

from agentbox_contracts.schema import openapi
from tests.servers.host import Host, host

DOCUMENT = openapi()
OPERATIONS = [(path, verb) for path, operations in DOCUMENT["paths"].items() for verb in operations]
WRITES = [(path, verb) for path, verb in OPERATIONS if verb != "get"]
NAMES = {"bead_id": "beads", "parent_id": "beads", "blocker_id": "beads", "agent_id": "orchestrator"}
OFF = ("pods",)
MANIFEST = '[adapters]\nevents = "local-jsonl"\n'
COMMAND, LONGEST = "/bin/true", 4096
ESSENTIAL = {
    "POST /v1/beads/epics",
    "POST /v1/beads/{bead_id}/claim",
    "POST /v1/beads/{bead_id}/close",
    "GET /v1/beads/{bead_id}",
    "POST /v1/agents",
    "GET /v1/agents/{agent_id}",
    "GET /v1/agents/{agent_id}/events",
    "DELETE /v1/agents/{agent_id}",
}
"""What was done at least once, so that not everything is answered with a refusal."""
STRANGER = "stranger_field"
CONFIG = schemathesis.Config.from_dict(
    {
        # The session always sends its token: a case that is wrong only for lack of one would be right when it arrives.
        "generation": {"with-security-parameters": False},
        "checks": {"negative_data_rejection": {"expected-statuses": ["4xx", 503]}},
    }
)
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


@schemathesis.serializer("application/jsonl")
def _lines(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), MANIFEST) as found:
        yield found


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host on which nothing happens by itself: no lease runs out, no agent ends."""
    with host(tmp_path_factory.mktemp("quiet"), MANIFEST) as found:
        yield found


def ask(served: Host, verb: str, path: str, body: Any = None, *, token: bool = True) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    headers = {"Authorization": f"Bearer {served.token}"} if token else {}
    data = None if body is None else json.dumps(body)
    try:
        connection.request(verb, path, data, headers | ({"Content-Type": "application/json"} if data else {}))
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


@attrs.define
class Driver:
    """Sends generated requests to a host, and holds every answer against the document."""

    served: Host
    seed: int
    ids: dict[str, list[str]]
    answers: Counter[tuple[str, int]] = attrs.field(factory=Counter)

    def drive(self, count: int) -> None:
        """At least *count* requests: each operation in its turn, with what fits the document and what does not."""
        schema = schemathesis.openapi.from_url(f"{self.served.url}/openapi.json", config=CONFIG)
        operations = [schema[path][verb] for path, verb in OPERATIONS]
        batch = -(-count // (2 * len(operations)))
        with requests.Session() as session:
            session.headers["Authorization"] = f"Bearer {self.served.token}"
            for turn in itertools.count():
                for operation in operations:
                    if self.answers.total() >= count:
                        return
                    # An operation that takes nothing cannot be given anything wrong.
                    is_wrong = turn % 2 and (operation.body or any(operation.iter_parameters()))
                    mode = GenerationMode.NEGATIVE if is_wrong else GenerationMode.POSITIVE
                    self._batch(operation, mode, batch, self.seed + turn, session)

    def _batch(self, operation: Any, mode: GenerationMode, size: int, seed: int, session: requests.Session) -> None:
        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=size,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode), chance=st.integers(0, 1 << 16))
        def send(case: Case[Any], chance: int) -> None:
            self._send(self._made_safe(case, chance), session)

        send()

    def _made_safe(self, case: Case[Any], chance: int) -> Case[Any]:
        """*case* with a harmless command; most that fit the document with names of what is there."""
        body = case.body if isinstance(case.body, dict) else {}
        spec = body.get("spec")
        command = spec.get("command") if isinstance(spec, dict) else None
        if isinstance(spec, dict) and isinstance(command, str) and 1 <= len(command) <= LONGEST:
            spec["command"] = COMMAND  # what breaks the bounds stays: it names no program, and has to be refused
        if chance % 4 and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
            self._name_what_is_there(case.path_parameters, chance)
            self._name_what_is_there(body, chance // 4)
            case.query.pop("after", None)
            if isinstance(spec, dict):
                spec["cwd"] = None
        return case

    def _name_what_is_there(self, values: Any, chance: int) -> None:
        for name, slot in NAMES.items():
            if values and name in values and (known := self.ids[slot]):
                values[name] = known[chance % len(known)]
        if values and isinstance(values.get("data"), str):
            values["data"] = b64encode(values["data"].encode()).decode()

    def _send(self, case: Case[Any], session: requests.Session) -> None:
        response = case.call(session=session, timeout=30)
        status, slot = response.status_code, case.operation.tags[0]
        self.answers[case.operation.label, status] += 1
        case.validate_response(response, checks=CHECKS)
        assert status < 500 or (status == 503 and slot in OFF), f"{case.operation.label}: {response.text}"
        if status == 201 and slot in self.ids:
            self.ids[slot].append(response.json()["id"])


def drive(served: Host, count: int, seed: int) -> None:
    print(f"AGENTBOX_SEED={seed}")
    ids = {
        "beads": [ask(served, "POST", "/v1/beads/epics", {"title": "first"})[1]["id"]],
        "orchestrator": [ask(served, "POST", "/v1/agents", {"spec": {"command": COMMAND}})[1]["id"]],
    }
    driver = Driver(served, seed, ids)
    began = time.monotonic()
    try:
        driver.drive(count)
    finally:
        end_all(served, driver.ids["orchestrator"])
    print(f"{driver.answers.total():,} requests in {time.monotonic() - began:.1f} s")
    done = {label for label, status in driver.answers if status in (200, 201)}
    assert done >= (ESSENTIAL if count >= 2000 else {"POST /v1/beads/epics", "GET /v1/beads/{bead_id}"}), driver.answers


def end_all(served: Host, agents: list[str]) -> None:
    for agent in agents:
        assert ask(served, "DELETE", f"/v1/agents/{agent}?grace_seconds=0")[1]["status"] == "exited"
    for status in ("starting", "running"):
        assert ask(served, "GET", f"/v1/agents?status={status}")[1]["items"] == []


def test_every_answer_is_documented(served: Host) -> None:
    drive(served, 300, int(os.environ.get("AGENTBOX_SEED") or 1))


@pytest.mark.soak
def test_every_answer_to_thousands_is_documented(served: Host) -> None:
    drive(served, 2000, int(os.environ.get("AGENTBOX_SEED") or random.randrange(1 << 32)))


def test_the_document_is_valid_openapi(served: Host) -> None:
    status, document = ask(served, "GET", "/openapi.json", token=False)
    assert (status, document) == (200, DOCUMENT)
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_validator_knows_a_document_that_is_none() -> None:
    broken = DOCUMENT | {"paths": {"/x": {"get": {"responses": {"200": {}}}}}}
    with pytest.raises(jsonschema_rs.ValidationError, match="description"):
        schemathesis.openapi.from_dict(broken).validate()


@pytest.mark.parametrize(("path", "verb"), OPERATIONS)
def test_every_operation_needs_a_token(served: Host, path: str, verb: str) -> None:
    status, problem = ask(served, verb.upper(), filled(path, "x"), token=False)
    assert (status, problem["code"]) == (401, "permission_denied")


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_a_verb_that_is_not_documented_is_not_taken(served: Host, path: str) -> None:
    address = filled(path, "x")
    taken = {verb for other, verb in OPERATIONS if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", other), address)}
    for verb in {"get", "post", "put", "patch", "delete", "options"} - taken:
        assert ask(served, verb.upper(), address)[0] == 405, verb


def filled(path: str, value: str) -> str:
    return re.sub(r"\{\w+\}", quote(value, safe=""), path)


def least(schema: dict[str, Any]) -> Any:
    """The smallest value that fits *schema*."""
    if "$ref" in schema:
        return least(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return least(schema["anyOf"][0])
    match schema.get("type"):
        case "object":
            return {name: least(schema["properties"][name]) for name in schema.get("required", ())}
        case "string":
            return "eA=="
        case "integer" | "number":
            return schema.get("minimum", 1)
    return None


def with_a_stranger(value: Any) -> Iterator[Any]:
    """*value* with a member too many, at each place where an object stands."""
    yield value | {STRANGER: 1}
    for name, member in value.items():
        if isinstance(member, dict):
            yield from (value | {name: changed} for changed in with_a_stranger(member))


def everything(served: Host, bead: str) -> list[Any]:
    """What a write could have changed."""
    state = [ask(served, "GET", address) for address in (f"/v1/beads/{bead}", f"/v1/beads/{bead}/children")]
    state += [ask(served, "GET", address) for address in ("/v1/beads/ready?limit=1000", "/v1/agents?limit=1000")]
    return [*state, sorted((served.folder / ".agentbox").glob("sync/*"))]


@pytest.mark.parametrize(("path", "verb"), WRITES)
def test_a_write_refuses_what_it_does_not_know(quiet: Host, path: str, verb: str) -> None:
    _, bead = ask(quiet, "POST", "/v1/beads/epics", {"title": "a bead that stays as it is"})
    address, before = filled(path, bead["id"]), everything(quiet, bead["id"])
    body = DOCUMENT["paths"][path][verb].get("requestBody")
    bodies = with_a_stranger(least(body["content"]["application/json"]["schema"]) if body else {})
    for sent in [] if verb == "delete" else bodies:
        status, problem = ask(quiet, verb.upper(), address, sent)
        assert (status, problem["code"]) == (422, "invalid_input"), sent
        assert f"`{STRANGER}`" in problem["message"]
    status, problem = ask(quiet, verb.upper(), f"{address}?{STRANGER}=1", None if verb == "delete" else {})
    assert (status, problem["code"]) == (422, "invalid_input")
    assert STRANGER in problem["message"]
    assert everything(quiet, bead["id"]) == before


def test_an_object_in_a_body_is_closed_too(served: Host) -> None:
    status, problem = ask(served, "POST", "/v1/agents", {"spec": {"command": COMMAND, "comand": "x"}})
    assert (status, problem["message"]) == (422, "spec: unknown member `comand`")
    assert DOCUMENT["components"]["schemas"]["AgentSpec"]["additionalProperties"] is False


def test_a_slash_in_a_name_is_part_of_it(served: Host) -> None:
    assert ask(served, "GET", "/v1/beads/a%2Fchildren")[1]["id"] == "a/children"
    assert ask(served, "GET", "/v1/agents/..%2F..%2Fetc")[1]["id"] == "../../etc"


def test_a_name_may_be_a_word_of_another_address(served: Host) -> None:
    assert ask(served, "GET", "/v1/memory/search") == (200, {"items": [], "next": None})


@pytest.mark.parametrize("name", ["\0", ".", "nowhere/file", "x" * 300])
def test_what_cannot_be_a_file_is_refused(served: Host, name: str) -> None:
    status, problem = ask(served, "POST", "/v1/beads/sync", {"path": name})
    assert (status, problem["code"]) == (422, "invalid_input")
    assert "cannot be a file in the host's folder" in problem["message"]


def test_where_the_host_keeps_its_files_is_not_told(served: Host) -> None:
    status, problem = ask(served, "POST", "/v1/beads/sync", {"path": "none.jsonl", "direction": "import"})
    assert status == 404
    assert "none.jsonl" in problem["message"]
    assert str(served.folder) not in problem["message"]
