"""What can still be said of the adapters' settings in a manifest that breaks other rules."""

from __future__ import annotations

import os
from pathlib import Path

from agentbox import plugins
from agentbox._manifest_source import Source, read_text
from agentbox._manifest_tables import Names, adapter_tables
from agentbox._manifest_values import Reader
from agentbox.manifest import InvalidManifest, Problem
from agentbox_contracts.errors import BootError

__all__ = ["settings_problems"]

MISSING = "E028"


def settings_problems(path: Path | None) -> tuple[Problem, ...]:
    """
    The problems of all `[<slot>.<impl>]` tables; none when the file is not even TOML.

    That a setting is missing is not said: the sections that would have filled it in may be the broken ones.
    """
    if path is None:
        return ()
    try:
        source = Source.of(read_text(path), path=path, folder=None, environ=os.environ)
        data = source.toml()
    except InvalidManifest:
        return ()
    report = source.report()
    written, tables = adapter_tables(data, Names(), source.report())
    reader = Reader(report, source.folder, source.environ)
    for slot, named in tables.items():
        for impl, table in named.items():
            try:
                cls = plugins.adapter_class(slot, impl).settings_class
            except BootError:
                continue
            reader.table(cls, table, written[slot, impl])
    return tuple(problem for problem in report.problems() if problem.code != MISSING)
