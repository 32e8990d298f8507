"""The rules of a manifest that look at more than one key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs

from agentbox._manifest_problems import Report
from agentbox._manifest_secrets import has_password
from agentbox._manifest_sections import TARGET_PATTERN, Federation, Host, Observability, Target
from agentbox._toml_places import KeyPath
from agentbox_contracts import compatible

_TARGET = re.compile(TARGET_PATTERN)


@attrs.frozen(kw_only=True)
class Facts:
    """What the rules look at. *adapters* has the canonical names, *named* the slots that were given one explicitly."""

    adapters: Mapping[str, str]
    named: frozenset[str]
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]]
    federation: Federation
    observability: Observability
    host: Host
    targets: Mapping[str, Target]
    has_dsn: bool
    bridge: str

    def of(self, impl: str) -> Iterator[str]:
        """The slots that *impl* stands behind."""
        return (slot for slot, chosen in self.adapters.items() if chosen == impl)

    def setting(self, slot: str, key: str) -> Any:
        """What the table of the slot's adapter says of *key*, None when nothing."""
        return self.tables.get(slot, {}).get(self.adapters[slot], {}).get(key)


def check(facts: Facts, report: Report) -> None:
    """Note everything in *facts* that breaks a rule."""
    for rule in (
        _external,
        _dsn,
        _bridge,
        _all_off,
        _no_orchestrator,
        _local_in_client,
        _ports,
        _ranges,
        _urls,
        _targets,
    ):
        rule(facts, report)


def _external(facts: Facts, report: Report) -> None:
    if report.has_error(("federation", "mode")) or report.has_error(("federation", "external_url")):
        return
    federation = facts.federation
    for slot in facts.of("external"):
        where = _where(facts, slot)
        if federation.mode != "client":
            remedy = 'write mode = "client" and external_url in [federation]'
            report.add("E001", where, f"{slot}: 'external' works in client mode only", remedy)
        elif not (facts.setting(slot, "url") or federation.external_url):
            code = "E005" if slot == "events" else "E001"
            remedy = f"write external_url in [federation], or url in [{slot}.external]"
            report.add(code, where, f"{slot}: 'external' finds no URL", remedy)


def _dsn(facts: Facts, report: Report) -> None:
    if report.has_error(("integrations",)):
        return
    for slot in facts.of("external-pg"):
        if not (facts.setting(slot, "dsn") or facts.has_dsn):
            remedy = f'set AGENTBOX_PG_DSN, or write dsn = "env:NAME" in [{slot}.external-pg]'
            report.add("E002", _where(facts, slot), f"{slot}: 'external-pg' finds no DSN", remedy)


def _bridge(facts: Facts, report: Report) -> None:
    if facts.adapters.get("orchestrator") != "stdio-bridge":
        return
    command = facts.setting("orchestrator", "command")
    remedy = "leave it out for `python -m agentbox host --stdio`, or name a program"
    if command is not None and not _has_words(command):
        where = ("orchestrator", "stdio-bridge", "command")
        is_empty = not (command.strip() if isinstance(command, str) else command)
        what = "the bridge command is empty" if is_empty else "no command can be read from this"
        report.add("E003", where, f"orchestrator: {what}", remedy)
    elif command is None and facts.bridge and not _has_words(facts.bridge):
        report.add("E003", (), "orchestrator: no command can be read from this", remedy, source="AGENTBOX_BRIDGE")


def _has_words(command: object) -> bool:
    if not isinstance(command, str):
        return bool(command)
    try:
        return bool(shlex.split(command))
    except ValueError:
        return False


def _all_off(facts: Facts, report: Report) -> None:
    others = [slot for slot in facts.adapters if slot != "orchestrator"]
    if len(others) < 4 or any(facts.adapters[slot] != "off" for slot in others):
        return
    written = facts.named.issuperset(others) or "mode" in facts.named
    said = written and facts.federation.mode == "standalone"
    report.add(
        "E004",
        _where(facts, others[0]),
        "beads, pods, memory and events are all off, so nothing is kept",
        "" if said else 'if that is meant, write mode = "standalone" in [federation]',
        severity="warning" if said else "error",
    )


def _no_orchestrator(facts: Facts, report: Report) -> None:
    if facts.adapters.get("orchestrator") == "off":
        message = "orchestrator: it is off, and the app does not open without one"
        remedy = 'write orchestrator = "local-process-manager", or leave the key out'
        report.add("W030", _where(facts, "orchestrator"), message, remedy, severity="warning")


def _local_in_client(facts: Facts, report: Report) -> None:
    if facts.federation.mode != "client":
        return
    for slot, impl in facts.adapters.items():
        if impl == "embedded" or impl.startswith("local-"):
            message = f"{slot}: {impl!r} keeps its state on this machine although the mode is client"
            report.add("W012", _where(facts, slot), message, "the host does not see it", severity="warning")


def _ports(facts: Facts, report: Report) -> None:
    port = facts.observability.metrics_port
    if port and port == facts.host.port and not report.has_error(("host", "port")):
        message = f"metrics_port in [observability] and port in [host] are both {port}"
        report.add("E013", ("observability", "metrics_port"), message, "give one of them another number")


def _ranges(facts: Facts, report: Report) -> None:
    for slot, accepted in facts.federation.accepts.items():
        try:
            # One by one, because a range stops reading at the first clause that does not hold.
            for clause in accepted.split(","):
                compatible("0.0.0", clause)
        except ValueError as error:
            where = ("federation", "accepts", slot)
            report.add("E023", where, f"{slot} in [federation.accepts]: {error}", "write a range like '>=1.0,<2'")


def _urls(facts: Facts, report: Report) -> None:
    _url(facts.federation.external_url, ("federation", "external_url"), report)
    _url(facts.observability.otlp_endpoint, ("observability", "otlp_endpoint"), report)


def _url(url: str | None, where: KeyPath, report: Report) -> None:
    if url is None:
        return
    name = f"{where[1]} in [{where[0]}]"
    if not _is_web_address(url):
        report.add("E024", where, f"{name} is not an address", "write one like 'http://host:7070'")
    elif has_password(url):
        report.add("E022", where, f"{name} holds a password", "leave it out and name a token by reference")


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _targets(facts: Facts, report: Report) -> None:
    for name, target in facts.targets.items():
        if _TARGET.fullmatch(target.environment):
            continue
        known = "write local, docker:<container> or docker-image:<image>"
        what = "ssh is not supported yet" if target.environment.startswith("ssh:") else "unknown environment"
        report.add("E027", ("targets", name, "environment"), f"environment in [targets.{name}]: {what}", known)


def _where(facts: Facts, slot: str) -> KeyPath:
    """The key that chose the slot's adapter: its own, else the mode that set the default."""
    return ("adapters", slot) if slot in facts.named else ("federation", "mode")
