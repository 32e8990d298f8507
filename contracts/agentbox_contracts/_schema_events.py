"""What OpenAPI cannot learn from the port: that an event travels as a CloudEvent, alone or with others."""

from __future__ import annotations

from typing import Any

__all__ = ["add_event_forms"]

SCHEMAS = "#/components/schemas/"
LOGS_OWN = ("seq", "prev_hash", "hash")
VERSION = {"type": "string", "enum": ["1.0"]}
TEXT = {"type": "string"}


def add_event_forms(operation: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Let `POST /v1/events` take an event or an array of them, plain or as CloudEvents, and give as many receipts."""
    del definitions["DispatchBody"]
    definitions["NewEvent"] = _new(definitions["Event"])
    definitions["CloudEvent"] = _cloud(definitions["NewEvent"])
    plain, cloud = {"$ref": f"{SCHEMAS}NewEvent"}, {"$ref": f"{SCHEMAS}CloudEvent"}
    operation["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {"schema": {"anyOf": [plain, _several(plain)]}},
            "application/cloudevents+json": {"schema": cloud},
            "application/cloudevents-batch+json": {"schema": _several(cloud)},
        },
    }
    done = operation["responses"]["201"]["content"]["application/json"]
    done["schema"] = {"anyOf": [done["schema"], {"type": "array", "items": done["schema"]}]}
    definitions["Event"].pop("additionalProperties", None)


def _new(event: dict[str, Any]) -> dict[str, Any]:
    """An event as it is dispatched: without what the log adds."""
    properties = {name: schema for name, schema in event["properties"].items() if name not in LOGS_OWN}
    return event | {
        "title": "NewEvent",
        "description": "An event as it is dispatched. Other members are refused.",
        "properties": properties | {"specversion": VERSION},
        "additionalProperties": False,
    }


def _cloud(event: dict[str, Any]) -> dict[str, Any]:
    """The same by the names that CloudEvents allows."""
    renamed = {"session_id": "sessionid", "execution_id": "executionid"}
    properties = {renamed.get(name, name): schema for name, schema in event["properties"].items()}
    return event | {
        "title": "CloudEvent",
        "description": "A CloudEvent 1.0 in JSON. Extension attributes are refused, but for sessionid and executionid.",
        "properties": properties,
        "required": [*event["required"], "specversion"],
    }


def _several(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": event, "maxItems": 10_000}
