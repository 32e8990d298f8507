"""How a manifest is understood."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbox.manifest import ALIASES, KNOWN, SLOTS, InvalidManifest, Manifest, load, parse
from agentbox_contracts.errors import ManifestError
from tests.unit._manifests import CLIENT_BLOCK, STANDALONE_BLOCK


def read(text: str, environ: Mapping[str, str] | None = None, **options: Any) -> Manifest:
    """Parse *text* in an environment of nothing but *environ*."""
    return parse(text, environ=environ or {}, **options)


def impls(manifest: Manifest) -> dict[str, str]:
    return {slot: choice.impl for slot, choice in manifest.adapters.items()}


def test_without_any_file_the_standalone_defaults_hold(tmp_path: Path) -> None:
    manifest = load(environ={}, folder=tmp_path)

    assert manifest.path is None
    assert manifest.checksum == hashlib.sha256(b"").hexdigest()
    assert impls(manifest) == {
        "beads": "local-sqlite",
        "pods": "off",
        "memory": "embedded",
        "events": "local-jsonl",
        "orchestrator": "local-process-manager",
    }
    assert not any(choice.explicit for choice in manifest.adapters.values())
    assert manifest.warnings == ()


# ── The two manifests that everyone has ──


def test_the_client_manifest_is_clean_when_the_environment_has_the_dsn() -> None:
    manifest = read(CLIENT_BLOCK, {"AGENTBOX_PG_DSN": "postgresql://db/agentbox"})

    assert manifest.warnings == ()
    assert impls(manifest) == {
        "beads": "external",
        "pods": "external",
        "memory": "external-pg",
        "events": "external",
        "orchestrator": "stdio-bridge",
    }
    assert manifest.federation.external_url == "http://host-orchestrator:7070"


def test_the_client_manifest_without_a_dsn_is_refused_at_its_line() -> None:
    with pytest.raises(InvalidManifest) as caught:
        read(CLIENT_BLOCK)

    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.column) == ("E002", 4, 1)


def test_the_standalone_manifest_keeps_both_names_of_its_adapters() -> None:
    manifest = read(STANDALONE_BLOCK)

    assert manifest.warnings == ()
    assert manifest.adapters["pods"].configured == "local-solid-rs"
    assert manifest.adapters["memory"].configured == "embedded-ruvector"
    assert impls(manifest) == {
        "beads": "local-sqlite",
        "pods": "local-solid",
        "memory": "embedded",
        "events": "local-jsonl",
        "orchestrator": "local-process-manager",
    }


# ── Adapters ──


def test_client_mode_flips_the_defaults() -> None:
    manifest = read('[federation]\nmode = "client"\nexternal_url = "http://host:7070"')

    assert impls(manifest) == dict.fromkeys(SLOTS, "external") | {"orchestrator": "stdio-bridge"}


def test_every_known_adapter_and_alias_may_be_named() -> None:
    federation = '[federation]\nmode = "client"\nexternal_url = "http://host:7070"\n'
    for slot in SLOTS:
        for name in (*KNOWN[slot], *ALIASES[slot]):
            manifest = read(f'[adapters]\n{slot} = "{name}"\n{federation}', {"AGENTBOX_PG_DSN": "postgresql://db"})

            assert manifest.adapters[slot].configured == name
            assert manifest.adapters[slot].explicit
            assert manifest.adapters[slot].impl == ALIASES[slot].get(name, name)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package that offers beads under a name, and that cannot be imported."""
    info = tmp_path / "site" / "beads_in_redis-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beads-in-redis\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbox.beads]\nredis = no_such_module:RedisBeads\n")
    monkeypatch.syspath_prepend(str(info.parent))
    return "redis"


def test_an_installed_plugin_may_be_named_and_is_not_loaded(plugin: str) -> None:
    manifest = read(f'[adapters]\nbeads = "{plugin}"\n[beads.{plugin}]\nurl = "x"')

    assert manifest.adapters["beads"].impl == plugin
    assert manifest.adapters["beads"].table == {"url": "x"}


def test_an_unknown_adapter_is_refused_with_the_known_and_the_nearest(plugin: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read('[adapters]\nbeads = "sqlte"')

    assert str(caught.value) == (
        "manifest:2:1: E021 beads: no adapter called 'sqlte'; did you mean 'local-sqlite'? "
        "known: external, external-pg, local-sqlite, off, redis"
    )


def test_a_plugin_of_one_slot_is_unknown_to_another(plugin: str) -> None:
    with pytest.raises(InvalidManifest, match="no adapter called 'redis'"):
        read(f'[adapters]\nmemory = "{plugin}"')


def test_tables_of_all_adapters_are_kept_under_canonical_names() -> None:
    text = '[memory.embedded-ruvector]\nsize = 3\n[memory.external-pg]\n[beads]\nlocal-sqlite = { path = "x" }'

    manifest = read(text)

    assert manifest.tables["memory"] == {"embedded": {"size": 3}, "external-pg": {}}
    assert manifest.adapters["beads"].table == {"path": "x"}
    assert manifest.adapters["memory"].table == {"size": 3}


# ── Overrides ──


def test_overrides_are_laid_over_the_file_table_by_table() -> None:
    text = '[adapters]\nbeads = "local-sqlite"\nevents = "local-jsonl"\n[beads.local-sqlite]\npath = "a"\nsize = 1'

    manifest = read(text, overrides={"adapters": {"events": "off"}, "beads": {"local-sqlite": {"path": "b"}}})

    assert impls(manifest)["events"] == "off"
    assert manifest.adapters["events"].explicit
    assert manifest.tables["beads"]["local-sqlite"] == {"path": "b", "size": 1}


@pytest.mark.parametrize(
    "overrides",
    [{"adapters": {"evnts": "off"}}, {"adapters": {"events": "of"}}, {"adaptors": {"x": 1}}, {"adapters": {"pods": 3}}],
)
def test_problems_in_overrides_are_placed_there(overrides: dict[str, Any]) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read('[adapters]\nevents = "local-jsonl"', path=Path("agentbox.toml"), overrides=overrides)

    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.column) == ("overrides", None, None)
    assert str(problem).startswith("overrides: E0")


