"""
Agents that behave as badly as agents do, and a process that starts them and is killed.

    python hostile.py <manifest>

Each line on standard input forks an embedding process, which opens the app, starts all of `KINDS` and more at once, and
says `pid <pid>`, then `spawned <id>` for each that was answered. When it is dead, its parent says `gone`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Collection
from pathlib import Path

import attrs

from agentbox.adapters.orchestrator import _proc
from agentbox.app import open_app
from agentbox_contracts.orchestrator import AgentSpec

__all__ = ["AGENTS", "KINDS", "Kind", "family", "kind_of"]

AGENTS = 20
FLOOD = 1_000_000


@attrs.frozen
class Kind:
    """One way to be hostile: a script; how it exits and what it says by then, if it ends by itself."""

    script: str
    exit: int | str | None = None
    output: bytes = b""
    stdin: bool = False


KINDS = {
    "instant": Kind("echo bye; exit 7", 7, b"bye\n"),
    "crashed": Kind("echo dying; kill -KILL $$", "SIGKILL", b"dying\n"),
    "binary": Kind(r"printf '\377\000\n no newline'", 0, b"\xff\0\n no newline"),
    "flood": Kind(f"head -c {FLOOD} /dev/zero | tr '\\0' x; exit 5", 5, b"x" * FLOOD),
    "litterer": Kind("(setsid sleep 600 &); echo left; exit 3", 3, b"left\n"),
    "setsid": Kind("setsid sleep 600 & echo up; wait"),
    "daemon": Kind("(setsid sh -c 'sleep 600 & sleep 600' &); echo up; exec sleep 600"),
    "deaf": Kind("trap '' TERM HUP INT; echo up; while :; do sleep 600; done"),
    "mute": Kind("echo up; exec >&- 2>&-; sleep 600"),
    "storm": Kind("echo up; while :; do (setsid sleep 600 &); sleep 0.02; done"),
    "tree": Kind("echo up; for a in 1 2 3; do (sleep 600 & sleep 600 & wait) & done; wait"),
    "bare": Kind("env -i setsid sleep 600 & echo up; wait"),
    "stopped": Kind("echo up; kill -STOP $$; sleep 600"),
    "reader": Kind("echo up; exec cat", stdin=True),
}
"""By name. Those that do not exit by themselves say `up` and stay until they are ended."""


def kind_of(name: str | None) -> Kind:
    """The kind of the agent *name*, which `spec` has given."""
    return KINDS[(name or "").rpartition("-")[2]]


def spec(label: str, number: int) -> AgentSpec:
    """The spec of agent *number* of a round."""
    name, kind = list(KINDS.items())[number % len(KINDS)]
    return AgentSpec(
        command="/bin/sh", args=("-c", kind.script), name=f"{label}-{name}", stdin="pipe" if kind.stdin else "null"
    )


def family(folder: Path, ids: Collection[str]) -> dict[int, int]:
    """Every process of the agents *ids* in *folder*, with its start: by the marker, and what descends from one."""
    markers = {f"AGENTBOX_AGENT_HOME={folder.resolve()}/{agent_id}".encode() for agent_id in ids}
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and markers & set(Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")):
                found.add(int(entry))
    for pid in list(found):
        found.update(_proc.walk(pid))
    return {pid: seen.ticks for pid in found if (seen := _proc.stat(pid)) is not None and seen.state not in "ZX"}


async def _embed(manifest: str, label: str) -> None:
    async with open_app(Path(manifest)) as app:

        async def spawn(number: int) -> None:
            agent = await app.adapters.orchestrator.spawn(spec(label, number))
            os.write(1, f"spawned {agent.id}\n".encode())

        await asyncio.gather(*map(spawn, range(AGENTS)))
        await asyncio.Event().wait()


def main(manifest: str) -> None:
    """Fork an embedding process for each line."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            asyncio.run(_embed(manifest, line.strip()))
        os.waitpid(pid, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main(sys.argv[1])
