"""A host that speaks TLS, with its files beside the manifest, and clients that trust it or do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterUnavailable
from tests.servers.certificates import CERTIFICATE, KEY, OTHER
from tests.servers.host import Host, host

SETTINGS = '[host]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n'


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Host]:
    folder = tmp_path / "host"
    folder.mkdir()
    for name, text in (("key.pem", KEY), ("cert.pem", CERTIFICATE), ("other.pem", OTHER)):
        (folder / name).write_text(text)
    with host(folder, SETTINGS) as found:
        yield found


def client(served: Host, trusted: str) -> str:
    text = served.client("beads").replace("http://", "https://")
    return f'{text}[beads.external]\nca_file = "{served.folder / trusted}"\nretry_seconds = 0\n'


async def test_a_client_that_trusts_the_certificate_works(served: Host, tmp_path: Path) -> None:
    async with open_slot(client(served, "cert.pem"), "beads", folder=tmp_path) as beads:
        epic = await beads.create_epic(title="over TLS")
        assert (await beads.show(epic.id)).title == "over TLS"


async def test_a_client_that_does_not_trust_it_says_so(served: Host, tmp_path: Path) -> None:
    with pytest.raises(AdapterUnavailable, match="certificate verify failed"):
        async with open_slot(client(served, "other.pem"), "beads", folder=tmp_path):
            pass


async def test_plain_http_is_not_answered(served: Host, tmp_path: Path) -> None:
    text = served.client("beads") + "[beads.external]\nretry_seconds = 0\n"
    with pytest.raises(AdapterUnavailable):
        async with open_slot(text, "beads", folder=tmp_path):
            pass
