"""The app: five connected slots for as long as one needs them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import attrs
from prometheus_client import CollectorRegistry

from agentbox import __version__, metrics, recovery, resolver
from agentbox import manifest as manifests
from agentbox.announcing import announcing
from agentbox.federation import skew
from agentbox.manifest import Manifest
from agentbox.resolver import Slot
from agentbox_contracts import SLOTS
from agentbox_contracts.beads import Beads
from agentbox_contracts.contract import Probe, State
from agentbox_contracts.errors import BootError, OrchestratorRequired
from agentbox_contracts.events import Events
from agentbox_contracts.memory import Memory
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.pods import Pods

__all__ = ["Adapters", "App", "HealthReport", "health_of", "open_app", "opened_slots", "require_orchestrator"]

FORMAT = 1
"""The format of the state folder, in its VERSION file. Each store has a version of its own inside."""

CLOSE_SECONDS = 10.0

log = logging.getLogger("agentbox.app")


@attrs.frozen(kw_only=True)
class Adapters:
    """The five slots as applications use them. Which implementation answers is the manifest's business."""

    beads: Beads
    pods: Pods
    memory: Memory
    events: Events
    orchestrator: Orchestrator


@attrs.frozen(kw_only=True)
class HealthReport:
    """The state of every slot; the overall state is the worst of those that should work."""

    state: State
    slots: tuple[Probe, ...]


@attrs.frozen(kw_only=True)
class App:
    """An open app. `registry` holds the metrics, for the host application to expose."""

    manifest: Manifest
    adapters: Adapters
    slots: Mapping[str, Slot]
    registry: CollectorRegistry = metrics.REGISTRY

    async def health(self) -> HealthReport:
        """A real look at every slot. A slot that is off by choice does not make the app degraded."""
        return await health_of(self.slots.values())

    def meta(self) -> dict[str, Any]:
        """What is configured and what answers, slot by slot, as `/v1/meta` tells it."""
        return {
            "agentbox": __version__,
            "manifest": {
                "path": str(self.manifest.path) if self.manifest.path else None,
                "checksum": self.manifest.checksum,
                "mode": self.manifest.federation.mode,
            },
            "slots": {name: _meta_of(slot) for name, slot in self.slots.items()},
        }

    def attach(self, host_app: Any) -> None:
        """Give *host_app* (Starlette, FastAPI, any object) the attribute `adapters`, for its handlers to use."""
        host_app.adapters = self.adapters


async def health_of(slots: Iterable[Slot]) -> HealthReport:
    """A real look at each of *slots*."""
    async with asyncio.TaskGroup() as tasks:
        probes = [tasks.create_task(resolver.probe(slot)) for slot in slots]
    found = tuple(task.result() for task in probes)
    degraded = any(probe.state == "degraded" for probe in found)
    return HealthReport(state="degraded" if degraded else "healthy", slots=found)


@asynccontextmanager
async def open_app(
    manifest: str | Path | Manifest | None = None, *, overrides: Mapping[str, Any] | None = None
) -> AsyncIterator[App]:
    """
    Open the app that *manifest* describes: a path, a Manifest, or None for the nearest `agentbox.toml`.

    All slots connect together, each within its deadline. One that fails is off, with the reason in `health()`; the
    orchestrator must work. On the way out everything is closed in reverse, also when the body was cancelled.

    Raises:
        ManifestError: The manifest breaks a rule; every problem is listed.
        UnknownAdapter: It names an adapter that nothing provides.
        ContractMismatch: An adapter speaks another major version of its contract.
        OrchestratorRequired: The orchestrator is off or did not start.
    """
    chosen = await asyncio.to_thread(_read, manifest, overrides)
    async with AsyncExitStack() as stack:
        if chosen.observability.otlp_endpoint or chosen.observability.metrics_port:
            from agentbox import telemetry

            stack.enter_context(telemetry.exporting(chosen.observability))
        slots = await stack.enter_async_context(opened_slots(chosen, first=require_orchestrator))
        require_orchestrator(slots)
        for warning in chosen.warnings:
            log.warning("manifest: %s", warning, extra={"problem": str(warning)})
        announcer = await stack.enter_async_context(announcing(chosen, slots))
        if chosen.policy.recover:
            tell = announcer.changed if announcer is not None else None
            stack.push_async_callback(_stopped, asyncio.create_task(recovery.watch(chosen, slots.values(), tell)))
        yield App(manifest=chosen, adapters=_adapters(slots), slots=slots)


