"""
A server that speaks as much of memcached's text protocol as the adapter asks: gets, add, cas, delete, version.

    python server.py PORT       # prints the port it listens on; 0 is any that is free
"""

from __future__ import annotations

import asyncio
import itertools
import sys


class Store:
    """Values with flags and a version each, and what a command does to them."""

    def __init__(self) -> None:
        self._values: dict[bytes, tuple[bytes, bytes, int]] = {}
        self._versions = itertools.count(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        try:
            while line := await reader.readline():
                writer.write(await self._answer(line.split(), reader))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, perhaps in the middle of a word
        finally:
            writer.close()

    async def _answer(self, words: list[bytes], reader: asyncio.StreamReader) -> bytes:
        match words:
            case [b"gets", *keys]:
                return b"".join(self._shown(key) for key in keys) + b"END\r\n"
            case [b"add", key, flags, _, size]:
                value = await _value(reader, int(size))
                return b"NOT_STORED\r\n" if key in self._values else self._store(key, flags, value)
            case [b"cas", key, flags, _, size, version]:
                value = await _value(reader, int(size))
                if key not in self._values:
                    return b"NOT_FOUND\r\n"
                return self._store(key, flags, value) if self._values[key][2] == int(version) else b"EXISTS\r\n"
            case [b"delete", key]:
                return b"DELETED\r\n" if self._values.pop(key, None) else b"NOT_FOUND\r\n"
            case [b"version"]:
                return b"VERSION 1.6-like\r\n"
        return b"ERROR\r\n"

    def _shown(self, key: bytes) -> bytes:
        if key not in self._values:
            return b""
        flags, value, version = self._values[key]
        return b"VALUE %s %s %d %d\r\n%s\r\n" % (key, flags, len(value), version, value)

    def _store(self, key: bytes, flags: bytes, value: bytes) -> bytes:
        self._values[key] = flags, value, next(self._versions)
        return b"STORED\r\n"


async def _value(reader: asyncio.StreamReader, size: int) -> bytes:
    return (await reader.readexactly(size + 2))[:size]


async def main(port: int) -> None:
    server = await asyncio.start_server(Store().serve, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
