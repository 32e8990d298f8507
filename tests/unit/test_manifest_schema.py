"""The published schema, the example and the docs say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest
import tomli
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from agentbox import plugins
from agentbox.manifest import ALIASES, KNOWN, SLOTS, InvalidManifest, parse
from agentbox.manifest_schema import manifest_schema
from agentbox_contracts.contract import Secret, Settings
from tests.unit._manifests import CLIENT_BLOCK, STANDALONE_BLOCK

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "agentbox.toml.example").read_text()
EVERYTHING = re.sub(r"(?m)^#(?=[a-z])", "", EXAMPLE)
"""The example with the keys that have no default written out as well."""


@attrs.frozen(kw_only=True)
class Bounds:
    """Bounds of something."""

    low: int = 0


@attrs.frozen(kw_only=True)
class Store(Settings):
    """
    Where things are stored.

    More about that.
    """

    path: Annotated[Path, msgspec.Meta(description="The file.")] = Path("store.db")
    key: Secret
    size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    level: Literal["low", "high"] = "low"
    bounds: Bounds = Bounds()
    many: list[Bounds] = attrs.field(factory=list)


def errors(text: str, schema: dict[str, Any] | None = None) -> list[str]:
    return [error.message for error in Draft202012Validator(schema or manifest_schema()).iter_errors(tomli.loads(text))]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(manifest_schema({"beads": {"local-sqlite": Store}}))


@pytest.mark.parametrize("text", [EXAMPLE, EVERYTHING, CLIENT_BLOCK, STANDALONE_BLOCK, ""])
def test_a_good_manifest_fits_the_schema(text: str) -> None:
    assert errors(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "[adapter]",
        '[adapters]\nbeeds = "off"',
        '[adapters]\nbeads = "sqlte"',
        "[adapters]\nbeads = 3",
        '[federation]\nmod = "client"',
        '[federation]\nmode = "clint"',
        '[federation]\ntoken = "hunter2"',
        '[federation]\nexternal_url = "ftp://host"',
        '[federation.accepts]\nbeads = "1.0"',
        '[federation.accepts]\nbeeds = ">=1.0"',
        "[beads.sqlte]",
        "[adapters_policy]\ndeadline_seconds = 0",
        "[host]\nport = 70000",
        '[health]\nrequired = ["bead"]',
        '[state]\npath = ""',
        '[targets.far]\nenvironment = "ssh:host"',
        "[targets.far]",
        "[engines.claude-code]\nheat = 0.5",
        '[integrations.ruvector_external]\nconinfo = "env:X"',
    ],
)
def test_schema_and_validation_refuse_the_same_manifests(text: str) -> None:
    assert errors(text) != []
    with pytest.raises(InvalidManifest):
        parse(text, environ={})


def test_adapters_are_listed_with_names_and_aliases() -> None:
    slots = manifest_schema()["properties"]["adapters"]["properties"]

    assert {slot: set(slots[slot]["enum"]) for slot in SLOTS} == {
        slot: {*KNOWN[slot], *ALIASES[slot]} for slot in SLOTS
    }


def test_names_of_plugins_are_added() -> None:
    schema = manifest_schema(names={"beads": ["redis"]})

    assert errors('[adapters]\nbeads = "redis"\npods = "off"\n[beads.redis]\nx = 1', schema) == []
    assert errors('[adapters]\npods = "redis"', schema) != []


def test_a_settings_class_becomes_the_schema_of_its_table() -> None:
    schema = manifest_schema({"beads": {"local-sqlite": Store}})

    table = schema["properties"]["beads"]["properties"]["local-sqlite"]

    assert table["description"] == "Where things are stored."
    assert table["required"] == ["key"]
    assert table["additionalProperties"] is False
    assert table["properties"]["path"] == {
        "type": "string",
        "minLength": 1,
        "description": "The file.",
        "default": "store.db",
    }
    assert table["properties"]["key"]["pattern"].startswith("^(env:")
    assert table["properties"]["size"] == {"type": "integer", "minimum": 1}
    assert table["properties"]["bounds"]["properties"] == {"low": {"type": "integer", "default": 0}}


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ('key = "env:X"', True),
        ('key = "env:X"\nbounds.low = 3\nmany = [{ low = 1 }]\ndeadline_seconds = 1', True),
        ('key = "hunter2"', False),
        ("", False),
        ('key = "env:X"\npaht = "x"', False),
        ('key = "env:X"\nlevel = "middle"', False),
        ('key = "env:X"\nbounds.lo = 1', False),
        ('key = "env:X"\nmany = [{ lo = 1 }]', False),
    ],
)
def test_schema_and_settings_agree_on_an_adapters_table(line: str, fits: bool) -> None:
    text = f"[beads.local-sqlite]\n{line}"
    schema = manifest_schema({"beads": {"local-sqlite": Store}})

    assert (errors(text, schema) == []) == fits
    assert _is_accepted(text) == fits


def _is_accepted(text: str) -> bool:
    try:
        parse(text, environ={}).settings("beads", "local-sqlite", Store)
    except InvalidManifest:
        return False
    return True


def test_an_alias_has_the_schema_of_its_adapter() -> None:
    tables = manifest_schema({"memory": {"embedded": Store}})["properties"]["memory"]["properties"]

    assert tables["embedded-ruvector"] == tables["embedded"]


def test_every_fixed_key_has_a_description() -> None:
    missing = [
        f"{section}.{key}"
        for section, table in manifest_schema()["properties"].items()
        for key, schema in table.get("properties", {}).items()
        if not schema.get("description")
    ]

    assert missing == []


# ── The example ──


def test_the_example_loads_cleanly() -> None:
    manifest = parse(EXAMPLE, environ={})

    assert manifest.warnings == ()


def test_the_example_shows_the_defaults() -> None:
    example, default = parse(EXAMPLE, environ={}), parse("", environ={})

    assert example.state == default.state
    for part in ("federation", "policy", "health", "observability", "host"):
        assert getattr(example, part) == getattr(default, part)
    assert {slot: choice.impl for slot, choice in example.adapters.items()} == {
        slot: choice.impl for slot, choice in default.adapters.items()
    }


def test_the_example_loads_with_every_key_written_out() -> None:
    manifest = parse(EVERYTHING, environ={"AGENTBOX_TOKEN": "x", "AGENTBOX_PG_DSN": "postgresql://db"})

    assert manifest.warnings == ()
    assert manifest.federation.external_url == "http://127.0.0.1:7070"


def test_the_example_has_every_fixed_key_with_a_comment() -> None:
    content = tomli.loads(EVERYTHING)

    assert sorted(_missing(manifest_schema()["properties"], content)) == []
    bare = [line for line in EXAMPLE.splitlines() if re.match(r"#?[a-z_]+\s+= ", line) and " # " not in line]
    assert [line for line in bare if '">=' not in line] == []


def _missing(properties: dict[str, Any], content: dict[str, Any]) -> list[str]:
    missing = []
    for name, schema in properties.items():
        if name in SLOTS and "enum" not in schema and "pattern" not in schema:
            continue  # what an adapter's table holds is the adapter's
        if name not in content:
            missing.append(name)
        elif isinstance(content[name], dict):
            missing += _missing(schema.get("properties", {}), content[name])
    return missing


def built_in() -> list[tuple[str, str]]:
    """The adapters that exist, of those that the manifest knows."""
    return [(slot, impl) for slot in SLOTS for impl in plugins.adapter_names(slot) if impl in KNOWN[slot]]


@pytest.mark.parametrize(("slot", "impl"), built_in())
def test_the_example_shows_every_setting_of_a_built_in_adapter_with_its_default(slot: str, impl: str) -> None:
    cls = plugins.adapter_class(slot, impl).settings_class
    environ = {"AGENTBOX_PG_DSN": "postgresql://127.0.0.1/agentbox"}
    elsewhere = {"federation": {"external_url": "http://127.0.0.1:7070"}}
    manifest = parse(EXAMPLE, environ=environ, overrides=elsewhere)

    shown = tomli.loads(EVERYTHING).get(slot, {}).get(impl, {})

    own = {field.name for field in attrs.fields(cls)} - {field.name for field in attrs.fields(Settings)}
    assert set(shown) == own
    ours = parse("", environ=environ, overrides=elsewhere).settings(slot, impl, cls)
    # A secret has no equal, so the references are compared; the DSN is the only one here.
    unlike = ("dsn",) if "dsn" in own else ()
    assert _without(manifest.settings(slot, impl, cls), unlike) == _without(ours, unlike)


def _without(settings: Settings, names: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in attrs.asdict(settings, recurse=False).items() if name not in names}


@pytest.mark.parametrize(("slot", "impl"), built_in())
def test_the_docs_name_every_setting_of_a_built_in_adapter(slot: str, impl: str) -> None:
    docs = (ROOT / "docs" / "configuration.md").read_text()
    cls = plugins.adapter_class(slot, impl).settings_class

    assert [field.name for field in attrs.fields(cls) if f"`{field.name}`" not in docs] == []


# ── The docs ──


def test_the_docs_name_every_fixed_key() -> None:
    docs = (ROOT / "docs" / "configuration.md").read_text()
    sections = {name: table for name, table in manifest_schema()["properties"].items() if name not in SLOTS}
    keys = {key for table in sections.values() for key in table.get("properties", {})}

    assert [name for name in sections if f"[{name}" not in docs] == []
    assert [key for key in sorted(keys) if key not in docs] == []


def test_the_docs_list_the_adapters_of_each_slot() -> None:
    docs = (ROOT / "docs" / "configuration.md").read_text()

    for slot in SLOTS:
        assert f"| `{slot}` | {', '.join(f'`{name}`' for name in KNOWN[slot])} |" in docs
