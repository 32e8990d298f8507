"""Known-bad beads: importing this module makes all of them known."""

from __future__ import annotations

from agentbox_contracts.suites.bad import (
    _beads_claims,
    _beads_closing,
    _beads_garbage,
    _beads_keys,
    _beads_leases,
    _beads_processes,
    _beads_records,
    _beads_sync,
    _beads_waiting,
)

__all__ = [
    "_beads_claims",
    "_beads_closing",
    "_beads_garbage",
    "_beads_keys",
    "_beads_leases",
    "_beads_processes",
    "_beads_records",
    "_beads_sync",
    "_beads_waiting",
]
