"""The API as a page: one file, no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

__all__ = ["page"]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8889; --get: #2563eb; --post: #15803d; --delete: #b91c1c }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 3rem auto; padding: 0 1.2rem }
h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { margin-top: 2.6rem; border-bottom: 1px solid var(--line) }
code, .path { font: 14px/1.5 ui-monospace, monospace } .soft { color: var(--soft) }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: .45rem .8rem }
summary { cursor: pointer; display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap }
.verb { font-weight: 700; font-size: .8rem; min-width: 3.6rem; color: var(--get) }
.POST { color: var(--post) } .DELETE { color: var(--delete) }
pre { white-space: pre-wrap; font: inherit } table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem .8rem .25rem 0; border-top: 1px solid var(--line); vertical-align: top }
"""


def page(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as HTML."""
    schemas = document["components"]["schemas"]
    slots: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            slots.setdefault(operation["tags"][0], []).append(_operation(path, verb.upper(), operation, schemas))
    body = "".join(f"<h2 id={slot}>{escape(slot)}</h2>{''.join(items)}" for slot, items in slots.items())
    links = " · ".join(f"<a href='#{slot}'>{escape(slot)}</a>" for slot in slots)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>agentbox host</title>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<style>{STYLE}</style><h1>agentbox host</h1>"
        "<p class=soft>Every call needs <code>Authorization: Bearer …</code>. Errors are "
        "<code>application/problem+json</code>. The same as a document: <a href='openapi.json'>openapi.json</a>.</p>"
        f"<p>{links}</p>{body}</html>"
    )


def _operation(path: str, verb: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    rows = "".join(_row(*row) for row in _inputs(operation, schemas))
    table = f"<table><tr><th>name<th>where<th>type<th></tr>{rows}</table>" if rows else ""
    return (
        f"<details><summary><span class='verb {verb}'>{verb}</span><span class=path>{escape(path)}</span>"
        f"<span class=soft>{escape(operation['summary'])}</span></summary>"
        f"<pre>{escape(operation['description'])}</pre>{table}</details>"
    )


def _inputs(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, bool]]:
    for parameter in operation["parameters"]:
        yield parameter["name"], parameter["in"], parameter["schema"], parameter["required"]
    body = operation.get("requestBody")
    if body is not None:
        schema = body["content"]["application/json"]["schema"]
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for name, member in schema.get("properties", {}).items():
            yield name, "body", member, name in schema.get("required", ())


def _row(name: str, where: str, schema: Mapping[str, Any], required: bool) -> str:
    needed = "needed" if required else ""
    return f"<tr><td><code>{escape(name)}</code><td>{where}<td>{escape(_kind(schema))}<td class=soft>{needed}</tr>"


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " · ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
