"""The embedder `openai` against a real service that has bad days."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from agentbox.adapters.memory._canary import Canary
from agentbox.adapters.memory._embedder import Embedder, create_embedder
from agentbox.adapters.memory._embedder_settings import EmbedderSettings, OpenAiSettings
from agentbox_contracts.contract import Secret
from agentbox_contracts.errors import (
    AdapterFailed,
    AdapterUnavailable,
    AgentboxError,
    EmbeddingError,
    InvalidInput,
    PermissionDenied,
)
from tests.servers.embeddings import EmbeddingService, items

KEY = Secret("env:KEY", lambda: "sk-hush")


@asynccontextmanager
async def opened(service: EmbeddingService, **changes: Any) -> AsyncIterator[Embedder]:
    settings = OpenAiSettings(url=service.url, model="letters", key=KEY, dimensions=384, retry_seconds=5)
    made = create_embedder("openai", EmbedderSettings(openai=attrs.evolve(settings, **changes)))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def test_vectors_come_in_the_order_of_the_texts_and_in_batches(service: EmbeddingService) -> None:
    texts = [f"text {number}" for number in range(10)]
    async with opened(service, batch_size=4) as embedder:
        together = await embedder.embed(texts, kind="document")
        alone = [(await embedder.embed([text], kind="query"))[0] for text in texts]
    assert [list(vector) for vector in together] == [list(vector) for vector in alone]
    assert max(len(asked["input"]) for asked in service.requests) == 4
    assert set(service.keys) == {"Bearer sk-hush"}
    assert service.requests[0]["model"] == "letters"
    assert "dimensions" not in service.requests[0]
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-5) for vector in together)


async def test_blank_text_is_a_zero_vector_and_is_not_sent(service: EmbeddingService) -> None:
    async with opened(service, request_dimensions=True) as embedder:
        blank, word = await embedder.embed(["  \n", "word"], kind="document")
    assert not any(blank)
    assert any(word)
    assert [asked["input"] for asked in service.requests] == [["word"]]
    assert service.requests[0]["dimensions"] == 384


async def test_what_passes_is_repeated_as_late_as_the_service_asks(service: EmbeddingService) -> None:
    service.status(429, {"error": {"message": "slow down"}}, Retry_After="0.2")
    service.status(500)
    service.status(503, b"<html>")
    async with opened(service) as embedder:
        assert len(await embedder.embed(["a"], kind="query")) == 1
    assert len(service.requests) == 4


async def test_a_service_that_asks_for_more_patience_than_there_is_fails_at_once(service: EmbeddingService) -> None:
    service.status(429, b"", Retry_After="3600")
    async with opened(service) as embedder:
        with pytest.raises(AdapterUnavailable, match="429"):
            await embedder.embed(["a"], kind="query")
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (401, {"error": {"message": "bad key"}}, PermissionDenied, "bad key; the key is env:KEY"),
        (404, {"error": "no such model"}, AdapterFailed, "are url and model right"),
        (400, {"error": {"message": "too long"}}, InvalidInput, "too long"),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, AdapterFailed, "pay"),
    ],
)
async def test_what_does_not_pass_is_not_repeated(
    service: EmbeddingService, status: int, body: Any, error: type[AgentboxError], told: str
) -> None:
    service.status(status, body)
    async with opened(service) as embedder:
        with pytest.raises(error, match=told) as caught:
            await embedder.embed(["a"], kind="query")
    assert "sk-hush" not in str(caught.value)
    assert len(service.requests) == 1


@pytest.mark.parametrize(("status", "error"), [(401, PermissionDenied), (404, AdapterFailed)])
async def test_what_no_text_is_to_blame_for_is_asked_once_for_all(
    service: EmbeddingService, status: int, error: type[AgentboxError]
) -> None:
    for _ in range(20):
        service.status(status)
    async with opened(service) as embedder:
        calls = [embedder.embed([text], kind="document") for text in "abcdefgh"]
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in found} == {error}
    assert len(service.requests) == 1


async def test_numbers_too_great_for_a_direction_are_told(service: EmbeddingService) -> None:
    service.spoil(lambda items: [{**items[0], "embedding": [1e308] * 384}])
    async with opened(service) as embedder:
        with pytest.raises(EmbeddingError, match="without a direction"):
            await embedder.embed(["a"], kind="query")


async def test_an_answer_that_only_trickles_in_is_given_up(service: EmbeddingService) -> None:
    service.trickle()
    async with opened(service, timeout_seconds=0.4, retry_seconds=0.0) as embedder:
        async with asyncio.timeout(10):
            with pytest.raises(AdapterUnavailable, match="did not answer"):
                await embedder.embed(["a"], kind="query")


async def test_a_moment_to_come_back_at_is_waited_for(service: EmbeddingService) -> None:
    service.status(429, b"", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
    async with opened(service) as embedder:
        assert len(await embedder.embed(["a"], kind="query")) == 1


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (lambda items: items[1:], EmbeddingError, "0 vectors for 1 texts"),
        (lambda items: items * 2, EmbeddingError, "2 vectors for 1 texts"),
        (lambda items: [{**items[0], "index": 7}], EmbeddingError, "vectors for"),
        (lambda items: [{**items[0], "embedding": [1.0, 2.0]}], EmbeddingError, "set dimensions = 2"),
        (lambda items: [{**items[0], "embedding": [0.0] * 384}], EmbeddingError, "without a direction"),
        (lambda items: [{"index": 0, "embedding": "AAAA"}], AdapterFailed, "not with embeddings"),
        (lambda items: None, AdapterFailed, "not with embeddings"),
    ],
)
async def test_an_answer_that_is_none_is_told(
    service: EmbeddingService, change: Callable[[Any], Any], error: type[AgentboxError], told: str
) -> None:
    service.spoil(change)
    async with opened(service) as embedder:
        with pytest.raises(error, match=told):
            await embedder.embed(["a"], kind="query")


async def test_garbage_is_told(service: EmbeddingService) -> None:
    service.status(200, b"\xff\x00 no json")
    async with opened(service) as embedder:
        with pytest.raises(AdapterFailed, match="not with embeddings"):
            await embedder.embed(["a"], kind="query")


async def test_a_service_that_hangs_is_asked_again(service: EmbeddingService) -> None:
    service.hang()
    async with opened(service, timeout_seconds=0.3) as embedder:
        assert len(await embedder.embed(["a"], kind="query")) == 1


async def test_a_service_that_hangs_for_good_is_told(service: EmbeddingService) -> None:
    service.hang()
    async with opened(service, timeout_seconds=0.2, retry_seconds=0.0) as embedder:
        with pytest.raises(AdapterUnavailable, match="did not answer"):
            await embedder.embed(["b"], kind="query")


async def test_one_text_that_is_refused_fails_its_own_caller_only(service: EmbeddingService) -> None:
    def refuse(handler: Any, asked: dict[str, Any]) -> None:
        if "bad" in asked["input"]:
            handler.answer(400, {"error": {"message": "bad text"}}, {})
        else:
            handler.answer(200, {"data": items(asked)}, {})

    service.troubles.extend([refuse] * 20)
    async with opened(service) as embedder:
        calls = [embedder.embed([text], kind="document") for text in ("a", "b", "bad", "c", "d")]
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, InvalidInput) for each in found] == [False, False, True, False, False]


async def test_health_says_which_embedder_it_waits_for_in_vain(service: EmbeddingService) -> None:
    service.hang()
    async with opened(service) as embedder:
        examined = await Canary(embedder, patience_seconds=0.2).check()
    assert not examined.ok
    assert examined.sentence == (
        "the embedder openai gave no answer within 0.2 s; 'agentbox embedder check' waits for the reason"
    )


async def test_a_service_that_is_away_is_told_and_does_not_keep_the_embedder_from_opening() -> None:
    settings = OpenAiSettings(url="http://127.0.0.1:9/v1", retry_seconds=0.0)
    made = create_embedder("openai", EmbedderSettings(openai=settings))
    await made.open()
    with pytest.raises(AdapterUnavailable, match=r"127.0.0.1:9/v1/embeddings did not answer"):
        await made.embed(["a"], kind="query")
    await made.close()