def test_overrides_do_not_change_what_was_handed_in() -> None:
    overrides = {"state": {"path": "x"}}

    read('[state]\npath = "y"', overrides=overrides)

    assert overrides == {"state": {"path": "x"}}


# ── State folder ──


def test_state_is_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "agentbox.toml").touch()

    assert load(environ={}, folder=tmp_path / "below").state == tmp_path / ".agentbox"


def test_state_without_a_manifest_is_in_the_working_folder(tmp_path: Path) -> None:
    assert load(environ={}, folder=tmp_path).state == tmp_path / ".agentbox"


def test_a_relative_state_path_is_relative_to_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "agentbox.toml").write_text('[state]\npath = "../data"')

    assert load("conf/agentbox.toml", environ={}, folder=tmp_path).state == tmp_path / "data"


def test_the_state_variable_goes_first_and_is_relative_to_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "agentbox.toml").write_text('[state]\npath = "data"')

    manifest = load("conf/agentbox.toml", environ={"AGENTBOX_STATE": "mine"}, folder=tmp_path)

    assert manifest.state == tmp_path / "mine"


def test_a_tilde_is_the_home_folder_of_the_given_environment(tmp_path: Path) -> None:
    assert read('[state]\npath = "~/boxes"', {"HOME": str(tmp_path)}).state == tmp_path / "boxes"


def test_overrides_may_give_the_state_folder_as_a_path_object(tmp_path: Path) -> None:
    assert read("", overrides={"state": {"path": tmp_path / "here"}}).state == tmp_path / "here"


def test_nothing_is_made_by_reading(tmp_path: Path) -> None:
    load(environ={}, folder=tmp_path)

    assert list(tmp_path.iterdir()) == []


# ── Other sections ──


def test_fixed_sections_arrive_typed() -> None:
    manifest = read(
        """
        [adapters_policy]
        connect_timeout_seconds = 3
        [health]
        required = ["beads", "memory"]
        [observability]
        otlp_endpoint = "https://collector:4318"
        metrics_port = 9464
        log_level = "debug"
        [host]
        port = 8080
        [federation.accepts]
        beads = ">=1.0, <2"
        [targets.box]
        environment = "docker:my-agent"
        [engines.claude-code]
        model = "x"
        turns = 3
        fast = true
        tools = ["a", "b"]
        """
    )

    assert manifest.policy.connect_timeout_seconds == 3.0
    assert manifest.policy.deadline_seconds == 30.0
    assert manifest.health.required == ("beads", "memory")
    assert manifest.observability.metrics_port == 9464
    assert (manifest.host.bind, manifest.host.port) == ("127.0.0.1", 8080)
    assert manifest.federation.accepts == {"beads": ">=1.0, <2"}
    assert manifest.targets["box"].environment == "docker:my-agent"
    assert manifest.engines["claude-code"] == {"model": "x", "turns": 3, "fast": True, "tools": ["a", "b"]}


def test_two_ports_may_both_be_whatever_is_free() -> None:
    assert read("[host]\nport = 0\n[observability]\nmetrics_port = 0").host.port == 0


# ── Problems ──


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = '[adapter]\n[adapters]\nbeeds = "off"\nbeads = 3\n[federation]\nmod = "client"\n[host]\nport = 70000'

    with pytest.raises(InvalidManifest) as caught:
        read(text, path=Path("agentbox.toml"))

    found = [(problem.line, problem.code) for problem in caught.value.problems]
    assert found == [(1, "E016"), (3, "E016"), (4, "E019"), (6, "E016"), (8, "E020")]
    assert (
        str(caught.value)
        .splitlines()[1]
        .startswith("agentbox.toml:3:1: E016 unknown key 'beeds' in [adapters]; did you mean 'beads'?")
    )


def test_an_invalid_manifest_is_a_manifest_error_with_its_code() -> None:
    with pytest.raises(ManifestError) as caught:
        read("x = 1")

    assert caught.value.code == "manifest_error"


def test_warnings_do_not_raise_and_say_that_they_are_warnings() -> None:
    manifest = read('[adapters]\nbeads = "local-sqlite"\n[federation]\nmode = "client"\nexternal_url = "http://host"')

    (warning,) = manifest.warnings
    assert str(warning).startswith("manifest:2:1: warning W012 beads: 'local-sqlite' keeps its state")


def test_a_wrong_mode_does_not_drag_other_problems_along() -> None:
    with pytest.raises(InvalidManifest) as caught:
        read('[adapters]\nbeads = "external"\n[federation]\nmode = "clint"')

    assert [problem.code for problem in caught.value.problems] == ["E020"]


@pytest.mark.parametrize("section", ["adapters", "federation", "state", "beads", "targets", "engines", "host"])
def test_a_section_that_is_no_table_is_refused(section: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read(f"{section} = 3")

    assert [problem.code for problem in caught.value.problems] == ["E019"]


def test_an_array_of_tables_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidManifest, match=r"manifest:2:1: E019 \[adapters\] must be a table, not a list"):
        read('\n[[adapters]]\nbeads = "off"')
