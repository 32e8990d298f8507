"""`agentbox schema`: the published schemas, derived from the code."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbox import plugins
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._parser import add_json
from agentbox.manifest import KNOWN
from agentbox.manifest_schema import manifest_schema
from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Settings
from agentbox_contracts.schema import contract_schema, openapi, vocabulary_schema

__all__ = ["NAMES", "configure", "published", "run"]

NAMES = ("manifest", "openapi", "vocabulary", *SLOTS)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `schema`."""
    parser.add_argument("name", nargs="?", metavar="NAME", choices=NAMES, help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--write", metavar="DIR", type=Path, help="write every published file below DIR instead")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the schema *name*, list the names, or write all files."""
    if arguments.write is not None:
        if arguments.name is not None:
            complain("--write writes every schema; leave out the name")
            return 2
        _write(arguments.write)
    elif arguments.name is not None:
        sys.stdout.write(_text(_document(arguments.name)))
    elif arguments.json:
        _output.print_json(list(NAMES))
    else:
        for name in NAMES:
            _output.print_line(name)
    return 0


def published() -> dict[str, str]:
    """The text of each file in `schemas/` by its path there. Installed plugins have no part in it."""
    files = {"agentbox.toml.schema.json": manifest_schema(_built_in_settings()), "openapi-v1.json": openapi()}
    files["events-vocabulary-v1.json"] = vocabulary_schema()
    files |= {f"adapter-contracts/{slot}-v1.json": contract_schema(contract_of(slot)) for slot in SLOTS}
    return {path: _text(document) for path, document in sorted(files.items())}


def _document(name: str) -> dict[str, Any]:
    if name == "manifest":
        return manifest_schema(_built_in_settings(), _names())
    made = {"openapi": openapi, "vocabulary": vocabulary_schema}
    return made[name]() if name in made else contract_schema(contract_of(name))


def _names() -> Mapping[str, Sequence[str]]:
    return {slot: plugins.adapter_names(slot) for slot in SLOTS}


def _built_in_settings() -> dict[str, dict[str, type[Settings]]]:
    """The settings of the adapters that come with agentbox, as far as they are built."""
    return {
        slot: {impl: plugins.adapter_class(slot, impl).settings_class for impl in KNOWN[slot] if _is_built(slot, impl)}
        for slot in SLOTS
    }


def _is_built(slot: str, impl: str) -> bool:
    return importlib.util.find_spec(f"agentbox.adapters.{slot}.{impl.replace('-', '_')}") is not None


def _write(folder: Path) -> None:
    for path, text in published().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        _output.print_line(str(file))


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
