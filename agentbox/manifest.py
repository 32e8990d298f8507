"""`agentbox.toml`: found, read, checked as a whole, and handed out as typed values."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from agentbox._manifest_problems import CODES, InvalidManifest, Problem, Report
from agentbox._manifest_rules import Facts, check
from agentbox._manifest_secrets import open_dsn, secret
from agentbox._manifest_sections import (
    ALIASES,
    KNOWN,
    STANDALONE,
    Federation,
    HealthPolicy,
    Host,
    Integrations,
    Observability,
    Policy,
    State,
    Target,
)
from agentbox._manifest_source import Source, merged, read_text, working_folder
from agentbox._manifest_tables import Choice, Names, adapter_tables, choices, engines, known_sections, targets
from agentbox._manifest_values import Reader, Refused, path_or_refused
from agentbox_contracts import SLOTS
from agentbox_contracts.contract import Secret, Settings, resolve_paths

__all__ = [
    "ALIASES",
    "CODES",
    "KNOWN",
    "SLOTS",
    "STANDALONE",
    "Choice",
    "Federation",
    "HealthPolicy",
    "Host",
    "InvalidManifest",
    "Manifest",
    "Observability",
    "Policy",
    "Problem",
    "Target",
    "discover",
    "load",
    "parse",
]

FILE_NAME = "agentbox.toml"

S = TypeVar("S", bound=Settings)


@attrs.frozen(kw_only=True)
class Manifest:
    """A manifest that was read and found good. Warnings are kept; errors never get this far."""

    path: Path | None
    checksum: str
    state: Path
    adapters: Mapping[str, Choice]
    federation: Federation
    policy: Policy
    health: HealthPolicy
    observability: Observability
    host: Host
    targets: Mapping[str, Target]
    engines: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]]
    warnings: tuple[Problem, ...]
    _dsn: Secret | None = attrs.field(repr=False, eq=False)
    _source: Source = attrs.field(repr=False, eq=False)

    @property
    def announces(self) -> bool:
        """Whether agentbox tells what it does: when there is somewhere to tell it, and the policy does not forbid."""
        return self.policy.announce and self.adapters["events"].impl != "off"

    def settings(self, slot: str, impl: str, cls: type[S]) -> S:
        """
        The table `[<slot>.<impl>]` as *cls*, relative paths inside the state folder.

        What the table leaves out and the manifest or the environment say elsewhere is filled in, where *cls* has the
        field: `url` and `token` of `external`, `dsn` of `external-pg`, `command` of `stdio-bridge`.

        Raises:
            InvalidManifest: Keys are unknown or missing, or values do not fit; all of them are listed.
        """
        report = self._source.report()
        reader = Reader(report, self._source.folder, self._source.environ)
        impl = ALIASES.get(slot, {}).get(impl, impl)
        table = self.tables.get(slot, {}).get(impl, {})
        found = reader.table(cls, table, self._source.written(slot, impl), self._inherited(impl))
        report.refuse_errors()
        assert found is not None
        resolved = resolve_paths(found, self.state)
        assert isinstance(resolved, cls)
        return resolved

    def _inherited(self, impl: str) -> dict[str, Any]:
        bridge = shlex.split(self._source.environ.get("AGENTBOX_BRIDGE", "")) if impl == "stdio-bridge" else []
        values: dict[str, dict[str, Any]] = {
            "external": {"url": self.federation.external_url, "token": self.federation.token},
            "external-pg": {"dsn": self._dsn},
            "stdio-bridge": {"command": tuple(bridge)},
        }
        return {key: value for key, value in values.get(impl, {}).items() if value}


def discover(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Path | None:
    """
    The manifest to read: *path*, else what AGENTBOX_MANIFEST names, else the nearest `agentbox.toml` from *folder*
    (the working folder) upwards, else None. A file that was named is not looked at yet.
    """
    environ = os.environ if environ is None else environ
    start = working_folder(folder)
    named = path or environ.get("AGENTBOX_MANIFEST")
    if named:
        return start / named
    return next((file for above in (start, *start.parents) if _is_file(file := above / FILE_NAME)), None)


def load(
    path: str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Manifest:
    """
    Find the manifest as `discover` does, read it and check it; without one, the standalone defaults.

    Raises:
        InvalidManifest: It cannot be read or breaks rules; every problem is listed with its place.
    """
    found = discover(path, environ=environ, folder=folder)
    text = read_text(found, folder) if found else ""
    return parse(text, path=found, overrides=overrides, environ=environ, folder=folder)


def parse(
    text: str,
    *,
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Manifest:
    """
    Check *text*, with *overrides* laid over it. *path* is where it was read, for messages and relative paths; without
    one they are taken from *folder* (the working folder).

    Raises:
        InvalidManifest: Rules are broken; every problem is listed with its place.
    """
    source = Source.of(text, path=path, folder=folder, environ=os.environ if environ is None else environ)
    data, overridden = merged(source.toml(), overrides or {})
    source = attrs.evolve(source, overridden=overridden)
    report = source.report()
    return _checked(data, source, Reader(report, source.folder, source.environ))


def _checked(data: Mapping[str, Any], source: Source, reader: Reader) -> Manifest:
    report = reader.report
    known_sections(data, report)

    def section(cls: type[Any], name: str) -> Any:
        return reader.table(cls, data.get(name, {}), (name,)) or cls()

    federation: Federation = _with_token(section(Federation, "federation"), source)
    observability, host = section(Observability, "observability"), section(Host, "host")
    dsn = _dsn(section(Integrations, "integrations"), source, report)
    state = _state(section(State, "state"), source, report)
    names = Names()
    written, tables = adapter_tables(data, names, report)
    source = attrs.evolve(source, written_tables=written)
    adapters = choices(data.get("adapters", {}), federation.mode, tables, names, report)
    named_targets = targets(data.get("targets", {}), reader)
    facts = Facts(
        adapters={slot: choice.impl for slot, choice in adapters.items()},
        named=_named(adapters, data),
        tables=tables,
        federation=federation,
        observability=observability,
        host=host,
        targets=named_targets,
        has_dsn=dsn is not None,
        bridge=source.environ.get("AGENTBOX_BRIDGE", ""),
    )
    check(facts, report)
    named_engines = engines(data.get("engines", {}), reader)
    policy, health = section(Policy, "adapters_policy"), section(HealthPolicy, "health")
    report.refuse_errors()
    return Manifest(
        path=source.path,
        checksum=hashlib.sha256(source.text.encode(errors="surrogatepass")).hexdigest(),
        state=state,
        adapters=adapters,
        federation=federation,
        policy=policy,
        health=health,
        observability=observability,
        host=_with_files(host, source.folder),
        targets=named_targets,
        engines=named_engines,
        tables=tables,
        warnings=report.problems("warning"),
        dsn=dsn,
        source=source,
    )


def _with_files(host: Host, folder: Path) -> Host:
    """The host's settings with its files found: they lie beside the manifest, not where it happens to be started."""
    found = {name: folder / path for name in ("tls_cert", "tls_key") if (path := getattr(host, name)) is not None}
    return attrs.evolve(host, **found)


