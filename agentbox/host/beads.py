"""Beads over HTTP, where the port's own form does not travel: a file of the caller's is not a file of the host's."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from starlette.responses import Response

from agentbox.host._answers import Refusal, answer
from agentbox.host._requests import Request
from agentbox.host._routing import Endpoint
from agentbox_contracts.errors import AgentboxError, InvalidInput
from agentbox_contracts.wire import decode, encode

__all__ = ["JSONL", "sync"]

JSONL = "application/jsonl"
FILE = "agentbox-file"
FOLDER = "sync"
LARGER = 64
"""How many times larger than other bodies a file may be."""

Direction = Literal["both", "import", "export"]


def sync(adapter: Any, state: Path, body_bytes: int) -> Endpoint:
    """
    `POST /v1/beads/sync`, in two forms.

    With a JSON body, `path` names a file in the host's folder `sync`, and nothing outside it. With a body of type
    `application/jsonl` it is the caller's own file: the answer has the report, and the file as it should be afterwards.
    """
    call: Callable[..., Awaitable[Any]] = adapter.sync

    async def handle(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.headers.get(FILE, "sent") not in ("none", "sent"):
            raise InvalidInput(f"{FILE}: it is none or sent")
        if kind == JSONL:
            return await _exchange(request, call, state, body_bytes * LARGER)
        if kind != "application/json":
            raise Refusal(415, f"application/json or {JSONL} is taken here")
        request.refuse_query()
        asked = decode(await request.body(body_bytes), dict[str, Any])
        name = asked.get("path")
        if not name or not isinstance(name, str):
            return answer(await call(**asked))  # which says what is wrong with it
        path = _inside(state / FOLDER, name)
        with _shown(path, name):
            return answer(await call(**asked | {"path": str(path)}))

    return handle


async def _exchange(request: Request, call: Callable[..., Awaitable[Any]], state: Path, limit: int) -> Response:
    request.refuse_query("direction")
    direction = dict(request.query()).get("direction", "both")
    body = await request.body(limit)
    is_there = request.headers.get(FILE) != "none"
    if body and not is_there:
        raise InvalidInput(f"{FILE}: there is a body, and this says that there is no file")
    with tempfile.TemporaryDirectory(prefix="sync-", dir=state) as folder:
        file = Path(folder) / "beads.jsonl"
        if is_there:
            await asyncio.to_thread(file.write_bytes, body)
        with _shown(file, "file"):
            report = await call(path=str(file), direction=direction)
        after = b"" if direction == "import" else await asyncio.to_thread(file.read_bytes)
    return Response(b'{"report":' + encode(report) + b',"file":' + encode(after) + b"}", media_type="application/json")


@contextmanager
def _shown(path: Path, name: str) -> Iterator[None]:
    """Let errors speak of *name*: where the host keeps its files is not the caller's business."""
    try:
        yield
    except AgentboxError as error:
        details = {part: getattr(error, part) for part in ("resource", "id", "actor", "slot", "method", "impl")}
        if details["id"] is not None:
            details["id"] = details["id"].replace(str(path), name)
        raise type(error)(error.message.replace(str(path), name), **details) from error


def _inside(folder: Path, name: str) -> Path:
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise Refusal(403, f"only files in the host's folder {FOLDER!r} can be named; send the file as {JSONL}")
        folder.mkdir(mode=0o700, exist_ok=True)
        is_possible = path.parent.is_dir() and not path.is_dir()
    except (OSError, ValueError, RuntimeError):
        is_possible = False
    if not is_possible:
        raise InvalidInput(f"path: {name[:200]!r} cannot be a file in the host's folder {FOLDER!r}")
    return path
