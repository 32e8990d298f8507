"""What is asked of the keeper for a spec: the record, and the start."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import attrs

from agentbox.adapters.orchestrator._environment import environment
from agentbox.adapters.orchestrator._records import Record
from agentbox_contracts.context import execution_id, fitting, session_id
from agentbox_contracts.errors import SpawnError
from agentbox_contracts.orchestrator import AgentSpec, Limits, SandboxName

__all__ = ["completed", "draft", "start_request"]

ARGUMENTS_BOUND = 8 * 1024 * 1024


def completed(spec: AgentSpec, limits: Limits, sandbox: SandboxName, sandbox_network: bool) -> AgentSpec:
    """*spec* with the settings' own where it says nothing."""
    own = {name: value for name, value in attrs.asdict(spec.limits).items() if value is not None}
    return attrs.evolve(
        spec,
        limits=attrs.evolve(limits, **own),
        sandbox=spec.sandbox or sandbox,
        sandbox_network=sandbox_network if spec.sandbox_network is None else spec.sandbox_network,
    )


def draft(spec: AgentSpec) -> Record:
    """The record of *spec*, before it has an id. Raises SpawnError for what no kernel would start."""
    size = sum(len(text) for text in (spec.command, *spec.args, *spec.env, *spec.env.values()))
    if size > ARGUMENTS_BOUND:
        raise SpawnError(f"{spec.command}: {size:,} characters of arguments and environment are more than fit")
    try:
        cwd = str(Path(spec.cwd or "").absolute())
    except FileNotFoundError:
        raise SpawnError(f"{spec.command}: no cwd was given, and this process's own does not exist") from None
    return Record(
        id="",
        command=spec.command,
        args=spec.args,
        cwd=cwd,
        name=spec.name,
        bead_id=spec.bead_id,
        session_id=fitting(session_id.get()),
        execution_id=fitting(execution_id.get()),
        stdin=spec.stdin,
        env_names=tuple(sorted(spec.env)),
        created_at=time.time(),
    )


def start_request(record: Record, home: str, spec: AgentSpec, ticket: int | None) -> dict[str, Any]:
    """How the keeper is asked to start *record*, by whoever holds *ticket*."""
    limits = {name: value for name, value in attrs.asdict(spec.limits).items() if value is not None}
    return {
        "op": "start",
        "id": record.id,
        "argv": [spec.command, *spec.args],
        "env": environment(record, home, spec.env),
        "cwd": record.cwd,
        "stdin": spec.stdin,
        "limits": limits,
        "sandbox": spec.sandbox,
        "sandbox_network": spec.sandbox_network,
        "keeps_tmpdir": "TMPDIR" in spec.env,
        "ticket": ticket,
    }
