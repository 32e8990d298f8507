"""
TLS between beads and Postgres. The server from the package cannot speak it, so a go-between does: it answers the
request for TLS as a server would, and speaks plainly with the real one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterUnavailable
from tests.servers.certificates import CERTIFICATE, KEY, OTHER
from tests.servers.postgres import Server, postgres_fixture  # noqa: F401 - used by its name, postgres

ASKS_FOR_TLS = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("key.pem", KEY), ("cert.pem", CERTIFICATE), ("other.pem", OTHER)):
        (tmp_path / name).write_text(text)
    return tmp_path


async def pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def speaking_tls(server: Server, folder: Path) -> AsyncIterator[int]:
    """The port of a go-between that insists on TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            assert await reader.readexactly(8) == ASKS_FOR_TLS
            writer.write(b"S")
            await writer.start_tls(context)
            behind_reader, behind_writer = await asyncio.open_connection(server.host, server.port)
            await asyncio.gather(pumped(reader, behind_writer), pumped(behind_reader, writer))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


async def opened_with(server: Server, folder: Path, port: int, **settings: Any) -> str:
    """What became of one write over TLS."""
    manifest = server.manifest(dsn=server.dsn_of(port=port), **settings)
    async with open_slot(manifest, "beads", folder=folder) as beads:
        return str((await beads.create_epic(title="Ship it")).status)


@pytest.mark.parametrize(
    "settings", [{"sslmode": "require"}, {"sslmode": "verify-ca"}, {"sslmode": "verify-full"}], ids=str
)
async def test_a_trusted_server_is_used(postgres: Server, folder: Path, settings: dict[str, str]) -> None:
    async with speaking_tls(postgres, folder) as port:
        assert await opened_with(postgres, folder, port, sslrootcert="cert.pem", **settings) == "open"


async def test_without_a_root_certificate_require_asks_for_none(postgres: Server, folder: Path) -> None:
    async with speaking_tls(postgres, folder) as port:
        assert await opened_with(postgres, folder, port, sslmode="require") == "open"


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
async def test_a_server_that_is_not_trusted_is_refused(postgres: Server, folder: Path, mode: str) -> None:
    async with speaking_tls(postgres, folder) as port:
        with pytest.raises(AdapterUnavailable, match="certificate verify failed"):
            await opened_with(postgres, folder, port, sslmode=mode, sslrootcert="other.pem")


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_a_server_without_tls_is_refused(postgres: Server, folder: Path, mode: str) -> None:
    with pytest.raises(AdapterUnavailable, match="rejected SSL upgrade"):
        await opened_with(postgres, folder, postgres.port, sslmode=mode, sslrootcert="cert.pem")


async def test_a_certificate_that_is_not_there_is_named(postgres: Server, folder: Path) -> None:
    with pytest.raises(AdapterUnavailable, match=r"sslrootcert: there is no file .*none\.pem"):
        await opened_with(postgres, folder, postgres.port, sslmode="verify-full", sslrootcert="none.pem")