def _named(adapters: Mapping[str, Choice], data: Mapping[str, Any]) -> frozenset[str]:
    """The slots that were given an adapter explicitly, and `mode` when that was given."""
    federation = data.get("federation")
    mode = {"mode"} if isinstance(federation, Mapping) and "mode" in federation else set()
    return frozenset(mode | {slot for slot, choice in adapters.items() if choice.explicit})


def _with_token(federation: Federation, source: Source) -> Federation:
    if federation.token or not source.environ.get("AGENTBOX_TOKEN"):
        return federation
    return attrs.evolve(federation, token=secret("env:AGENTBOX_TOKEN", source.folder, source.environ))


def _dsn(integrations: Integrations, source: Source, report: Report) -> Secret | None:
    """The DSN that every `external-pg` shares unless its own table names another."""
    ruvector = integrations.ruvector_external
    if ruvector.enabled and ruvector.conninfo:
        where = ("integrations", "ruvector_external", "conninfo")
        found = secret(ruvector.conninfo, source.folder, source.environ)
        found = found or open_dsn(ruvector.conninfo, "conninfo in [integrations.ruvector_external]")
        if found is None:
            message = "conninfo in [integrations.ruvector_external] holds a password or is no DSN"
            report.add("E022", where, message, "write env:NAME or file:PATH")
        return found
    if source.environ.get("AGENTBOX_PG_DSN"):
        return secret("env:AGENTBOX_PG_DSN", source.folder, source.environ)
    return None


def _state(state: State, source: Source, report: Report) -> Path:
    """The state folder, absolute. AGENTBOX_STATE is relative to the working folder, `path` to the manifest's."""
    variable = source.environ.get("AGENTBOX_STATE")
    blame = "AGENTBOX_STATE" if variable else None
    try:
        if variable:
            found = source.working_folder / path_or_refused(variable, source.environ)
        else:
            found = source.folder / (state.path or ".agentbox")
        return _folder(found)
    except Refused as refused:
        report.add(refused.code, ("state", "path"), f"state folder: {refused.message}", refused.remedy, source=blame)
        return source.folder / ".agentbox"


def _folder(path: Path) -> Path:
    """*path* resolved, if it is a folder or could be made one."""
    try:
        path = path.resolve()
        nearest = next(above for above in (path, *path.parents) if above.exists())
        if nearest.is_dir():
            return path
    except (OSError, RuntimeError) as error:
        raise Refused("E025", f"{path} cannot be reached: {error}", "name another folder") from error
    raise Refused("E025", f"{nearest} is not a folder", "name a folder, or one that can be made")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
