"""The environment that an agent gets: a short list of the host's, what its spec names, and who it is."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentbox.adapters.orchestrator._records import Record
from agentbox.adapters.orchestrator._remains import marker

__all__ = ["environment"]

INHERITED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"})


def environment(record: Record, home: str, own: Mapping[str, str]) -> dict[str, str]:
    """
    What the agent *record* is started with, *own* being its spec's.

    The spec may override what is inherited and the trace, but not the two variables by which a lost agent's processes
    are found again.
    """
    inherited = {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}
    known = {
        "AGENTBOX_SESSION_ID": record.session_id,
        "AGENTBOX_EXECUTION_ID": record.execution_id,
        "AGENTBOX_BEAD_ID": record.bead_id,
    }
    told = {name: value for name, value in known.items() if value is not None}
    return {**inherited, **_trace(), **told, **own, **marker(record.id, home)}


def _trace() -> dict[str, str]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
