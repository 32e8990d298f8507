"""Memcached's text protocol, as much of it as one document needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["Client"]

CONNECTIONS = 8
"""How many questions are asked at the same time; more wait for their turn."""

Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    """
    Asks one server. Connections are opened when they are needed, and kept.

    Whatever goes wrong is AdapterUnavailable, and the next question finds a new connection. It sets no deadline: the
    caller's cancels.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._target = host.strip("[]"), int(port)
        self._idle: list[Connection] = []
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._is_closed = False
        self.writing = asyncio.Lock()
        """For those who read and then write: one at a time in this process, so that they do not beat each other."""

    async def close(self) -> None:
        """Take no more questions. One that was asked has its answer first, and then its connection closes too."""
        self._is_closed = True
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()
        await asyncio.sleep(0)  # an aborted connection is gone one turn of the loop later

    async def version(self) -> str:
        """What the server says it is."""
        line, _ = await self._ask(b"version\r\n", b"VERSION")
        return line.decode(errors="replace")

    async def gets(self, key: str) -> tuple[bytes, int] | None:
        """The value and the number of its version, or None."""
        line, value = await self._ask(b"gets %s\r\n" % key.encode(), b"VALUE", b"END")
        return (value, int(line.split()[-1])) if line.startswith(b"VALUE") else None

    async def add(self, key: str, value: bytes) -> bool:
        """Store *value* if there is none yet. Whether it was stored."""
        head = b"add %s 0 0 %d\r\n" % (key.encode(), len(value))
        line, _ = await self._ask(head + value + b"\r\n", b"STORED", b"NOT_STORED")
        return line == b"STORED"

    async def cas(self, key: str, value: bytes, version: int) -> bool:
        """Store *value* if what is there is still that version. Whether it was stored."""
        head = b"cas %s 0 0 %d %d\r\n" % (key.encode(), len(value), version)
        line, _ = await self._ask(head + value + b"\r\n", b"STORED", b"EXISTS", b"NOT_FOUND")
        return line == b"STORED"

    async def _ask(self, question: bytes, *expected: bytes) -> tuple[bytes, bytes]:
        """The first line of the answer, which begins with one of the *expected* words, and the value that follows."""
        async with self._connection() as (reader, writer):
            writer.write(question)
            await writer.drain()
            line = (await reader.readuntil(b"\r\n"))[:-2]
            if not line.startswith(expected):
                raise AdapterUnavailable(f"{self.address} answered {line[:200].decode(errors='replace')!r}")
            if not line.startswith(b"VALUE"):
                return line, b""
            size = int(line.split()[3])
            value = await reader.readexactly(size + len(b"\r\nEND\r\n"))
            return line, value[:size]

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """A connection for one question. It is kept only if its answer was read to the end."""
        async with self._turns:
            reader, writer = await self._connected()
            is_whole = False
            try:
                yield reader, writer
                is_whole = True
            except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
                raise AdapterUnavailable(f"{self.address} broke off: {error!r}") from error
            finally:
                # What is left of an answer would be taken for the next one's beginning.
                if is_whole and not self._is_closed:
                    self._idle.append((reader, writer))
                else:
                    writer.transport.abort()

    async def _connected(self) -> Connection:
        if self._is_closed:
            raise AdapterUnavailable(f"{self.address}: the adapter is disconnected")
        while self._idle:
            reader, writer = self._idle.pop()
            if not writer.is_closing() and not reader.at_eof():
                return reader, writer
            writer.transport.abort()
        try:
            return await asyncio.open_connection(*self._target)
        except OSError as error:
            raise AdapterUnavailable(f"{self.address} cannot be reached: {error}") from error
