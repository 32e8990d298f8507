"""The promises of a slot that is off: it says so, whatever it is asked, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import attrs
import msgspec
import pytest

from agentbox_contracts import contract_of
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AdapterDisabled
from agentbox_contracts.suites.clauses import clause
from agentbox_contracts.suites.lifecycle import Suite
from agentbox_contracts.suites.opening import OpenAdapter

__all__ = ["OffSuite"]

TEXT = "text/x"
EXAMPLES: dict[Any, Any] = {str: TEXT, bytes: b"x", int: 1, float: 1.0, bool: True, Any: None}


class OffSuite(Suite):
    """For any slot. An author names the slot, and writes `manifest` where the adapter is not called `off`."""

    @pytest.fixture
    def manifest(self) -> str:
        """Manifest text that switches the slot off."""
        return f'[adapters]\n{self.slot} = "off"\n[federation]\nmode = "standalone"\n'

    @clause("off.words.disabled")
    async def test_it_is_not_enabled(self, adapter: Any) -> None:
        """A slot that is off is not enabled."""
        assert adapter.enabled is False

    @clause("off.words.durability")
    async def test_its_durability_is_none(self, adapter: Any) -> None:
        """The durability of a slot that is off is `none`."""
        assert adapter.durability == "none"

    @clause("off.words.capabilities")
    async def test_it_can_do_nothing(self, adapter: Any) -> None:
        """A slot that is off declares no capability."""
        assert adapter.capabilities == frozenset()

    @clause("off.health.off")
    async def test_its_health_is_off(self, adapter: Any) -> None:
        """The health of a slot that is off is `off`."""
        assert (await adapter.health()).state == "off"

    @clause("off.health.reason")
    async def test_it_says_why(self, adapter: Any) -> None:
        """A slot that is off says why."""
        assert (await adapter.health()).reason

    @clause("off.calls.refused")
    async def test_every_call_is_refused(self, adapter: Any) -> None:
        """Every call and every stream is refused, save that an event gets a receipt which promises nothing."""
        for method in contract_of(self.slot).methods.values():
            if (self.slot, method.name) == ("events", "dispatch"):
                assert await _receipt(adapter, method) == "none"
                continue
            with pytest.raises(AdapterDisabled):
                await _called(adapter, method)

    @clause("off.calls.named")
    async def test_a_refusal_names_the_slot(self, adapter: Any) -> None:
        """A refusal names the slot that is off."""
        for method in contract_of(self.slot).methods.values():
            if (self.slot, method.name) != ("events", "dispatch"):
                with pytest.raises(AdapterDisabled, match=self.slot):
                    await _called(adapter, method)

    @clause("off.connect.harmless")
    async def test_connecting_does_nothing(self, adapter: Any) -> None:
        """Connecting and disconnecting, however often, does nothing."""
        for step in (adapter.connect, adapter.connect, adapter.disconnect, adapter.disconnect, adapter.connect):
            try:
                await step()
            except Exception as error:
                pytest.fail(f"{step.__name__} raised {error!r}")
            assert (await adapter.health()).state == "off"

    @clause("off.state.untouched")
    async def test_nothing_is_written(
        self, open_adapter: OpenAdapter, manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is written, neither to the state folder nor where the process works."""
        monkeypatch.chdir(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        async with open_adapter(manifest) as adapter:
            await adapter.health()
            for method in contract_of(self.slot).methods.values():
                await _attempted(adapter, method)

        assert sorted(tmp_path.rglob("*")) == before


async def _called(adapter: Any, method: Method) -> Any:
    """The answer to a call with arguments that the contract allows; the first item of a stream."""
    call = getattr(adapter, method.name)(**dict(_arguments(method)))
    if not method.stream:
        return await call
    async with aclosing(call) as items:
        return await anext(items, None)


async def _attempted(adapter: Any, method: Method) -> None:
    try:
        await _called(adapter, method)
    except AdapterDisabled:
        return


async def _receipt(adapter: Any, method: Method) -> str:
    """The durability that a receipt promises."""
    try:
        return str((await _called(adapter, method)).durability)
    except AdapterDisabled as error:
        return f"refused: {error.message}"


def _arguments(method: Method) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(method.arguments, include_extras=True)
    for field in msgspec.structs.fields(method.arguments):
        if field.required:
            yield field.name, _example(hints[field.name])


def _example(kind: Any) -> Any:
    """A value of *kind* that the contract allows."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _example(get_args(kind)[0])
    if origin in (list, tuple, dict):
        return origin()
    if attrs.has(kind):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{f.name: _example(hints[f.name]) for f in attrs.fields(kind) if f.default is attrs.NOTHING})
    return EXAMPLES[kind]
