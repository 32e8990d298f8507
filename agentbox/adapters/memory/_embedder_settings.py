"""What a manifest says of embedders, the same for every memory adapter that embeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Secret, Settings

__all__ = ["EmbedderSettings", "MinilmSettings", "OpenAiSettings"]

Option = str | int | float | bool


@attrs.frozen(kw_only=True)
class MinilmSettings:
    """`path` is a folder with the weights, where it is not the one that `agentbox embedder install minilm` fills."""

    path: Path | None = None


@attrs.frozen(kw_only=True)
class OpenAiSettings:
    """
    A service that speaks OpenAI's `/v1/embeddings`; `url` is all that comes before `/embeddings`.

    `dimensions` is the length of the model's vectors, and what it is asked for with `request_dimensions`. A request
    carries up to `batch_size` texts; one that failed for a passing reason is repeated for up to `retry_seconds`.
    """

    url: str = "https://api.openai.com/v1"
    model: Annotated[str, Meta(min_length=1)] = "text-embedding-3-small"
    key: Secret | None = None
    dimensions: Annotated[int, Meta(ge=1, le=16_384)] = 1536
    request_dimensions: bool = False
    batch_size: Annotated[int, Meta(ge=1, le=2048)] = 64
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    retry_seconds: Annotated[float, Meta(ge=0, le=600)] = 20.0
    ca_file: Path | None = None


# Without slots, so that an adapter's settings can have another base beside this one.
@attrs.frozen(kw_only=True, slots=False)
class EmbedderSettings(Settings):
    """
    `embedder` is `lexical`, `minilm`, `openai`, or what an entry point in the group `agentbox.embedders` provides.

    The tables `minilm` and `openai` are those embedders' own, `embedder_options` is a plugin's.
    """

    embedder: Annotated[str, Meta(min_length=1)] = "lexical"
    minilm: MinilmSettings = MinilmSettings()
    openai: OpenAiSettings = OpenAiSettings()
    embedder_options: dict[str, Option] = attrs.field(factory=dict)
