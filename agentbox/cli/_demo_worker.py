"""A worker of the demo: claims what is ready under an epic, works on it, closes it, until nothing is left."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry

from agentbox import manifest, metrics, resolver
from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import AgentboxError, StaleClaim

__all__ = ["LEASE_SECONDS", "STEP_SECONDS", "demo_manifest", "main", "measured"]

LEASE_SECONDS = 3.0
STEP_SECONDS = 0.5
PAUSE_SECONDS = 0.1


def demo_manifest(state: Path) -> manifest.Manifest:
    """The standalone defaults on *state*, whatever manifest or environment the user has. The keeper leaves early."""
    return manifest.parse(
        "",
        overrides={"orchestrator": {"local-process-manager": {"keeper_idle_seconds": 0.2}}},
        environ={"AGENTBOX_STATE": str(state)},
        folder=state,
    )


def measured(registry: CollectorRegistry) -> dict[str, list[float]]:
    """By `slot.method`: how many calls, their seconds in all, and how many were within each bucket."""
    found: dict[str, list[float]] = {}
    for sample in (sample for metric in registry.collect() for sample in metric.samples):
        if not sample.name.startswith("agentbox_adapter_duration_seconds_") or sample.name.endswith("_created"):
            continue
        row = found.setdefault(f"{sample.labels['slot']}.{sample.labels['method']}", [0.0, 0.0])
        if sample.name.endswith("_count"):
            row[0] += sample.value
        elif sample.name.endswith("_sum"):
            row[1] += sample.value
        else:
            row.append(sample.value)
    return found


async def work(state: Path, epic_id: str, name: str) -> None:
    """Open the beads slot alone and work until every child of *epic_id* is closed."""
    slot = resolver.build(demo_manifest(state), "beads")
    await resolver.connect(slot)
    try:
        _say("ready")
        await _work_off(cast("Beads", slot.adapter), epic_id, name)
    finally:
        await slot.adapter.disconnect()
    _say("metrics", json.dumps(measured(metrics.REGISTRY)))


async def _work_off(beads: Beads, epic_id: str, name: str) -> None:
    while True:
        bead = await beads.claim_ready(actor=name, parent_id=epic_id, lease_seconds=LEASE_SECONDS)
        if bead is not None:
            await _finish(beads, bead, name)
        elif (await beads.show(epic_id)).open_children == 0:
            return
        else:
            await asyncio.sleep(PAUSE_SECONDS)


async def _finish(beads: Beads, bead: Bead, name: str) -> None:
    _say("claimed", bead.id, "fence", bead.fence)
    try:
        for step in range(1, int(str(bead.metadata["steps"])) + 1):
            await asyncio.sleep(STEP_SECONDS)
            await beads.renew(bead.id, lease_seconds=LEASE_SECONDS, fence=bead.fence)
            _say("working", bead.id, "step", step)
        await beads.close(bead.id, reason="finished in the demo", actor=name, fence=bead.fence)
    except StaleClaim:
        _say("lost", bead.id, "fence", bead.fence)  # it was too slow, and another has taken over
    else:
        _say("closed", bead.id, "fence", bead.fence)


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def main(arguments: Iterable[str] | None = None) -> int:
    """Run one worker."""
    parser = argparse.ArgumentParser(prog="agentbox.cli._demo_worker", description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--epic", required=True)
    parser.add_argument("--name", required=True)
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    try:
        asyncio.run(work(chosen.state, chosen.epic, chosen.name))
    except AgentboxError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
