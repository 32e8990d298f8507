"""Known-bad events: importing this module makes all of them known."""

from __future__ import annotations

from agentbox_contracts.suites.bad import (
    _events_dedupe,
    _events_dispatch,
    _events_following,
    _events_processes,
    _events_reading,
)

__all__ = ["_events_dedupe", "_events_dispatch", "_events_following", "_events_processes", "_events_reading"]
