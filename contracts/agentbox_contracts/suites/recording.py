"""
Conversations with a server, recorded once and replayed without it.

    async with recording.Recorder(host, port, path, meta={"slot": "beads", "contract": "1.0.0"}) as recorder:
        ...                                     # the client talks to recorder.port
    async with recording.Replay(path, masks=(*recording.HTTP, recording.UUID)) as replay:
        ...                                     # the same client talks to replay.port; a difference is a Mismatch

A recording keeps every byte, tokens too: record with credentials that are good for nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from agentbox_contracts.suites import faults
from agentbox_contracts.suites._faults_listener import Listening
from agentbox_contracts.suites._recording_file import BadRecording, Conversation, Turn, read, write
from agentbox_contracts.suites._recording_masks import ADDRESS, HTTP, TIMESTAMP, UUID, Echo, Mask, Mismatch, around
from agentbox_contracts.suites._recording_player import Player, Stage

__all__ = ["ADDRESS", "HTTP", "TIMESTAMP", "UUID", "BadRecording", "Mask", "Mismatch", "Recorder", "Replay"]


class Recorder(faults.Proxy):
    """
    A proxy to *host* and *port* that writes what passes through it to *path*, once its block has ended well.

    *meta* is kept in the header: whatever the reader should know, such as slot, impl and contract version.
    """

    def __init__(self, host: str, port: int, path: Path | str, *, meta: Mapping[str, Any] | None = None) -> None:
        super().__init__(host, port, tap=self._keep)
        self._path = Path(path)
        self._meta = meta or {}
        self._turns: list[Turn] = []
        self._last: dict[int, Turn] = {}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if error is None:
            await asyncio.to_thread(write, self._path, Conversation(tuple(self._turns), self._meta))

    def _keep(self, connection: int, direction: faults.Direction, data: bytes) -> None:
        last = self._last.get(connection)
        if last is None or last.direction != direction:
            last = self._last[connection] = Turn(connection, direction)
            self._turns.append(last)
        last.data += data
        last.end = not data


class Replay(Listening):
    """
    Serves the recording in *path* on loopback, once, its connections in the order in which they were opened.

    The first difference is a Mismatch: kept in `mismatch`, and raised at the end of the block in place of whatever
    trouble it caused there. So is a recording of which something was never asked for. *masks* say what may differ;
    plain bytes are the pattern of one. A client that stops in the middle of a turn is given *silence_seconds*.
    """

    kind = "replay"

    def __init__(self, path: Path | str, *, masks: Iterable[Mask | bytes] = (), silence_seconds: float = 10.0) -> None:
        self.connections = 0
        self._conversation = read(Path(path))
        chosen = tuple(mask if isinstance(mask, Mask) else Mask(mask) for mask in masks)
        self._stage = Stage(chosen, Echo(chosen), silence_seconds, self._conversation.said())

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the recorder was told about the recording."""
        return self._conversation.meta

    @property
    def mismatch(self) -> Mismatch | None:
        """The first difference between what the client says and what was recorded."""
        return self._stage.mismatch

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
        await asyncio.sleep(0)  # who was accepted only now begins, so that what it said is compared too
        await self._opened.finish()
        if error is None and self._stage.mismatch is None and self._stage.left:
            turn = self._stage.left[0]
            where = f"connection {turn.connection}: the client never said what was recorded"
            self._stage.mismatch = Mismatch(where, around(turn.data, 0), b"")
        if self._stage.mismatch is not None and (error is None or isinstance(error, Exception)):
            raise self._stage.mismatch from error

    def _accept(self, client: socket.socket) -> None:
        self.connections += 1
        turns = self._conversation.connection(self.connections)
        self._opened.start(Player(client, self.connections, turns, self._stage).run(), client.close)
