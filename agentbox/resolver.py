"""From the manifest to connected, wrapped adapters: one slot alone, or all five."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import attrs

from agentbox import metrics, plugins
from agentbox.dispatch import Dispatched, dispatched
from agentbox.federation import check_version, skew
from agentbox.manifest import Choice, Manifest
from agentbox_contracts import contract_of
from agentbox_contracts.contract import BaseAdapter, Health, Probe, Settings, State
from agentbox_contracts.errors import AgentboxError, ContractMismatch
from agentbox_contracts.outbox import Outbox

__all__ = ["Slot", "build", "connect", "degrade", "probe", "revive"]

AdapterClass = type[BaseAdapter]

log = logging.getLogger("agentbox.resolver")

_GAUGE: dict[State, float] = {"healthy": 1.0, "degraded": 0.5, "off": 0.0}


@attrs.define(kw_only=True)
class Slot:
    """One slot of an app: what the manifest chose, what stands behind it now, and why if that is another thing."""

    choice: Choice
    adapter: Dispatched
    accepts: str
    connect_timeout_seconds: float
    failure: str = ""

    @property
    def name(self) -> str:
        return self.choice.slot


def build(manifest: Manifest, slot: str, *, derive: Callable[[AdapterClass], AdapterClass] | None = None) -> Slot:
    """
    The slot's adapter, constructed and wrapped, not yet connected. *derive* may put another class in its place.

    Raises:
        UnknownAdapter: Nothing provides the name in the manifest.
        ManifestError: The adapter's settings break a rule.
        ContractMismatch: It speaks a version of the contract that this side does not accept.
        BootError: A module that it needs is not installed.
    """
    choice = manifest.adapters[slot]
    contract = contract_of(slot)
    cls = plugins.adapter_class(slot, choice.impl)
    if derive is not None:
        cls = derive(cls)
    settings = manifest.settings(slot, choice.impl, cls.settings_class)
    adapter = _construct(cls, slot, choice.impl, settings)
    if isinstance(adapter, Outbox):
        adapter.tells = manifest.announces
    accepts = next((r for name, r in manifest.federation.accepts.items() if name == slot), contract.accepts)
    check_version(slot, adapter.contract_version, accepts, who=f"adapter {choice.impl!r}")
    return Slot(
        choice=choice,
        adapter=dispatched(contract, adapter, deadline_seconds=manifest.policy.deadline_seconds),
        accepts=accepts,
        connect_timeout_seconds=settings.connect_timeout_seconds or manifest.policy.connect_timeout_seconds,
    )


async def connect(slot: Slot) -> None:
    """
    Connect within the deadline; a slot that fails becomes off, with the reason kept. Does not raise for a failure,
    except ContractMismatch: two that do not understand each other will not after a while either.

    What a failed or cancelled connect has opened is closed again.
    """
    adapter = slot.adapter.adapter
    try:
        async with asyncio.timeout(slot.connect_timeout_seconds):
            await adapter.connect()
        # Only now does an adapter of a host know what the host speaks.
        check_version(slot.name, adapter.contract_version, slot.accepts, who=_who(adapter))
        if uneven := skew(slot.name, adapter.contract_version):
            reason = f"{_who(adapter)} {uneven}"
            fields = {"slot": slot.name, "impl": slot.choice.impl, "reason": reason}
            log.warning("contract skew: %s: %s", slot.name, reason, extra=fields)
    except ContractMismatch:
        await _close(adapter)
        raise
    except TimeoutError:
        degrade(slot, f"{slot.choice.impl} did not connect within {slot.connect_timeout_seconds:g} s")
    except Exception as error:
        reason = error.message if isinstance(error, AgentboxError) else f"{type(error).__name__}: {error}"
        degrade(slot, f"{slot.choice.impl} did not connect: {reason}")
    except BaseException:
        await _close(adapter)
        raise
    else:
        return
    await _close(adapter)


def _who(adapter: BaseAdapter) -> str:
    return f"adapter {adapter.impl!r}" + (f" at {adapter.location}" if adapter.location else "")


def degrade(slot: Slot, reason: str) -> None:
    """Put the off adapter behind *slot* and keep *reason*."""
    slot.failure = reason
    stand_in = _construct(plugins.adapter_class(slot.name, "off"), slot.name, "off", Settings())
    stand_in.reason, stand_in.has_failed = reason, True  # type: ignore[attr-defined]
    slot.adapter.swap(stand_in)
    fields = {"slot": slot.name, "impl": slot.choice.impl, "reason": reason}
    log.error("slot degraded: %s: %s", slot.name, reason, extra=fields)


async def revive(manifest: Manifest, slot: Slot) -> bool:
    """Try once more to connect what the manifest chose for *slot*, and put it in place. Whether it is there now."""
    fresh = build(manifest, slot.name)
    await connect(fresh)
    if fresh.failure:
        slot.failure = fresh.failure
        return False
    slot.adapter.swap(fresh.adapter.adapter)
    slot.failure = ""
    return True


async def probe(slot: Slot) -> Probe:
    """What can be said of *slot* now. A probe that fails or hangs is a degraded slot, never an error."""
    if slot.failure:
        health = Health("degraded", slot.failure)
    else:
        health = await slot.adapter.health()
    metrics.HEALTH.labels(slot.name, slot.choice.impl).set(_GAUGE[health.state])
    return Probe(slot=slot.name, state=health.state, reason=health.reason, checked_at=datetime.now(UTC))


async def _close(adapter: BaseAdapter) -> None:
    try:
        await adapter.disconnect()
    except Exception:
        log.exception("disconnect failed", extra={"slot": adapter.slot, "impl": adapter.impl})


def _construct(cls: type[BaseAdapter], slot: str, impl: str, settings: Settings) -> BaseAdapter:
    return cls(slot=slot, impl=impl, config=settings, logger=logging.getLogger(f"agentbox.adapters.{slot}.{impl}"))
