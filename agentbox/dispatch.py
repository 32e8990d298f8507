"""
The wrapped call: what every port method goes through, and what no adapter knows of.

Outside in: observe (span, metrics, log line) → guard (only contract errors leave) → deadline → privacy → adapter.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import update_wrapper
from time import perf_counter
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, StatusCode, set_span_in_context

from agentbox import metrics
from agentbox.context import execution_id, session_id
from agentbox_contracts.contract import BaseAdapter, Contract, Durability, Health
from agentbox_contracts.errors import AdapterFailed, AdapterTimeout, AgentboxError
from agentbox_contracts.wire import argument_checker

__all__ = ["Dispatched", "Redactor", "dispatched", "wrap_dispatch"]

Checker = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]

HEALTH_SECONDS = 5.0

log = logging.getLogger("agentbox.dispatch")
log.addHandler(logging.NullHandler())
tracer = trace.get_tracer("agentbox")


class Redactor(Protocol):
    """What may rewrite arguments before an adapter sees them."""

    def __call__(self, slot: str, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments to use instead."""


class _Line:
    """One method's way to its adapter. Its fields change when the adapter is swapped; the wrapper around it stays."""

    __slots__ = (
        "attributes",
        "call",
        "deadline",
        "impl",
        "items",
        "method",
        "outcomes",
        "pid",
        "redact",
        "seconds",
        "slot",
        "span",
    )

    def __init__(self, slot: str, method: str) -> None:
        self.slot = slot
        self.method = method
        self.span = f"agentbox.adapter.{slot}.{method}"
        self.redact: Redactor | None = None

    def lead_to(self, call: Callable[..., Any], *, impl: str, deadline: float | None) -> None:
        """Send calls to *call* from now on."""
        self.call = call
        self.impl = impl
        self.deadline = deadline
        self.pid = os.getpid()
        self.attributes = {"adapter.impl": impl}
        self.outcomes = metrics.Outcomes(self.slot, self.method, impl)
        self.seconds = metrics.SECONDS.labels(self.slot, self.method, impl).observe
        self.items = metrics.ITEMS.labels(self.slot, self.method, impl)

    def start_span(self) -> Span:
        attributes = self.attributes
        session, execution = session_id.get(), execution_id.get()
        if session is not None or execution is not None:
            attributes = attributes | {"agentbox.session_id": session or "", "agentbox.execution_id": execution or ""}
        return tracer.start_span(self.span, attributes=attributes)

    def refuse_fork(self) -> None:
        if os.getpid() != self.pid:
            raise AdapterFailed(
                f"{self.slot} was opened by process {self.pid}, not by this one; open the app anew after a fork"
            )

    def observe(self, span: Span, started: float, outcome: str) -> None:
        """Tell span, metrics and log how it went, the same for calls and streams."""
        seconds = perf_counter() - started
        self.outcomes[outcome].inc()
        self.seconds(seconds)
        failed = outcome != "ok"
        if failed:
            span.set_attribute("error.kind", outcome)
            span.set_status(StatusCode.ERROR)
        span.end()
        level = logging.ERROR if failed else logging.INFO
        if log.isEnabledFor(level):
            fields = {
                "slot": self.slot,
                "method": self.method,
                "impl": self.impl,
                "duration_ms": round(seconds * 1000, 3),
                "session_id": session_id.get(),
                "execution_id": execution_id.get(),
                "outcome": outcome,
            }
            log.log(level, "adapter dispatch", extra=fields)

    def translated(self, error: Exception) -> AgentboxError:
        """*error* as one of the contract, with the call named."""
        if not isinstance(error, AgentboxError):
            cause, text = error, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            error = AdapterFailed(f"{self.slot}.{self.method} failed: {text}")
            error.__cause__ = cause
        error.slot = error.slot or self.slot
        error.method = error.method or self.method
        error.impl = error.impl or self.impl
        return error

    def late(self) -> AgentboxError:
        return self.translated(AdapterTimeout(f"{self.slot}.{self.method} did not answer within {self.deadline:g} s"))


def wrap_dispatch(
    slot: str,
    method: str,
    fn: Callable[..., Any],
    *,
    impl: str = "",
    deadline_seconds: float | None = 30.0,
    check: Checker | None = None,
) -> Callable[..., Any]:
    """
    *fn* with everything that dispatch does around it: a coroutine function or an async generator function, like *fn*.

    Without *check* the arguments pass as they are.
    """
    line = _Line(slot, method)
    line.lead_to(fn, impl=impl, deadline=deadline_seconds)
    wrapper = _stream(line, check) if inspect.isasyncgenfunction(fn) else _call(line, check)
    return update_wrapper(wrapper, fn)


