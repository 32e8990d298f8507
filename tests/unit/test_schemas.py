"""The files in `schemas/` are what the code says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import tomli

from agentbox.cli import schema

ROOT = Path(__file__).parents[2]


def test_published_schemas_are_those_of_the_code() -> None:
    on_disk = {
        str(file.relative_to(ROOT / "schemas")): file.read_bytes() for file in (ROOT / "schemas").rglob("*.json")
    }
    generated = {path: text.encode() for path, text in schema.published().items()}
    assert {path: on_disk.get(path) for path in generated} == generated, "run: make schema"


def test_every_slot_has_a_published_contract() -> None:
    for slot in ("beads", "pods", "memory", "events", "orchestrator"):
        assert (ROOT / "schemas" / "adapter-contracts" / f"{slot}-v1.json").is_file()


def test_the_published_manifest_schema_accepts_the_example() -> None:
    document = json.loads((ROOT / "schemas" / "agentbox.toml.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    example = tomli.loads((ROOT / "agentbox.toml.example").read_text())
    jsonschema.validate(example, document, cls=jsonschema.Draft202012Validator)
