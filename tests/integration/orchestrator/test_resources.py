"""What an agent costs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import AgentSpec


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


async def test_a_supervisor_is_small(manager: LocalProcessManager, folder: Path) -> None:
    agents = [await manager.spawn(AgentSpec(command="sleep", args=("600",))) for _ in range(5)]
    texts = [(folder / agent.id / "started.json").read_text() for agent in agents]
    sizes = sorted(private_kib(json.loads(text)["supervisor_pid"]) for text in texts)
    print(f"\nprivate memory of a supervisor: {sizes[2]} KiB")
    assert sizes[2] < 1792
    await asyncio.gather(*(manager.terminate(agent.id, grace_seconds=0) for agent in agents))
