"""The JSON Schema of `agentbox.toml`, from the same classes that validate it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, get_args, get_type_hints

import attrs
import msgspec

from agentbox._manifest_sections import (
    ALIASES,
    CLIENT,
    COLLECTIONS,
    INHERITED,
    KNOWN,
    SECRET_PATTERN,
    SECTIONS,
    SLOT_DESCRIPTIONS,
    STANDALONE,
    EngineValue,
    Target,
)
from agentbox._manifest_values import literal_keys, plain_type
from agentbox_contracts import SLOTS
from agentbox_contracts.contract import Secret, Settings

__all__ = ["manifest_schema"]

Schema = dict[str, Any]


def manifest_schema(
    settings: Mapping[str, Mapping[str, type[Settings]]] = {}, names: Mapping[str, Sequence[str]] = KNOWN
) -> Schema:
    """
    The schema (2020-12) of a whole manifest.

    *settings* has the Settings class of adapters by slot and name; a table whose class is not given may hold anything.
    *names* are adapters per slot to list besides the built-in ones.
    """
    properties: Schema = {"adapters": _adapters(names)}
    properties |= {name: _table(cls) for name, cls in SECTIONS.items()}
    properties |= {slot: _slot(slot, settings.get(slot, {}), names) for slot in SLOTS}
    properties["targets"] = _collection("targets", _table(Target))
    engine = {
        "type": "object",
        "description": "Keys are the engine's own.",
        "additionalProperties": _plain(EngineValue),
    }
    properties["engines"] = _collection("engines", engine)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentbox.toml",
        "description": "Which adapter stands behind each slot of agentbox, and their settings.",
        **_object(properties),
    }


def _adapters(names: Mapping[str, Sequence[str]]) -> Schema:
    slots = {
        slot: {
            "description": f"{SLOT_DESCRIPTIONS[slot]} Default in client mode: {CLIENT[slot]}.",
            "type": "string",
            "enum": _names(slot, names),
            "default": STANDALONE[slot],
        }
        for slot in SLOTS
    }
    return {"description": "The adapter of each slot.", **_object(slots)}


def _names(slot: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys((*KNOWN[slot], *ALIASES[slot], *names.get(slot, ()))))


def _slot(slot: str, settings: Mapping[str, type[Settings]], names: Mapping[str, Sequence[str]]) -> Schema:
    tables = {}
    for name in _names(slot, names):
        cls = settings.get(ALIASES[slot].get(name, name))
        tables[name] = (
            _table(cls, INHERITED.get(name, ())) if cls else {"type": "object", "description": f"Settings of {name}."}
        )
    return {"description": f"Settings of {slot} adapters, each in a table of its name.", **_object(tables)}


def _collection(name: str, member: Schema) -> Schema:
    return {"description": COLLECTIONS[name], "type": "object", "additionalProperties": member}


def _table(cls: type, said_elsewhere: Sequence[str] = ()) -> Schema:
    """The schema of an attrs class: a field is a key, and needed unless it has a default or is *said_elsewhere*."""
    hints = get_type_hints(cls, include_extras=True)
    fields = attrs.fields(cls)
    properties = {field.name: _key(hints[field.name]) | _default(field) for field in fields}
    required = [field.name for field in fields if field.default is attrs.NOTHING and field.name not in said_elsewhere]
    description = (inspect.getdoc(cls) or cls.__name__).split("\n\n")[0].replace("\n", " ")
    return {"description": description, **_object(properties)} | ({"required": required} if required else {})


def _key(hint: Any) -> Schema:
    plain = plain_type(hint)
    if attrs.has(plain):
        return _table(plain)
    if keys := literal_keys(hint):
        value = _plain(get_args(plain)[1])
        described = {"description": text} if (text := _plain(hint).get("description")) else {}
        return {**described, **_object(dict.fromkeys(keys, value))}
    return _plain(hint)


def _plain(hint: Any) -> Schema:
    (schema,), named = msgspec.json.schema_components((hint,), schema_hook=_special)
    return _without_null(_inlined(schema, named))


def _inlined(schema: Any, named: Mapping[str, Any]) -> Any:
    """*schema* with each reference replaced by what it refers to, and no table open to unknown keys."""
    if isinstance(schema, list):
        return [_inlined(item, named) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(named[schema["$ref"].rpartition("/")[2]], named)
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {key: _inlined(value, named) for key, value in schema.items()} | closed


def _without_null(schema: Schema) -> Schema:
    """TOML has no null: a key that may be None is a key that may be left out."""
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def _special(kind: type) -> Schema:
    """The types that TOML does not have are written as text."""
    if kind is Secret:
        return {"type": "string", "pattern": SECRET_PATTERN}
    if issubclass(kind, PurePath):
        return {"type": "string", "minLength": 1}
    raise NotImplementedError(f"settings cannot have the type {kind.__name__}")


def _default(field: attrs.Attribute[Any]) -> Schema:
    default: Any = field.default
    if (factory := getattr(default, "factory", None)) is not None:
        default = None if default.takes_self else factory()
    if default is None or default is attrs.NOTHING or isinstance(default, Secret) or attrs.has(type(default)):
        return {}
    return {"default": msgspec.to_builtins(default, enc_hook=str)}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}
