"""
What `agentbox.toml` may hold, described once.

Validation and the published schema both read these classes, so they cannot drift apart: a field is a key, its
annotation the type, range and description, its default the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Secret

Slot = Literal["beads", "pods", "memory", "events", "orchestrator"]
Mode = Literal["standalone", "client"]

KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "beads": ("local-sqlite", "external", "external-pg", "off"),
        "pods": ("local-solid", "external", "off"),
        "memory": ("embedded", "external", "external-pg", "off"),
        "events": ("local-jsonl", "external", "external-nats", "off"),
        "orchestrator": ("local-process-manager", "external", "stdio-bridge", "off"),
    }
)
"""The adapters that come with agentbox, by slot, each under its canonical name."""

ALIASES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "beads": {},
        "pods": {"local-solid-rs": "local-solid"},
        "memory": {"embedded-ruvector": "embedded"},
        "events": {},
        "orchestrator": {},
    }
)
"""Names that existing manifests use, by slot, and the canonical name of each."""

# Pods become local-solid when that adapter exists.
INHERITED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"external": ("url", "token"), "external-pg": ("dsn",), "stdio-bridge": ("command",)}
)
"""Settings that an adapter's table may leave out, because another section or the environment says them."""

STANDALONE: Mapping[str, str] = MappingProxyType(
    {
        "beads": "local-sqlite",
        "pods": "off",
        "memory": "embedded",
        "events": "local-jsonl",
        "orchestrator": "local-process-manager",
    }
)
"""The adapter of a slot that the manifest does not name, in standalone mode."""

CLIENT: Mapping[str, str] = MappingProxyType(
    {
        "beads": "external",
        "pods": "external",
        "memory": "external",
        "events": "external",
        "orchestrator": "stdio-bridge",
    }
)
"""The adapter of a slot that the manifest does not name, in client mode."""

SLOT_DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "beads": "Who works on what: epics, children, dependencies, claims.",
        "pods": "Artefacts as linked data.",
        "memory": "Text and vectors to search.",
        "events": "What happened, in order.",
        "orchestrator": "Starts and watches agent processes. The app does not open without it.",
    }
)

SECRET_PATTERN = "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"  # noqa: S105 - the form of a reference, not a secret
URL_PATTERN = "^https?://[^/?#]+"
TARGET_PATTERN = "^(local|docker:\\S+|docker-image:\\S+)$"
RANGE_PATTERN = r"^\s*(>=|<=|==|>|<)\s*\d+(\.\d+){0,2}\s*(,\s*(>=|<=|==|>|<)\s*\d+(\.\d+){0,2}\s*)*$"

Port = Annotated[int, Meta(ge=0, le=65535)]
Duration = Annotated[float, Meta(gt=0, le=86400)]
Range = Annotated[str, Meta(extra_json_schema={"pattern": RANGE_PATTERN})]


@attrs.frozen(kw_only=True)
class Federation:
    """Whether this agentbox stands alone or is the client of a host, and how it reaches the host."""

    mode: Annotated[Mode, Meta(description="`client` makes `external` the default of every slot not named.")] = (
        "standalone"
    )
    external_url: Annotated[
        str | None, Meta(description="Where the host answers.", extra_json_schema={"pattern": URL_PATTERN})
    ] = None
    token: Annotated[
        Secret | None, Meta(description="The token for the host. Without it: AGENTBOX_TOKEN, when that is set.")
    ] = None
    accepts: Annotated[
        Mapping[Slot, Range], Meta(description="Contract versions this side can live with, by slot: `>=1.0,<2`.")
    ] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class State:
    """Where everything that must outlive the process is kept."""

    path: Annotated[
        Path | None,
        Meta(
            description="The state folder, relative to the manifest's folder. AGENTBOX_STATE goes before it; "
            "without either it is `.agentbox` beside the manifest."
        ),
    ] = None


