"""The tables of a manifest whose names are open: adapters and their settings, targets, engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

import attrs

from agentbox._manifest_problems import Report, header, short, suggestion
from agentbox._manifest_sections import ALIASES, ALL_SECTIONS, CLIENT, KNOWN, STANDALONE, EngineValue, Target
from agentbox._manifest_values import Reader, kind_of
from agentbox._toml_places import KeyPath
from agentbox_contracts import SLOTS

Tables = dict[str, dict[str, Mapping[str, Any]]]


@attrs.frozen
class Choice:
    """The adapter of one slot: *configured* as written, *impl* its canonical name, *table* its raw settings."""

    slot: str
    configured: str
    impl: str
    table: Mapping[str, Any]
    explicit: bool


class Names:
    """The names of adapters, for the reading of one manifest: installed plugins are asked once, and not loaded."""

    def __init__(self) -> None:
        self._plugins: dict[str, set[str]] = {}

    def canonical(self, slot: str, name: str) -> str | None:
        """The canonical name of an adapter, None when nothing provides it."""
        if name in KNOWN[slot]:
            return name
        if name in ALIASES[slot]:
            return ALIASES[slot][name]
        return name if name in self.plugins(slot) else None

    def plugins(self, slot: str) -> set[str]:
        """The names that installed packages offer for *slot*."""
        if slot not in self._plugins:
            self._plugins[slot] = entry_points(group=f"agentbox.{slot}").names
        return self._plugins[slot]

    def unknown(self, slot: str, name: str, where: str) -> tuple[str, str]:
        """What to say of an adapter that nothing provides, and the remedy."""
        known = sorted({*KNOWN[slot], *self.plugins(slot)})
        return f"{where}: no adapter called {short(name)}", suggestion(name, known)


def known_sections(data: Mapping[str, Any], report: Report) -> None:
    """Note the sections that no manifest has."""
    report.unknown_keys(data, ALL_SECTIONS, ())


def adapter_tables(data: Mapping[str, Any], names: Names, report: Report) -> tuple[dict[KeyPath, KeyPath], Tables]:
    """All `[<slot>.<impl>]` tables under canonical names, and for each the path it was written at."""
    written: dict[KeyPath, KeyPath] = {}
    tables: Tables = {slot: {} for slot in SLOTS}
    for slot in SLOTS:
        for name, table in _subtables(data.get(slot, {}), (slot,), report, names):
            impl = names.canonical(slot, name)
            where = (slot, name)
            if impl is None:
                report.add("E021", where, *names.unknown(slot, name, header(where)))
            elif impl in tables[slot]:
                message = f"{header(where)} and {header(written[slot, impl])} are the same adapter"
                report.add("E026", where, message, f"keep one, best [{slot}.{impl}]")
            else:
                tables[slot][impl] = table
                written[slot, impl] = where
    return written, tables


def choices(section: object, mode: str, tables: Tables, names: Names, report: Report) -> dict[str, Choice]:
    """The adapter of every slot. A slot whose name is wrong is reported and left out."""
    if not isinstance(section, Mapping):
        report.add("E019", ("adapters",), f"[adapters] must be a table, not {kind_of(section)}")
        section = {}
    report.unknown_keys(section, SLOTS, ("adapters",))
    defaults = CLIENT if mode == "client" else STANDALONE
    found = {}
    for slot in SLOTS:
        configured = section.get(slot, defaults[slot])
        if not isinstance(configured, str):
            message = f"{slot} in [adapters]: expected an adapter's name, got {kind_of(configured)}"
            report.add("E019", ("adapters", slot), message, f"known: {', '.join(KNOWN[slot])}")
        elif (impl := names.canonical(slot, configured)) is None:
            report.add("E021", ("adapters", slot), *names.unknown(slot, configured, slot))
        else:
            found[slot] = Choice(slot, configured, impl, tables[slot].get(impl, {}), slot in section)
    return found


def targets(section: object, reader: Reader) -> dict[str, Target]:
    """The named targets; a wrong one is reported and left out."""
    named = _subtables(section, ("targets",), reader.report)
    read = {name: reader.table(Target, table, ("targets", name)) for name, table in named}
    return {name: target for name, target in read.items() if target is not None}


def engines(section: object, reader: Reader) -> dict[str, dict[str, Any]]:
    """The named engines with their keys, which are free; a value of a wrong type is reported."""
    return {
        name: {key: reader.value(EngineValue, value, ("engines", name, key)) for key, value in table.items()}
        for name, table in _subtables(section, ("engines",), reader.report)
    }


def _subtables(
    section: object, where: tuple[str], report: Report, names: Names | None = None
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The tables in *section*. With *names* they are an adapter's each, and a stray key is told apart from those."""
    if not isinstance(section, Mapping):
        report.add("E019", where, f"{header(where)} must be a table, not {kind_of(section)}")
        return
    (slot,) = where
    for name, table in section.items():
        if isinstance(table, Mapping):
            yield name, table
        elif names and names.canonical(slot, name) is None:
            remedy = f"settings go into a table of their adapter, like [{slot}.{KNOWN[slot][0]}]"
            report.add("E016", (*where, name), f"unknown key {short(name)} in {header(where)}", remedy)
        else:
            report.add("E019", (*where, name), f"{header((*where, name))} must be a table, not {kind_of(table)}")