def _call(line: _Line, check: Checker | None) -> Callable[..., Awaitable[Any]]:
    getpid, timeout = os.getpid, asyncio.timeout

    async def call(*args: Any, **kwargs: Any) -> Any:
        started = perf_counter()
        outcome = "cancelled"
        span = line.start_span()
        # A span without an identity has nothing to hand down, and making one current is the dearest step of all.
        token = attach(set_span_in_context(span)) if span.get_span_context().is_valid else None
        scope = timeout(line.deadline)
        try:
            if getpid() != line.pid:
                line.refuse_fork()
            if check is not None:
                kwargs, args = check(args, kwargs), ()
            if line.redact is not None:
                kwargs = line.redact(line.slot, line.method, kwargs)
            async with scope:
                result = await line.call(*args, **kwargs)
            outcome = "ok"
            return result
        except TimeoutError as error:
            failure = line.late() if scope.expired() else line.translated(error)
            outcome = failure.code
            raise failure from error
        except Exception as error:
            failure = line.translated(error)
            outcome = failure.code
            if failure is error:
                raise
            raise failure from error
        finally:
            if token is not None:
                detach(token)
            line.observe(span, started, outcome)

    return call


def _stream(line: _Line, check: Checker | None) -> Callable[..., AsyncIterator[Any]]:
    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        started = perf_counter()
        outcome = "cancelled"
        # Never made current: the consumer's own code runs between two items, in whatever context it likes.
        span = line.start_span()
        try:
            line.refuse_fork()
            if check is not None:
                kwargs, args = check(args, kwargs), ()
            if line.redact is not None:
                kwargs = line.redact(line.slot, line.method, kwargs)
            async with aclosing(line.call(*args, **kwargs)) as items:
                with metrics.tallied(line.items) as tally:
                    async for item in items:
                        tally.count += 1
                        yield item
            outcome = "ok"
        except GeneratorExit:
            outcome = "ok"
            raise
        except Exception as error:
            failure = line.translated(error)
            outcome = failure.code
            if failure is error:
                raise
            raise failure from error
        finally:
            line.observe(span, started, outcome)

    return stream


class Dispatched:
    """
    An adapter as applications see it: the port's methods wrapped, the rest passed through.

    `swap` puts another adapter behind the same object, so that whoever holds it goes on with a recovered slot.
    """

    adapter: BaseAdapter

    def __init__(self, contract: Contract, adapter: BaseAdapter, *, deadline_seconds: float | None = 30.0) -> None:
        self._deadline_seconds = deadline_seconds
        self._lines = {name: _Line(contract.slot, name) for name in contract.methods}
        self.swap(adapter)
        for name, method in contract.methods.items():
            wrap = _stream if method.stream else _call
            wrapper = wrap(self._lines[name], argument_checker(method))
            setattr(self, name, update_wrapper(wrapper, method.function))

    def swap(self, adapter: BaseAdapter) -> None:
        """Send every call to *adapter* from now on; calls under way end where they began."""
        self.adapter = adapter
        deadline = adapter.config.deadline_seconds or self._deadline_seconds
        for name, line in self._lines.items():
            line.lead_to(getattr(adapter, name), impl=adapter.impl, deadline=deadline)

    def redact_with(self, redactor: Redactor | None) -> None:
        """Let *redactor* rewrite the arguments of every call; None for none."""
        for line in self._lines.values():
            line.redact = redactor

    @property
    def slot(self) -> str:
        return self.adapter.slot

    @property
    def impl(self) -> str:
        return self.adapter.impl

    @property
    def enabled(self) -> bool:
        return self.adapter.enabled

    @property
    def contract_version(self) -> str:
        return self.adapter.contract_version

    @property
    def capabilities(self) -> frozenset[str]:
        return self.adapter.capabilities

    @property
    def durability(self) -> Durability:
        return self.adapter.durability

    @property
    def location(self) -> str | None:
        return self.adapter.location

    @property
    def advice(self) -> str:
        return self.adapter.advice

    @property
    def limits(self) -> Mapping[str, float]:
        return self.adapter.limits

    async def connect(self) -> None:
        await self.adapter.connect()

    async def disconnect(self) -> None:
        await self.adapter.disconnect()

    async def health(self) -> Health:
        """What the adapter says of itself; degraded when it does not say so in time."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                return await self.adapter.health()
        except TimeoutError:
            return Health("degraded", f"{self.impl} did not answer within {HEALTH_SECONDS:g} s")
        except Exception as error:
            return Health("degraded", f"{self.impl}: {type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"<{self.slot} by {self.impl}>"


def dispatched(contract: Contract, adapter: BaseAdapter, *, deadline_seconds: float | None = 30.0) -> Dispatched:
    """*adapter* with every method of its port wrapped."""
    return Dispatched(contract, adapter, deadline_seconds=deadline_seconds)