@attrs.frozen(kw_only=True)
class Policy:
    """How the slots are connected and called."""

    connect_timeout_seconds: Annotated[Duration, Meta(description="How long each slot may take to connect.")] = 10.0
    deadline_seconds: Annotated[Duration, Meta(description="How long a call may take. Streams have no deadline.")] = (
        30.0
    )
    recover: Annotated[bool, Meta(description="Whether a slot that did not connect is tried again and again.")] = True
    announce: Annotated[bool, Meta(description="Whether agentbox tells what it does as events of its own.")] = True


@attrs.frozen(kw_only=True)
class HealthPolicy:
    """What readiness depends on."""

    required: Annotated[
        tuple[Slot, ...], Meta(description="Slots that must be up, besides the orchestrator, for /ready to say yes.")
    ] = ()


@attrs.frozen(kw_only=True)
class Observability:
    """Where traces, metrics and logs go."""

    otlp_endpoint: Annotated[
        str | None,
        Meta(description="Where traces are sent (OTLP over HTTP).", extra_json_schema={"pattern": URL_PATTERN}),
    ] = None
    metrics_port: Annotated[
        Port | None, Meta(description="A port of its own for /metrics; 0 takes a free one. Without it: none.")
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least severe level that is logged.")
    ] = "info"


@attrs.frozen(kw_only=True)
class Host:
    """Where `agentbox serve` listens, and whom it answers."""

    bind: Annotated[str, Meta(description="The address to listen on.", min_length=1)] = "127.0.0.1"
    port: Annotated[Port, Meta(description="The port to listen on; 0 takes a free one.")] = 7070
    allowed_hosts: Annotated[
        tuple[str, ...], Meta(description="Names in the Host header, besides `bind` and loopback, that are answered.")
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...], Meta(description="Origins of pages whose scripts may call: `https://tools.example`.")
    ] = ()
    body_bytes: Annotated[int, Meta(description="How long a body may be.", ge=1024, le=1_073_741_824)] = 8_388_608
    requests_per_second: Annotated[float, Meta(description="How many requests each token may make.", gt=0)] = 10_000.0
    shutdown_seconds: Annotated[Duration, Meta(description="How long requests under way may take at the end.")] = 10.0
    tls_cert: Annotated[
        Path | None, Meta(description="A certificate chain in PEM, relative to the manifest's folder; with it, https.")
    ] = None
    tls_key: Annotated[Path | None, Meta(description="The certificate's key in PEM, where that is another file.")] = (
        None
    )


@attrs.frozen(kw_only=True)
class RuvectorExternal:
    """The Postgres of `external-pg` as existing manifests name it."""

    enabled: Annotated[bool, Meta(description="False leaves `conninfo` unused.")] = True
    conninfo: Annotated[
        str | None, Meta(description="A reference (env:NAME, file:PATH), or a DSN that holds no password.")
    ] = None


@attrs.frozen(kw_only=True)
class Integrations:
    """Services that existing manifests describe in a section of their own."""

    ruvector_external: Annotated[RuvectorExternal, Meta(description="The Postgres of `external-pg`.")] = (
        RuvectorExternal()
    )


@attrs.frozen(kw_only=True)
class Target:
    """A named place where runs happen."""

    environment: Annotated[
        str,
        Meta(
            description="`local`, `docker:<container>` or `docker-image:<image>`.",
            extra_json_schema={"pattern": TARGET_PATTERN},
        ),
    ]


EngineValue = str | int | bool | list[str]
"""What a key of `[engines.<name>]` may hold."""

SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "federation": Federation,
        "state": State,
        "adapters_policy": Policy,
        "health": HealthPolicy,
        "observability": Observability,
        "host": Host,
        "integrations": Integrations,
    }
)
"""The sections whose keys are fixed."""

COLLECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "targets": "Named places where runs happen.",
        "engines": "Settings of coding agents, by engine name.",
    }
)
"""The sections whose tables the user names."""

ALL_SECTIONS = ("adapters", *SECTIONS, *KNOWN, *COLLECTIONS)
"""Every section there is."""
