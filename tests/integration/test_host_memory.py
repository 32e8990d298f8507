"""Memory over HTTP: names of any characters in an address, and bodies that are too long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import InvalidInput
from tests.integration.test_host import ask
from tests.servers.host import Host, host

NAMES = ("a/b", "a%2Fb", "%", ".", "..", "search", "a b", "\u00e9", "e\u0301", "?x=1#y", "\\", "\U0001f701", "a+b")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host"), '[adapters]\nmemory = "embedded"\n') as found:
        yield found


def piece(name: str) -> str:
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_an_address_is_one_piece(served: Host, name: str) -> None:
    body = {"key": name, "value": {"is": name}, "namespace": name}
    address = f"/v1/memory/{piece(name)}/{piece(name)}"

    assert ask(served, "POST", "/v1/memory", body).status == 201
    assert ask(served, "GET", address).json["value"] == {"is": name}
    assert ask(served, "GET", f"/v1/memory/{piece(name)}").json["items"] == [name]
    assert name in ask(served, "GET", "/v1/memory").json["items"]
    found = ask(served, "POST", "/v1/memory/search", {"query": "is", "namespace": name, "mode": "text"})
    assert (found.status, found.json) == (200, [])
    assert ask(served, "DELETE", address).status == 200
    assert ask(served, "GET", address).json["code"] == "not_found"


def test_a_body_that_is_too_long_is_refused(served: Host) -> None:
    answer = ask(served, "POST", "/v1/memory", b'{"key": "k", "value": "' + b"x" * 50_000_000 + b'"}')

    assert answer.status == 413
    assert ask(served, "GET", "/v1/memory/default").json["items"] == []


@pytest.mark.parametrize(
    "fields", [{"value": "x" * 1_048_576}, {"value": 1, "filter": {}}, {"value": 1, "ttl_seconds": -1}]
)
def test_what_the_contract_does_not_allow_is_422(served: Host, fields: dict[str, object]) -> None:
    answer = ask(served, "POST", "/v1/memory", {"key": "k", **fields})

    assert (answer.status, answer.json["code"]) == (422, "invalid_input")


async def test_the_longest_of_everything_fits(served: Host, tmp_path: Path) -> None:
    most, text = "\u00fc" * 500_000, "\U0001f701" * 999_990
    async with open_slot(served.client("memory"), "memory", folder=tmp_path) as memory:
        await memory.store("most", {"v": most}, metadata={"m": most}, text=f"{text} zebra", embedding=(0.1,) * 16_384)
        found = await memory.search("zebra", mode="text")
        assert [match.record.value for match in found] == [{"v": most}]
        await memory.delete("most")
        with pytest.raises(InvalidInput):
            await memory.store("more", "x" * 50_000_000)
