"""How a manifest is found and read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentbox.manifest import InvalidManifest, discover, load, parse
from agentbox_contracts.errors import ManifestError

# ── Discovery ──


def test_an_explicit_path_goes_before_everything(tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").touch()

    found = discover("other.toml", environ={"AGENTBOX_MANIFEST": "third.toml"}, folder=tmp_path)

    assert found == tmp_path / "other.toml"


def test_the_variable_goes_before_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").touch()

    found = discover(environ={"AGENTBOX_MANIFEST": str(tmp_path / "third.toml")}, folder=tmp_path)

    assert found == tmp_path / "third.toml"


def test_the_nearest_file_upwards_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "agentbox.toml").touch()
    (tmp_path / "a" / "agentbox.toml").touch()

    assert discover(environ={}, folder=deep) == tmp_path / "a" / "agentbox.toml"


def test_a_folder_of_that_name_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a" / "agentbox.toml").mkdir(parents=True)
    (tmp_path / "agentbox.toml").touch()

    assert discover(environ={}, folder=tmp_path / "a") == tmp_path / "agentbox.toml"


def test_a_blank_variable_counts_as_not_set(tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").touch()

    assert discover(environ={"AGENTBOX_MANIFEST": ""}, folder=tmp_path) == tmp_path / "agentbox.toml"


def test_the_working_folder_and_the_process_environment_are_asked_at_call_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTBOX_MANIFEST", "named.toml")

    assert discover() == tmp_path / "named.toml"


# ── Reading ──


def test_a_loaded_file_has_its_path_and_the_checksum_of_its_bytes(tmp_path: Path) -> None:
    content = b'[adapters]\r\nbeads = "local-sqlite" # \xc3\xa9\r\n'
    file = tmp_path / "agentbox.toml"
    file.write_bytes(content)

    manifest = load(file, environ={})

    assert manifest.path == file
    assert manifest.checksum == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"a = 1\n\xff\xfe", 2), (b"\xff\xfea\x00", 1)],
    ids=["stray bytes", "UTF-16"],
)
def test_a_file_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path, content: bytes, line: int) -> None:
    file = tmp_path / "agentbox.toml"
    file.write_bytes(content)

    with pytest.raises(InvalidManifest, match="UTF-8") as caught:
        load(file, environ={})

    assert caught.value.problems[0].code == "E018"
    assert caught.value.problems[0].line == line


def test_a_named_file_that_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"^nowhere\.toml: E018 there is no such file; check --manifest"):
        load("nowhere.toml", environ={}, folder=tmp_path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="E018 this is a folder; name the file inside it"):
        load(tmp_path, environ={})


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="E018 the file cannot be read"):
        load("a\0b", environ={}, folder=tmp_path)


def test_a_working_folder_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(ManifestError, match="working folder: E018 it was removed"):
        load(environ={})


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ManifestError, match="E018 the file cannot be read: Not a directory"):
        load(tmp_path / "file" / "agentbox.toml", environ={})


def test_a_syntax_error_has_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "agentbox.toml"
    file.write_text("[adapters]\nbeads = = 1\n")

    with pytest.raises(InvalidManifest) as caught:
        load(environ={}, folder=tmp_path)

    assert str(caught.value).startswith("agentbox.toml:2:9: E017 invalid value; ")


def test_a_file_above_the_working_folder_is_shown_in_full(tmp_path: Path) -> None:
    (tmp_path / "agentbox.toml").write_text("x")
    (tmp_path / "below").mkdir()

    with pytest.raises(InvalidManifest) as caught:
        load(environ={}, folder=tmp_path / "below")

    assert caught.value.problems[0].path == str(tmp_path / "agentbox.toml")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "a = " + "[" * 1_000_000,
        "a = " + "{ a = " * 200_000,
        "a." * 100_000 + "b = 1",
        "a = " + "9" * 200_000,
        'a = """' + '\\"' * 120_000,
        "\n".join(f"key{number} = 1" for number in range(20_000)),
        "[adapters]\n" + "\n".join(f"bead{number} = 1" for number in range(20_000)),
        "\n".join(f"[beads.x{number}]" for number in range(14_000)),
        "\0" * 1_000_000,
    ],
    ids=["letters", "brackets", "tables", "dots", "digits", "quotes", "sections", "keys", "adapters", "NUL"],
)
@pytest.mark.timeout(60)  # one that does not end in a minute takes hours: it looks at everything again for each part
def test_a_megabyte_of_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        parse(text, environ={})

    assert len(str(caught.value)) < 100_000


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(InvalidManifest, match="larger than 256 KiB"):
        load("/dev/zero", environ={})