@asynccontextmanager
async def opened_slots(
    manifest: Manifest, *, first: Callable[[Mapping[str, Slot]], None] = lambda _: None
) -> AsyncIterator[Mapping[str, Slot]]:
    """All slots of *manifest*, connected if they can be. *first* may refuse before anything is touched."""
    slots = {name: resolver.build(manifest, name) for name in SLOTS}
    first(slots)
    await asyncio.to_thread(prepare_state, manifest.state)
    async with AsyncExitStack() as stack:
        for slot in slots.values():
            stack.push_async_callback(_bounded, slot.adapter.disconnect, slot.name)
        async with asyncio.TaskGroup() as tasks:
            for slot in slots.values():
                tasks.create_task(resolver.connect(slot))
        yield slots


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def prepare_state(folder: Path) -> None:
    """
    Make the state folder, for its owner only, or refuse one that a newer agentbox wrote.

    Raises:
        BootError: It cannot be made or is of a newer format.
    """
    version = folder / "VERSION"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not version.exists():
            _write_once(version, f"{FORMAT}\n")
        found = version.read_text().strip()
    except OSError as error:
        raise BootError(
            f"the state folder {folder} cannot be used: {error.strerror}; set AGENTBOX_STATE or [state] path"
        ) from error
    if not found.isdigit() or int(found) > FORMAT:
        raise BootError(
            f"the state folder {folder} has format {found[:20]!r}, and this agentbox knows up to {FORMAT}; "
            "use the newer agentbox that wrote it, or another folder"
        )


def _write_once(path: Path, text: str) -> None:
    """Several processes may open a fresh folder at once: a rename never shows half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def _read(manifest: str | Path | Manifest | None, overrides: Mapping[str, Any] | None) -> Manifest:
    if isinstance(manifest, Manifest):
        if overrides:
            raise BootError("overrides go with a manifest's path, not with a Manifest that is read already")
        return manifest
    return manifests.load(manifest, overrides=overrides)


def require_orchestrator(slots: Mapping[str, Slot]) -> None:
    """Raise OrchestratorRequired, which says what to do, when the orchestrator is off or did not start."""
    slot = slots["orchestrator"]
    if slot.failure:
        raise OrchestratorRequired(
            f"the orchestrator is required and {slot.failure}; "
            'mend that, or choose another with [adapters] orchestrator = "…"',
            slot="orchestrator",
            impl=slot.choice.impl,
        )
    if not slot.adapter.enabled:
        raise OrchestratorRequired(
            "the orchestrator is required and the manifest switches it off; "
            'set [adapters] orchestrator = "local-process-manager", or leave the key out',
            slot="orchestrator",
            impl="off",
        )


def _adapters(slots: Mapping[str, Slot]) -> Adapters:
    return Adapters(
        beads=cast("Beads", slots["beads"].adapter),
        pods=cast("Pods", slots["pods"].adapter),
        memory=cast("Memory", slots["memory"].adapter),
        events=cast("Events", slots["events"].adapter),
        orchestrator=cast("Orchestrator", slots["orchestrator"].adapter),
    )


def _meta_of(slot: Slot) -> dict[str, Any]:
    return {
        "configured": slot.choice.configured,
        "canonical": slot.choice.impl,
        "impl": slot.adapter.impl,
        "contract": slot.adapter.contract_version,
        "accepts": slot.accepts,
        "skew": skew(slot.name, slot.adapter.contract_version),
        "capabilities": sorted(slot.adapter.capabilities),
        "durability": slot.adapter.durability,
        "limits": dict(slot.adapter.limits),
        "advice": slot.adapter.advice,
        "location": slot.adapter.location,
        "reason": slot.failure,
    }


async def _bounded(close: Callable[[], Awaitable[None]], slot: str) -> None:
    """Close, whatever happens to the closer: not cut short by cancellation, not longer than CLOSE_SECONDS."""
    closing = asyncio.ensure_future(close())
    cancelled: asyncio.CancelledError | None = None
    deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
    while not closing.done() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([closing], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if not closing.done():
        closing.cancel()
        log.error("slot did not close in time: %s", slot, extra={"slot": slot, "seconds": CLOSE_SECONDS})
    elif not closing.cancelled() and (failure := closing.exception()) is not None:
        log.error("slot did not close: %s: %s", slot, failure, extra={"slot": slot, "reason": str(failure)})
    if cancelled is not None:
        raise cancelled
