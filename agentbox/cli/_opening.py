"""Open what a command needs: the whole app, or one slot alone."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from agentbox import manifest as manifests
from agentbox import resolver
from agentbox.app import App, open_app, prepare_state
from agentbox.dispatch import Dispatched
from agentbox.manifest import Manifest
from agentbox_contracts.errors import AdapterDisabled, AdapterUnavailable

__all__ = ["opened_app", "opened_slot", "passing"]


@asynccontextmanager
async def opened_app(arguments: argparse.Namespace) -> AsyncIterator[App]:
    """The app of the manifest, for a moment: it leaves the metrics port, and saying what happens, to whoever stays."""
    async with open_app(passing(manifests.load(arguments.manifest))) as app:
        yield app


def passing(manifest: Manifest) -> Manifest:
    """*manifest* for whoever stays only for a moment."""
    quiet = attrs.evolve(manifest.observability, metrics_port=None)
    silent = attrs.evolve(manifest.policy, announce=False)
    return attrs.evolve(manifest, observability=quiet, policy=silent)


@asynccontextmanager
async def opened_slot(
    manifest: Manifest, name: str, *, check: Callable[[resolver.Slot], None] = lambda _: None
) -> AsyncIterator[Dispatched]:
    """
    One slot of *manifest*, connected unless *check* raises; the others are not touched.

    Raises:
        AdapterUnavailable: It does not connect.
        AdapterDisabled: The manifest switches it off.
    """
    slot = resolver.build(manifest, name)
    if not slot.adapter.enabled:
        usual = manifests.STANDALONE[name]
        raise AdapterDisabled(f'{name} is switched off in the manifest; set [adapters] {name} = "{usual}"', slot=name)
    check(slot)
    prepare_state(manifest.state)
    try:
        await resolver.connect(slot)
        if slot.failure:
            raise AdapterUnavailable(f"{name}: {slot.failure}; 'agentbox status' shows every slot", slot=name)
        yield slot.adapter
    finally:
        await slot.adapter.disconnect()
