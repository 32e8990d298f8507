"""JSON Schema and OpenAPI documents, derived from the contracts' types and routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from agentbox_contracts import SLOTS, contract_of, errors
from agentbox_contracts._schema_events import add_event_forms
from agentbox_contracts.contract import Contract, Method, Probe
from agentbox_contracts.errors import error_classes
from agentbox_contracts.vocabulary import VOCABULARY, source_of

__all__ = ["contract_schema", "openapi", "vocabulary_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"
_SCHEMAS = "#/components/schemas/"
_ALL = ("GET", "POST", "PUT", "PATCH", "DELETE")
_WITH_BODY = ("POST", "PUT", "PATCH")


class _Refusal(NamedTuple):
    """A status that is not success: what it says, which verbs can always meet it, and a header that comes with it."""

    description: str
    verbs: tuple[str, ...] = _ALL
    header: tuple[str, str, bool] | None = None


_REFUSALS = {
    401: _Refusal("A valid token is needed.", header=("WWW-Authenticate", "string", True)),
    403: _Refusal("The token does not cover this, the file is not for callers, or the Origin is not an allowed one."),
    404: _Refusal("There is no such thing.", verbs=()),
    409: _Refusal("Its state forbids it, or `Agentbox-Contract` names a version that this host does not speak."),
    412: _Refusal("A precondition did not hold.", verbs=()),
    413: _Refusal("The body is longer than the host takes.", verbs=_WITH_BODY),
    415: _Refusal("The body is of another type.", verbs=_WITH_BODY),
    421: _Refusal("The Host header names another host."),
    422: _Refusal("An argument is missing, unknown or wrong. Nothing was written."),
    429: _Refusal("Too many requests for this token.", header=("Retry-After", "integer", True)),
    431: _Refusal("The headers are too long."),
    503: _Refusal("The slot is off, or its store cannot be reached now.", header=("Retry-After", "integer", False)),
    504: _Refusal("No answer within the deadline; a write may have happened."),
}


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


def vocabulary_schema() -> dict[str, Any]:
    """What agentbox's own events hold: for each type its source and the schema of its data."""
    schemas, definitions = msgspec.json.schema_components(VOCABULARY.values(), ref_template=_REF)
    return _plain(
        {
            "$schema": DIALECT,
            "$id": "urn:agentbox:events-vocabulary-v1",
            "title": "agentbox events",
            "types": {
                type: {"source": source_of(type), "data": schema}
                for type, schema in zip(VOCABULARY, schemas, strict=True)
            },
            "$defs": definitions,
        }
    )


def openapi() -> dict[str, Any]:
    """The HTTP form of all five slots as OpenAPI 3.1. Every status that a host answers with on purpose is named."""
    paths: dict[str, Any] = {}
    routed = [(slot, method) for slot in SLOTS for method in contract_of(slot).methods.values() if method.route]
    results = [method.result for _, method in routed]
    bodies = [_body_type(method) for _, method in routed]
    schemas, definitions = msgspec.json.schema_components(
        [*results, *[body for body in bodies if body], Probe], ref_template=f"{_SCHEMAS}{{name}}"
    )
    answers, asked = schemas[: len(results)], iter(schemas[len(results) :])
    for (slot, method), body, answer in zip(routed, bodies, answers, strict=True):
        assert method.route is not None
        operation = _operation(slot, method, answer, _RequestBody(body, next(asked)) if body else None)
        verbs, verb = paths.setdefault(method.route.path, {}), method.route.verb.lower()
        verbs[verb] = _together(verbs[verb], operation) if verb in verbs else operation
    _close(definitions, [body.__name__ for body in bodies if body])
    _add_file_form(paths["/v1/beads/sync"]["post"])
    add_event_forms(paths["/v1/events"]["post"], definitions)
    return _plain(
        {
            "openapi": "3.1.0",
            "info": {"title": "agentbox host", "version": "1.0.0", "license": {"name": "Apache-2.0"}},
            "paths": paths,
            "components": {
                "schemas": definitions | {"Problem": _problem()},
                "responses": {str(status): _refusal(status) for status in _REFUSALS},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"token": []}],
        }
    )


def _together(page: dict[str, Any], stream: dict[str, Any]) -> dict[str, Any]:
    """Two methods at one address: a page, and a stream of the same for who asks for `text/event-stream`."""
    known = {parameter["name"] for parameter in page["parameters"]}
    more = [parameter for parameter in stream["parameters"] if parameter["name"] not in known]
    done = page["responses"]["200"]
    done["content"] |= stream["responses"]["200"]["content"]
    return page | {
        "description": f"{page['description']}\n\nWith `Accept: text/event-stream`: {stream['description']}",
        "parameters": [*page["parameters"], *more],
        "responses": stream["responses"] | page["responses"],
    }


