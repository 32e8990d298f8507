"""The real weights, installed once by the project's own command, and services that embed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.embeddings import EmbeddingService


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """Where models of tests are kept from one run to the next."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AGENTBOX_MODELS") or cache / "agentbox" / "test-models")


@pytest.fixture
def minilm(models_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the weights, fetched if they are not there yet."""
    from agentbox.cli import main

    monkeypatch.setenv("AGENTBOX_MODELS", str(models_folder))
    assert main(["embedder", "install", "minilm"]) == 0
    return models_folder / "minilm-0.1.0"


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    """A service that speaks `/v1/embeddings` and misbehaves as it is told."""
    with EmbeddingService() as running:
        yield running
