"""Beads over HTTP, where the port's own form does not travel: a file of the caller's is not a file of the host's."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from starlette.responses import Response

from agentbox.host._answers import Refusal, answer
from agentbox.host._requests import Request
from agentbox.host._routing import Endpoint
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.wire import decode, encode

__all__ = ["JSONL", "sync"]

JSONL = "application/jsonl"
FOLDER = "sync"
LARGER = 64
"""How many times larger than other bodies a file may be."""

Direction = Literal["both", "import", "export"]


def sync(call: Callable[..., Awaitable[Any]], state: Path, body_bytes: int) -> Endpoint:
    """
    `POST /v1/beads/sync`, in two forms.

    With a JSON body, `path` names a file in the host's folder `sync`, and nothing outside it. With a body of type
    `application/jsonl` it is the caller's own file: the answer has the report, and the file as it should be afterwards.
    """

    async def handle(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == JSONL:
            return await _exchange(request, call, state, body_bytes * LARGER)
        if kind != "application/json":
            raise Refusal(415, f"application/json or {JSONL} is taken here")
        asked = decode(await request.body(body_bytes), dict[str, Any])
        if isinstance(asked.get("path"), str):
            asked["path"] = str(_inside(state / FOLDER, asked["path"]))
        return answer(await call(**asked))

    return handle


async def _exchange(request: Request, call: Callable[..., Awaitable[Any]], state: Path, limit: int) -> Response:
    direction = dict(request.query()).get("direction", "both")
    body = await request.body(limit)
    with tempfile.TemporaryDirectory(prefix="sync-", dir=state) as folder:
        file = Path(folder) / "beads.jsonl"
        if request.headers.get("agentbox-file") != "none":
            await asyncio.to_thread(file.write_bytes, body)
        try:
            report = await call(path=str(file), direction=direction)
        except AgentboxError as error:
            raise type(error)(error.message.replace(str(file), "file"), slot=error.slot, method=error.method) from error
        after = b"" if direction == "import" else await asyncio.to_thread(file.read_bytes)
    return Response(b'{"report":' + encode(report) + b',"file":' + encode(after) + b"}", media_type="application/json")


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Refusal(403, f"only files in the host's folder {FOLDER!r} can be named; send the file itself as {JSONL}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return path
