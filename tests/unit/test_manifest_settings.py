"""Settings of an adapter and the secrets in them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest

from agentbox.manifest import InvalidManifest, Manifest, parse
from agentbox_contracts.contract import Secret, Settings
from agentbox_contracts.errors import ManifestError


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen(kw_only=True)
class Pool:
    """Bounds of a pool."""

    size: Annotated[int, msgspec.Meta(ge=1)] = 4
    folder: Path | None = None


@attrs.frozen(kw_only=True)
class Store(Settings):
    """Settings with a field of every kind."""

    path: Path = Path("store.db")
    spare: Path | None = None
    key: Secret | None = None
    size: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5
    level: Literal["low", "high"] = "low"
    names: tuple[str, ...] = ()
    colour: Colour = Colour.RED
    pool: Pool = Pool()
    pools: list[Pool] = attrs.field(factory=list)
    by_name: dict[str, Pool] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Remote(Settings):
    """Settings that other places can fill."""

    url: str | None = None
    token: Secret | None = None
    dsn: Secret | None = None
    command: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Paired(Settings):
    """Settings with a rule of their own."""

    low: int = 0
    high: int = attrs.field(default=1)

    @high.validator
    def _above_low(self, attribute: Any, value: int) -> None:
        if value <= self.low:
            raise ValueError("high must be above low")


def manifest(text: str, tmp_path: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Manifest:
    return parse(text, path=tmp_path / "agentbox.toml", folder=tmp_path, environ=environ or {}, **options)


def store(text: str, tmp_path: Path, environ: Mapping[str, str] | None = None) -> Store:
    return manifest(f"[beads.local-sqlite]\n{text}", tmp_path, environ).settings("beads", "local-sqlite", Store)


def refusal(text: str, tmp_path: Path) -> str:
    with pytest.raises(InvalidManifest) as caught:
        store(text, tmp_path)
    return str(caught.value)


# ── Values ──


def test_without_a_table_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = manifest("", tmp_path).settings("beads", "local-sqlite", Store)

    assert settings == Store(path=tmp_path / ".agentbox" / "store.db")


def test_relative_paths_are_inside_the_state_folder(tmp_path: Path) -> None:
    settings = store('path = "a/b.db"\nspare = "/abs"\npool = { folder = "p" }\n[state]\npath = "here"', tmp_path)

    assert settings.path == tmp_path / "here" / "a" / "b.db"
    assert settings.pool.folder == tmp_path / "here" / "p"
    assert settings.spare == Path("/abs")


def test_a_path_may_start_at_home(tmp_path: Path) -> None:
    assert store('path = "~/x.db"', tmp_path, {"HOME": str(tmp_path / "me")}).path == tmp_path / "me" / "x.db"


def test_values_arrive_typed(tmp_path: Path) -> None:
    text = 'size = 7\nlevel = "high"\nnames = ["a"]\ncolour = "red"\npool.size = 9\ndeadline_seconds = 2'

    settings = store(text, tmp_path)

    assert (settings.size, settings.level, settings.names) == (7, "high", ("a",))
    assert (settings.colour, settings.pool, settings.deadline_seconds) == (Colour.RED, Pool(size=9), 2.0)


def test_settings_come_from_the_table_of_the_alias(tmp_path: Path) -> None:
    read = manifest('[memory.embedded-ruvector]\nlevel = "high"', tmp_path)

    assert read.settings("memory", "embedded", Store).level == "high"
    assert read.settings("memory", "embedded-ruvector", Store).level == "high"


def test_overrides_reach_the_settings(tmp_path: Path) -> None:
    read = manifest("[beads.local-sqlite]\nsize = 2", tmp_path, overrides={"beads": {"local-sqlite": {"size": 3}}})

    assert read.settings("beads", "local-sqlite", Store).size == 3


# ── Problems ──


def test_an_unknown_key_is_refused_with_its_place_the_nearest_and_the_known(tmp_path: Path) -> None:
    assert refusal('size = 1\npaht = "x"', tmp_path) == (
        "agentbox.toml:3:1: E016 unknown key 'paht' in [beads.local-sqlite]; did you mean 'path'? known: by_name, "
        "colour, connect_timeout_seconds, deadline_seconds, key, level, names, path, pool, pools, size, spare"
    )


@pytest.mark.parametrize(
    ("line", "table"),
    [("pool.sice = 1", "pool"), ("pools = [{}, { sice = 1 }]", "pools.1"), ("by_name.a.sice = 1", "by_name.a")],
)
def test_an_unknown_key_in_a_nested_table_is_refused(line: str, table: str, tmp_path: Path) -> None:
    message = refusal(line, tmp_path)

    assert f"2:1: E016 unknown key 'sice' in [beads.local-sqlite.{table}]; did you mean 'size'?" in message


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("path = 3", "E019 path in [beads.local-sqlite]: expected text, got a whole number"),
        ('size = "3"', "E019 size in [beads.local-sqlite]: expected a whole number, got text"),
        ("size = true", "E019 size in [beads.local-sqlite]: expected a whole number, got true or false"),
        ("size = 11", "E020 size in [beads.local-sqlite]: expected a whole number <= 10"),
        ("names = ['a', 1]", "E019 names in [beads.local-sqlite]: expected text, got a whole number (at [1])"),
        ("path = 1979-05-27", "E019 path in [beads.local-sqlite]: expected text, got a date or time"),
        ('path = ""', "E025 path in [beads.local-sqlite]: this is no path"),
        ('level = "hihg"', "E020 level in [beads.local-sqlite]: 'hihg' is not allowed; did you mean 'high'?"),
        ('colour = "blue"', "E020 colour in [beads.local-sqlite]: Invalid enum value 'blue'"),
        ("pool = 3", "E019 [beads.local-sqlite.pool] must be a table, not a whole number"),
        ("pool.size = 0", "E020 size in [beads.local-sqlite.pool]: expected a whole number >= 1"),
        ("deadline_seconds = 0", "E020 deadline_seconds in [beads.local-sqlite]: expected a number > 0.0"),
        ("deadline_seconds = nan", "E020 deadline_seconds in [beads.local-sqlite]: nan is not a number one can use"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(line: str, complaint: str, tmp_path: Path) -> None:
    assert refusal(line, tmp_path).startswith(f"agentbox.toml:2:1: {complaint}")


def test_all_problems_of_a_table_come_at_once(tmp_path: Path) -> None:
    lines = refusal('paht = "x"\nsize = 0\nlevel = 3\nkey = "hunter2"', tmp_path).splitlines()

    assert [line.split()[:2] for line in lines] == [
        ["agentbox.toml:2:1:", "E016"],
        ["agentbox.toml:3:1:", "E020"],
        ["agentbox.toml:4:1:", "E019"],
        ["agentbox.toml:5:1:", "E022"],
    ]


def test_a_rule_of_the_settings_class_is_reported_at_the_table(tmp_path: Path) -> None:
    read = manifest("\n[beads.local-sqlite]\nlow = 3\nhigh = 2", tmp_path)

    with pytest.raises(InvalidManifest, match=r"toml:2:1: E020 \[beads.local-sqlite\]: high must be above low"):
        read.settings("beads", "local-sqlite", Paired)


def test_a_problem_under_an_alias_is_placed_where_it_was_written(tmp_path: Path) -> None:
    read = manifest("[memory.embedded-ruvector]\nsize = 0", tmp_path)

    with pytest.raises(InvalidManifest, match=r"toml:2:1: E020 size in \[memory.embedded-ruvector\]"):
        read.settings("memory", "embedded", Store)


def test_a_problem_in_overridden_settings_is_placed_in_overrides(tmp_path: Path) -> None:
    read = manifest("[beads.local-sqlite]\nsize = 2", tmp_path, overrides={"beads": {"local-sqlite": {"size": 0}}})

    with pytest.raises(InvalidManifest, match=r"^overrides: E020 size"):
        read.settings("beads", "local-sqlite", Store)


# ── Secrets ──


def test_a_secret_from_the_environment_is_read_anew_each_time(tmp_path: Path) -> None:
    environ = {"KEY": "one"}
    key = store('key = "env:KEY"', tmp_path, environ).key
    assert key is not None
    assert key.reveal() == "one"

    environ["KEY"] = "two"

    assert key.reveal() == "two"


@pytest.mark.parametrize(
    ("content", "value"), [(b"s3cret\n", "s3cret"), (b"s3cret\r\n", "s3cret"), (b" s \n\n", " s \n"), (b"x", "x")]
)
def test_a_secret_from_a_file_loses_one_line_end(content: bytes, value: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)

    key = store('key = "file:key"', tmp_path).key

    assert key is not None
    assert key.reveal() == value


def test_a_secret_shows_as_its_reference(tmp_path: Path) -> None:
    settings = store('key = "env:KEY"', tmp_path, {"KEY": "hunter2"})

    assert "hunter2" not in repr(settings)
    assert "env:KEY" in repr(settings)


@pytest.mark.parametrize("value", ["hunter2", "env:", "env:hunter2 x", "file:", "ENV:hunter2", "env:hunter2\\n", ""])
def test_a_secret_that_is_no_reference_is_refused_without_repeating_it(value: str, tmp_path: Path) -> None:
    message = refusal(f'key = "{value}"', tmp_path)

    assert message.startswith("agentbox.toml:2:1: E022 key in [beads.local-sqlite]: a secret is a reference")
    assert "hunter2" not in message


def test_a_secret_that_is_not_there_is_refused_by_its_reference(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    for reference in ("env:NONE", "env:BLANK", "file:none", "file:empty", "file:binary", "file:."):
        key = store(f'key = "{reference}"', tmp_path, {"BLANK": ""}).key
        assert key is not None

        with pytest.raises(ManifestError, match=f"^{reference}: ") as caught:
            key.reveal()

        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None or "hunter2" not in str(caught.value.__cause__)


def test_the_manifest_itself_never_shows_a_secret(tmp_path: Path) -> None:
    environ = {"AGENTBOX_TOKEN": "hunter2", "AGENTBOX_PG_DSN": "postgresql://me:hunter2@db"}

    assert "hunter2" not in repr(manifest('[adapters]\nbeads = "external-pg"', tmp_path, environ))


# ── What a table leaves out ──

CLIENT = '[federation]\nmode = "client"\nexternal_url = "http://host:7070"\n'


def test_external_takes_url_and_token_from_the_federation(tmp_path: Path) -> None:
    read = manifest(CLIENT + 'token = "env:MINE"', tmp_path, {"MINE": "a", "AGENTBOX_TOKEN": "b"})

    settings = read.settings("beads", "external", Remote)

    assert settings.url == "http://host:7070"
    assert settings.token is not None
    assert settings.token.reveal() == "a"


def test_the_token_comes_from_the_environment_when_the_file_names_none(tmp_path: Path) -> None:
    read = manifest(CLIENT, tmp_path, {"AGENTBOX_TOKEN": "b"})

    token = read.settings("beads", "external", Remote).token

    assert token is not None
    assert token is read.federation.token
    assert token.reveal() == "b"


def test_what_the_table_says_goes_first(tmp_path: Path) -> None:
    read = manifest(CLIENT + '[beads.external]\nurl = "http://own"', tmp_path)

    assert read.settings("beads", "external", Remote).url == "http://own"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('[beads.external-pg]\ndsn = "env:OWN"\n[integrations.ruvector_external]\nconninfo = "env:OLD"', "own"),
        ('[integrations.ruvector_external]\nconninfo = "env:OLD"', "old"),
        ('[integrations.ruvector_external]\nconninfo = "postgresql://me@db:5432/x"', "postgresql://me@db:5432/x"),
        ('[integrations.ruvector_external]\nenabled = false\nconninfo = "env:OLD"', "shared"),
        ("", "shared"),
    ],
    ids=["own table", "conninfo", "conninfo by value", "conninfo not enabled", "variable"],
)
def test_external_pg_takes_the_nearest_dsn(text: str, value: str, tmp_path: Path) -> None:
    environ = {"OWN": "own", "OLD": "old", "AGENTBOX_PG_DSN": "shared"}
    read = manifest(f'[adapters]\nbeads = "external-pg"\n{text}', tmp_path, environ)

    dsn = read.settings("beads", "external-pg", Remote).dsn

    assert dsn is not None
    assert dsn.reveal() == value


def test_the_bridge_takes_its_command_from_the_environment(tmp_path: Path) -> None:
    read = manifest('[adapters]\norchestrator = "stdio-bridge"', tmp_path, {"AGENTBOX_BRIDGE": "ssh box 'a b'"})

    assert read.settings("orchestrator", "stdio-bridge", Remote).command == ("ssh", "box", "a b")


def test_an_adapter_without_such_a_field_is_given_nothing(tmp_path: Path) -> None:
    assert manifest(CLIENT, tmp_path).settings("beads", "external", Paired) == Paired()
