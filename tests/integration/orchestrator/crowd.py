"""
An application that runs agents by the thousand beside children of its own, and tells what it held before and after.

    python crowd.py <manifest> <count>

It prints a JSON object: `before` and `after` (descriptors, threads, tasks, resident KiB; the keeper's too), `wrong`
(how many agents did not do as told) and `children` (how its own ended).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from agentbox.adapters.orchestrator import _proc
from agentbox.app import open_app
from agentbox_contracts.orchestrator import AgentSpec, Orchestrator

AT_ONCE = 20
WARM_UP = 100
OWN = ("exit 7", "kill -TERM $$", "exec sleep 600")


async def end_by_itself(agents: Orchestrator, number: int) -> bool:
    """Whether an agent that says its number does so and ends."""
    agent = await agents.spawn(AgentSpec(command="/bin/echo", args=(str(number),)))
    events = [event async for event in agents.stream(agent.id)]
    said = b"".join(event.data for event in events)
    return (said, events[-1].exit_code) == (f"{number}\n".encode(), 0)


async def end_by_input(agents: Orchestrator, number: int) -> bool:
    """Whether an agent that repeats what it hears does so and ends with its input."""
    agent = await agents.spawn(AgentSpec(command="cat", stdin="pipe"))
    await agents.send(agent.id, f"{number}\n".encode(), end=True)
    events = [event async for event in agents.stream(agent.id)]
    return b"".join(event.data for event in events) == f"{number}\n".encode()


async def end_by_force(agents: Orchestrator, _: int) -> bool:
    """Whether an agent with children is ended, and its stream too."""
    agent = await agents.spawn(AgentSpec(command="/bin/sh", args=("-c", "setsid sleep 600 & sleep 600")))
    reading = asyncio.ensure_future(_last_of(agents, agent.id))
    ended = await agents.terminate(agent.id, grace_seconds=5)
    return (ended.status, await reading) == ("exited", ended.signal)


async def _last_of(agents: Orchestrator, agent_id: str) -> str | None:
    return [event async for event in agents.stream(agent_id)][-1].signal


async def crowd(agents: Orchestrator, count: int) -> int:
    """Run *count* agents, some at a time; how many did not do as told."""
    turns = asyncio.Semaphore(AT_ONCE)
    ways = (end_by_itself, end_by_input, end_by_force)

    async def one(number: int) -> bool:
        async with turns:
            return await ways[number % len(ways)](agents, number)

    return (await asyncio.gather(*map(one, range(count)))).count(False)


async def held(keeper: int) -> dict[str, int]:
    """What this process and the keeper hold now, once the keeper has buried its last supervisor."""
    async with asyncio.timeout(60):
        while list(_proc.walk(keeper)):
            await asyncio.sleep(0.01)
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "resident": _resident(os.getpid()),
        "keeper_descriptors": len(os.listdir(f"/proc/{keeper}/fd")),
        "keeper_resident": _resident(keeper),
    }


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def main(manifest: Path, count: int) -> None:
    """Warm up, look, run them, look again; then wait for the children of its own."""
    own = [subprocess.Popen(["/bin/sh", "-c", script]) for script in OWN]
    async with open_app(manifest) as app:
        agents = app.adapters.orchestrator
        await crowd(agents, WARM_UP)
        keeper = json.loads((manifest.parent / "agents/keeper.json").read_text())["pid"]
        before = await held(keeper)
        wrong = await crowd(agents, count)
        after = await held(keeper)
    own[-1].kill()
    children = [os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) for child in own]
    print(json.dumps({"before": before, "after": after, "wrong": wrong, "children": children}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