class _RequestBody(NamedTuple):
    kind: type[msgspec.Struct]
    schema: dict[str, Any]

    def described(self) -> dict[str, Any]:
        needed = any(field.required for field in msgspec.structs.fields(self.kind))
        return {"required": needed, "content": {"application/json": {"schema": self.schema}}}


def _operation(slot: str, method: Method, answer: dict[str, Any], body: _RequestBody | None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{slot}_{method.name}",
        "tags": [slot],
        "summary": method.doc.split("\n", 1)[0],
        "description": method.doc,
        "parameters": _parameters(method),
        "responses": _responses(method, answer),
    }
    if body is not None:
        operation["requestBody"] = body.described()
    return operation


def _responses(method: Method, answer: dict[str, Any]) -> dict[str, Any]:
    """What a method answers, what it raises, and what every request can meet on its way to it."""
    assert method.route is not None
    media, schema = ("text/event-stream", _event(answer)) if method.stream else ("application/json", answer)
    raised = {str(getattr(errors, name).status) for name in re.findall(r"^    (\w+): ", method.doc, re.MULTILINE)}
    common = {str(status) for status, refusal in _REFUSALS.items() if method.route.verb in refusal.verbs}
    refused = {status: {"$ref": f"#/components/responses/{status}"} for status in sorted(raised | common)}
    return {str(method.route.status): {"description": "Done.", "content": {media: {"schema": schema}}}} | refused


def _event(item: dict[str, Any]) -> dict[str, Any]:
    """One server-sent event of a stream of *item*."""
    return {
        "type": "object",
        "description": "A server-sent event, its `id` the cursor. The last is `end`, or `problem` when it went wrong.",
        "required": ["data"],
        "properties": {
            "id": {"type": "string"},
            "event": {"type": "string", "enum": ["message", "end", "problem"], "default": "message"},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {
                    "anyOf": [item, {"$ref": f"{_SCHEMAS}Problem"}, {"type": "object", "maxProperties": 0}]
                },
            },
        },
    }


def _refusal(status: int) -> dict[str, Any]:
    refusal = _REFUSALS[status]
    described: dict[str, Any] = {
        "description": refusal.description,
        "content": {"application/problem+json": {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
    }
    if refusal.header is not None:
        name, kind, always = refusal.header
        described["headers"] = {name: {"required": always, "schema": {"type": kind}}}
    return described


def _path_names(method: Method) -> list[str]:
    return re.findall(r"\{(\w+)\}", method.route.path) if method.route else []


def _parameters(method: Method) -> list[dict[str, Any]]:
    assert method.route is not None
    in_path = _path_names(method)
    fields = msgspec.structs.fields(method.arguments)
    kept = [f for f in fields if f.name in in_path or method.route.verb in ("GET", "DELETE")]
    schemas, _ = msgspec.json.schema_components([f.type for f in kept], ref_template=f"{_SCHEMAS}{{name}}")
    return [
        {
            "name": field.name,
            "in": "path" if field.name in in_path else "query",
            "required": field.name in in_path or field.required,
            "schema": _of_text(schema),
        }
        for field, schema in zip(kept, schemas, strict=True)
    ]


def _of_text(schema: dict[str, Any]) -> dict[str, Any]:
    """*schema* without null: an address cannot hold one, what is null there is left out."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    return options[0] if len(options) == 1 else schema


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


def _close(definitions: dict[str, Any], names: Iterable[str]) -> None:
    """Let what a body holds have no members but its own, as a host refuses others. *names* are where bodies begin."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            if "properties" in definitions[name]:
                definitions[name]["additionalProperties"] = False
            waiting += re.findall(rf'"{_SCHEMAS}(\w+)"', msgspec.json.encode(definitions[name]).decode())


def _add_file_form(operation: dict[str, Any]) -> None:
    """`sync` takes the caller's own file too, because a path of the caller's means nothing to the host."""
    operation["requestBody"]["content"]["application/jsonl"] = {"schema": {"type": "string"}}
    for name, where, values in (
        ("direction", "query", ["both", "export", "import"]),
        ("Agentbox-File", "header", ["none", "sent"]),
    ):
        parameter = {"name": name, "in": where, "required": False, "schema": {"type": "string", "enum": values}}
        operation["parameters"].append(parameter)
    answer = operation["responses"]["200"]["content"]["application/json"]
    exchanged = {
        "type": "object",
        "required": ["report", "file"],
        "properties": {"report": answer["schema"], "file": {"type": "string", "contentEncoding": "base64"}},
    }
    answer["schema"] = {"anyOf": [exchanged, answer["schema"]]}


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """*document* as nothing but JSON's own types."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain
