"""Vectors from a service that speaks OpenAI's `/v1/embeddings`, wherever it runs."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from agentbox.adapters._http import Answer, Endpoint
from agentbox.adapters._retry import pause
from agentbox.adapters.memory._batching import Batched
from agentbox.adapters.memory._embedder import Kind, Vector
from agentbox.adapters.memory._embedder_settings import EmbedderSettings, OpenAiSettings
from agentbox_contracts.errors import (
    AdapterFailed,
    AdapterUnavailable,
    AgentboxError,
    EmbeddingError,
    InvalidInput,
    PermissionDenied,
)

__all__ = ["OpenAiEmbedder", "create"]

AT_ONCE = 4
TOLD = 300


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Item]


class OpenAiEmbedder:
    """One model of one service. What fails for a passing reason is repeated, as late as the service asks."""

    name = "openai"
    semantic = True

    def __init__(self, settings: OpenAiSettings) -> None:
        self._settings = settings
        self.dimensions = settings.dimensions
        self.fingerprint = f"openai:{settings.model}:{settings.dimensions}"
        address = f"{settings.url.rstrip('/')}/embeddings"
        self._service = Endpoint(
            address, key=settings.key, timeout_seconds=settings.timeout_seconds, ca_file=settings.ca_file
        )

    async def open(self) -> None:
        """Does not call: a service that is away must not keep what is stored away as well."""
        await self._service.open()

    async def close(self) -> None:
        await self._service.close()

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        found: list[Vector] = [array("f", bytes(4 * self.dimensions))] * len(texts)
        places = [place for place, text in enumerate(texts) if text.strip()]
        if places:
            vectors = await self._asked([texts[place] for place in places])
            for place, vector in zip(places, vectors, strict=True):
                found[place] = vector
        return found

    async def _asked(self, texts: list[str]) -> list[Vector]:
        body: dict[str, Any] = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        if self._settings.request_dimensions:
            body["dimensions"] = self.dimensions
        answer = await self._repeated(msgspec.json.encode(body))
        try:
            items = sorted(msgspec.json.decode(answer, type=_Embeddings).data, key=lambda item: item.index)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AdapterFailed(f"{self._service.url} answered, and not with embeddings: {error}") from error
        if [item.index for item in items] != list(range(len(texts))):
            raise EmbeddingError(f"{self._service.url} gave {len(items)} vectors for {len(texts)} texts")
        return [self._vector(item.embedding) for item in items]

    def _vector(self, values: list[float]) -> Vector:
        if len(values) != self.dimensions:
            raise EmbeddingError(
                f"{self._settings.model} at {self._service.url} gives vectors of {len(values)} dimensions, not "
                f"{self.dimensions}; set dimensions = {len(values)} in the table openai"
            )
        length = math.hypot(*values)
        if not 0 < length < math.inf:
            raise EmbeddingError(f"{self._service.url} gave a vector without a direction")
        return array("f", [value / length for value in values])

    async def _repeated(self, body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.retry_seconds
        number = 0
        while True:
            number += 1
            wait = pause(number)
            try:
                answer = await self._service.post(body)
                if answer.status == 200:
                    return answer.content
                error = self._error(answer)
                wait = max(wait, answer.retry_after or 0.0)
            except AdapterUnavailable as unavailable:
                error = unavailable
            if not error.retryable or loop.time() + wait > until:
                raise error
            await asyncio.sleep(wait)

    def _error(self, answer: Answer) -> AgentboxError:
        told = _told(answer.content)
        what = f"{self._service.url} answered {answer.status}{told and f': {told}'}"
        if answer.status in (401, 403):
            key = self._settings.key
            return PermissionDenied(f"{what}; the key is {key.reference if key else 'not set'}")
        if answer.status == 429 and "insufficient_quota" in answer.content.decode(errors="replace"):
            return AdapterFailed(what)
        if answer.status in (408, 409, 429) or answer.status >= 500:
            return AdapterUnavailable(what)
        if answer.status in (400, 413, 422):
            return InvalidInput(what)
        return AdapterFailed(f"{what}; are url and model right?")


def create(settings: EmbedderSettings) -> Batched:
    """The embedder; a few requests are under way at once."""
    return Batched(OpenAiEmbedder(settings.openai), texts=settings.openai.batch_size, characters=200_000, calls=AT_ONCE)


def _told(content: bytes) -> str:
    """What the service says is wrong, in a line."""
    try:
        error = msgspec.json.decode(content)["error"]
        text = error["message"] if isinstance(error, dict) else str(error)
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
        text = content.decode(errors="replace")
    return " ".join(str(text).split())[:TOLD]
