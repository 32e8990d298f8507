"""JSON Schema and OpenAPI documents, derived from the contracts' types and routes."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Contract, Method, Probe
from agentbox_contracts.errors import error_classes

__all__ = ["contract_schema", "openapi"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"


def contract_schema(contract: Contract) -> dict[str, Any]:
    """One slot's contract as a document: every method with its promise, route, arguments and result."""
    methods = contract.methods
    types = [kind for method in methods.values() for kind in (method.arguments, method.result)]
    schemas, definitions = msgspec.json.schema_components(types, ref_template=_REF)
    return _plain(
        {
            "$schema": DIALECT,
            "$id": f"urn:agentbox:contract:{contract.slot}-v1",
            "title": f"agentbox {contract.slot}",
            "version": contract.version,
            "methods": {
                name: {
                    "description": method.doc,
                    "stream": method.stream,
                    "route": f"{method.route.verb} {method.route.path}" if method.route else None,
                    "arguments": arguments,
                    "result": result,
                }
                for (name, method), arguments, result in zip(methods.items(), schemas[::2], schemas[1::2], strict=True)
            },
            "$defs": definitions,
        }
    )


def openapi() -> dict[str, Any]:
    """The HTTP form of all five slots as OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    routed = [(slot, method) for slot in SLOTS for method in contract_of(slot).methods.values() if method.route]
    results = [method.result for _, method in routed]
    bodies = [_body_type(method) for _, method in routed]
    schemas, definitions = msgspec.json.schema_components(
        [*results, *[body for body in bodies if body], Probe], ref_template="#/components/schemas/{name}"
    )
    answers, asked = schemas[: len(results)], iter(schemas[len(results) :])
    for (slot, method), body, answer in zip(routed, bodies, answers, strict=True):
        assert method.route is not None
        paths.setdefault(method.route.path, {})[method.route.verb.lower()] = _operation(
            slot, method, answer, next(asked) if body else None
        )
    return _plain(
        {
            "openapi": "3.1.0",
            "info": {"title": "agentbox host", "version": "1.0.0", "license": {"name": "Apache-2.0"}},
            "paths": paths,
            "components": {
                "schemas": definitions | {"Problem": _problem()},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"token": []}],
        }
    )


def _operation(slot: str, method: Method, answer: dict[str, Any], body: dict[str, Any] | None) -> dict[str, Any]:
    assert method.route is not None
    media = "text/event-stream" if method.stream else "application/json"
    summary = method.doc.split("\n", 1)[0]
    operation: dict[str, Any] = {
        "operationId": f"{slot}_{method.name}",
        "tags": [slot],
        "summary": summary,
        "description": method.doc,
        "parameters": _parameters(method),
        "responses": {
            str(method.route.status): {"description": "Done.", "content": {media: {"schema": answer}}},
            "default": {
                "description": "An error of the contract.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _path_names(method: Method) -> list[str]:
    return re.findall(r"\{(\w+)\}", method.route.path) if method.route else []


def _parameters(method: Method) -> list[dict[str, Any]]:
    assert method.route is not None
    in_path = _path_names(method)
    fields = msgspec.structs.fields(method.arguments)
    kept = [f for f in fields if f.name in in_path or method.route.verb in ("GET", "DELETE")]
    schemas, _ = msgspec.json.schema_components([f.type for f in kept], ref_template="#/components/schemas/{name}")
    return [
        {
            "name": field.name,
            "in": "path" if field.name in in_path else "query",
            "required": field.name in in_path or field.required,
            "schema": schema,
        }
        for field, schema in zip(kept, schemas, strict=True)
    ]


def _body_type(method: Method) -> type[msgspec.Struct] | None:
    """The arguments that travel in the body: those of a write that are not in the path."""
    assert method.route is not None
    if method.route.verb in ("GET", "DELETE"):
        return None
    in_path = _path_names(method)
    fields: list[Any] = []
    for field in msgspec.structs.fields(method.arguments):
        if field.name in in_path:
            continue
        if field.required:
            fields.append((field.name, field.type))
        elif field.default_factory is not msgspec.NODEFAULT:
            fields.append((field.name, field.type, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, field.type, field.default))
    name = f"{method.arguments.__name__}Body"
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True) if fields else None


def _problem() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "title": "Problem",
        "type": "object",
        "required": ["type", "title", "status", "code", "message"],
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": sorted({cls.code for cls in error_classes()})},
            "message": text,
            **dict.fromkeys(("resource", "id", "actor", "slot", "method", "impl"), text),
        },
    }


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """*document* as nothing but JSON's own types."""
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain
