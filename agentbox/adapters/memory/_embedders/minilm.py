"""all-MiniLM-L6-v2: sentences of like meaning are near. Runs on numpy, from weights on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentbox.adapters.memory._batching import Batched
from agentbox.adapters.memory._embedder import Kind, Vector
from agentbox.adapters.memory._embedder_settings import EmbedderSettings
from agentbox.adapters.memory._models import MINILM
from agentbox_contracts.errors import AdapterUnavailable

if TYPE_CHECKING:
    from agentbox.adapters.memory._embedders._bert import Bert
    from agentbox.adapters.memory._embedders._wordpiece import WordPieces

__all__ = ["MinilmEmbedder", "create"]

DIMENSIONS = 384
HEADS = 12
TOKENS = 256
"""What the model reads of a text at most; pieces of stored text are cut to fit."""
AT_ONCE = 4096
"""Tokens in one pass, so that it stays below some tens of megabytes."""


class MinilmEmbedder:
    """The model of `agentbox embedder install minilm`, or of *folder*."""

    name = "minilm"
    dimensions = DIMENSIONS
    semantic = True
    fingerprint = f"minilm:{MINILM.files['model.safetensors'][:12]}:{DIMENSIONS}"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._model: tuple[WordPieces, Bert] | None = None

    async def open(self) -> None:
        if self._model is None:
            self._model = await asyncio.to_thread(_load, self._folder or MINILM.folder)

    async def close(self) -> None:
        self._model = None

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> list[Vector]:
        if self._model is None:
            raise AdapterUnavailable("the embedder minilm is not open")
        return await asyncio.to_thread(_embed, *self._model, texts)


def create(settings: EmbedderSettings) -> Batched:
    """The embedder, its callers sharing passes that take well under a second."""
    import numpy  # noqa: F401 - found missing here, where it can be said what to install

    return Batched(MinilmEmbedder(settings.minilm.path), texts=64, characters=20_000)


def _load(folder: Path) -> tuple[WordPieces, Bert]:
    from agentbox.adapters.memory._embedders._bert import Bert
    from agentbox.adapters.memory._embedders._safetensors import read_tensors
    from agentbox.adapters.memory._embedders._wordpiece import WordPieces

    remedy = "run 'agentbox embedder install minilm'"
    try:
        pieces = WordPieces.load(folder / "tokenizer.json")
        return pieces, Bert(read_tensors(folder / "model.safetensors"), heads=HEADS)
    except OSError as error:
        raise AdapterUnavailable(f"the weights of minilm are not in {folder}: {remedy}") from error
    except (ValueError, KeyError) as error:
        raise AdapterUnavailable(f"the weights of minilm in {folder} are damaged, {error}: {remedy}") from error


def _embed(pieces: WordPieces, model: Bert, texts: Sequence[str]) -> list[Vector]:
    import numpy as np

    found: list[Vector] = [np.zeros(DIMENSIONS, dtype=np.float32)] * len(texts)
    encoded = [(place, pieces.encode(text, limit=TOKENS)) for place, text in enumerate(texts) if text.strip()]
    encoded.sort(key=lambda item: len(item[1]))
    for part in _parts(encoded):
        for (place, _), vector in zip(part, model.encode([tokens for _, tokens in part]), strict=True):
            found[place] = vector
    return found


def _parts(encoded: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """*encoded*, texts of like length together, in parts of at most AT_ONCE tokens."""
    part: list[tuple[int, list[int]]] = []
    tokens = 0
    for item in encoded:
        if part and tokens + len(item[1]) > AT_ONCE:
            yield part
            part, tokens = [], 0
        part.append(item)
        tokens += len(item[1])
    if part:
        yield part
