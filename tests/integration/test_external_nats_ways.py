"""The ways into a NATS: a password, a token, TLS, any server of a cluster; and what is said to who is refused."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentbox.adapters.events import _nats_link
from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterUnavailable
from agentbox_contracts.events import Event
from tests.servers import certificates
from tests.servers.nats import Server, cluster


def event(number: int) -> Event:
    return Event(type="suite.told", source="suite", id=f"event {number}", data=number)


INFO = b'INFO {"server_id":"X","version":"2.12.0","max_payload":1048576,"auth_required":true}\r\n'


@asynccontextmanager
async def doorkeeper(*, resets: int, then_resets: bool = False) -> AsyncIterator[tuple[int, list[int]]]:
    """A port at which nobody gets in: some visits are reset, one is told why, later ones as *then_resets* says."""
    visits: list[int] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(len(visits))
        writer.write(INFO)
        await reader.readuntil(b"PING\r\n")
        if visits[-1] < resets or (then_resets and visits[-1] > resets):
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], visits


def at(port: int, *, scheme: str = "nats") -> str:
    return f'[adapters]\nevents = "external-nats"\n[events.external-nats]\nurl = "{scheme}://127.0.0.1:{port}"\n'


async def refusal(manifest: str, folder: Path) -> str:
    """Why the slot cannot be opened."""
    with pytest.raises(AdapterUnavailable) as failure:
        async with open_slot(manifest, "events", folder=folder):
            pass
    return str(failure.value)


@pytest.fixture
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks to nobody without TLS."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_text(certificates.CERTIFICATE)
    (folder / "key.pem").write_text(certificates.KEY)
    server = Server(more=f'tls {{ cert_file: "{folder}/cert.pem", key_file: "{folder}/key.pem" }}')
    (server.folder / "cert.pem").write_text(certificates.CERTIFICATE)
    yield server
    server.remove()


class TestWays:
    async def test_login(self, tmp_path: Path) -> None:
        secret, wrong = tmp_path / "secret", tmp_path / "wrong"
        secret.write_text("s3cret")
        wrong.write_text("guess")
        server = Server(more='authorization { user: "ada", password: "s3cret" }')
        try:
            good = server.manifest(user="ada", password=f"file:{secret}")
            async with open_slot(good, "events", folder=tmp_path) as events:
                assert (await events.dispatch(event(1))).seq == 1
            bad = server.manifest(user="ada", password=f"file:{wrong}")
            assert "Authorization Violation" in (words := await refusal(bad, tmp_path))
            assert "guess" not in words
        finally:
            server.remove()

    async def test_tls_with_a_certificate_that_is_known(self, tls: Server, tmp_path: Path) -> None:
        manifest = tls.manifest(url=tls.url.replace("nats:", "tls:"), tls_ca=str(tls.folder / "cert.pem"))
        async with open_slot(manifest, "events", folder=tmp_path) as events:
            await events.dispatch(event(1))
            tls.kill()
            tls.start()
            assert (await events.dispatch(event(2))).seq == 2
            assert [each.data for each in await events.read()] == [1, 2]

    async def test_a_certificate_of_somebody_else_is_refused(self, tls: Server, tmp_path: Path) -> None:
        other = tmp_path / "other.pem"
        other.write_text(certificates.OTHER)
        manifest = tls.manifest(url=tls.url.replace("nats:", "tls:"), tls_ca=str(other))
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(manifest, tmp_path)

    async def test_a_server_without_tls_hears_no_password(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("s3cret")
        heard = bytearray()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(INFO)
            while piece := await reader.read(1000):
                heard.extend(piece)
                if piece.endswith(b"PING\r\n"):
                    writer.write(b"PONG\r\n")
            writer.close()

        async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
            manifest = at(server.sockets[0].getsockname()[1], scheme="tls")
            manifest += f'token = "file:{secret}"\nretry_seconds = 0\n'
            assert "offers no TLS" in await refusal(manifest, tmp_path)
        assert heard == b""

    async def test_a_token(self, tmp_path: Path) -> None:
        (tmp_path / "right").write_text("s3cret")
        (tmp_path / "wrong").write_text("guess")
        server = Server(more='authorization { token: "s3cret" }')
        try:
            async with open_slot(server.manifest(token=f"file:{tmp_path}/right"), "events", folder=tmp_path) as events:
                assert (await events.dispatch(event(1))).seq == 1
            told = await refusal(server.manifest(token=f"file:{tmp_path}/wrong"), tmp_path)
            assert "Authorization Violation" in told
            assert "guess" not in told
        finally:
            server.remove()

    async def test_three_replicas_are_a_quorum_and_outlive_one_server(self, tmp_path: Path) -> None:
        with cluster(3) as servers:
            everyone = ",".join(each.url for each in servers)
            manifest = servers[0].manifest(url=everyone, replicas=3, retry_seconds=60, connect_timeout_seconds=120)
            async with open_slot(manifest, "events", folder=tmp_path) as events:
                assert events.durability == "quorum"
                assert (await events.dispatch(event(0))).durability == "quorum"
                servers[1].kill()
                receipts = [await events.dispatch(event(number)) for number in range(1, 20)]
                assert {receipt.durability for receipt in receipts} == {"quorum"}
                await events.ack("reader", receipts[-1].seq or 0)
                assert [each.data for each in await events.read()] == list(range(20))


class TestRefusals:
    """What a person is told when a server does not let them in, whatever the connection says first."""

    async def test_a_reset_before_the_servers_words_is_asked_again(self, tmp_path: Path) -> None:
        async with doorkeeper(resets=3) as (port, visits):
            assert "Authorization Violation" in await refusal(at(port), tmp_path)
        assert len(visits) > 3

    async def test_a_reset_after_the_servers_words_does_not_replace_them(self, tmp_path: Path) -> None:
        async with doorkeeper(resets=0, then_resets=True) as (port, _):
            assert "Authorization Violation" in await refusal(at(port), tmp_path)

    async def test_who_always_resets_is_given_up_in_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_nats_link, "ANSWER_SECONDS", 0.5)
        async with doorkeeper(resets=1_000_000) as (port, visits):
            assert "reset by peer" in await refusal(at(port), tmp_path)
        assert len(visits) > 2

    async def test_nobody_who_listens_is_no_connection(self, tmp_path: Path) -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            manifest = at(silent.getsockname()[1])
            with pytest.raises(AdapterUnavailable, match="Connect call failed"):
                async with open_slot(manifest, "events", folder=tmp_path):
                    pass
