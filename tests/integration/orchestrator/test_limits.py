"""Limits: over the whole tree of an agent, whoever is there to see it, and told when they end one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import attrs
import pytest

from agentbox.adapters.orchestrator import _files, _limits
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager
from agentbox_contracts.orchestrator import Agent, AgentSpec, Limits

Carriers = Callable[[str], set[int]]
Opener = Callable[..., Awaitable[LocalProcessManager]]
Script = Callable[..., "subprocess.Popen[str]"]

MEGABYTE = 1 << 20
SLEEP = AgentSpec(command="sleep", args=("600",))
SPIN = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
# Each takes 40 MB of its own, and none of them 100.
HOARD = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        break
held = bytearray(os.urandom(40 << 20))
time.sleep(600)
"""
# All see the same 60 MB, which is 300 MB when each is asked alone.
SHARE = """
import os, time
held = bytearray(os.urandom(60 << 20))
for _ in range(4):
    if os.fork() == 0:
        break
time.sleep(1)
"""


def python(text: str, **limits: float) -> AgentSpec:
    return AgentSpec(command=sys.executable, args=("-S", "-c", text), limits=Limits(**limits))  # type: ignore[arg-type]


def shell(text: str, **limits: float) -> AgentSpec:
    return AgentSpec(command="/bin/sh", args=("-c", text), limits=Limits(**limits))  # type: ignore[arg-type]


async def ended(manager: LocalProcessManager, spec: AgentSpec) -> Agent:
    agent = await manager.spawn(spec)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    agent = await manager.status(agent.id)
    assert events[-1].reason == agent.reason
    return agent


@pytest.mark.parametrize(
    ("spec", "limit", "told"),
    [
        (attrs.evolve(SLEEP, limits=Limits(wall_seconds=0.1)), "wall_seconds", "is 0.1, and it came to 0.1"),
        (attrs.evolve(SLEEP, limits=Limits(idle_seconds=0.1)), "idle_seconds", "is 0.1, and it came to 0.1"),
        (
            shell("while :; do head -c 100000 /dev/zero; done", output_bytes=MEGABYTE),
            "output_bytes",
            "is 1,048,576, and it came to ",
        ),
        (python(SPIN, cpu_seconds=0.3), "cpu_seconds", "is 0.3, and it came to "),
        (python(HOARD, memory_bytes=150 * MEGABYTE), "memory_bytes", "is 157,286,400, and it came to "),
        (shell("for n in 1 2 3 4 5; do sleep 600 & done; wait", processes=4), "processes", "it came to 6: 2 too much"),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)
async def test_a_limit_ends_the_whole_tree_and_says_so(
    manager: LocalProcessManager, carriers: Carriers, spec: AgentSpec, limit: str, told: str
) -> None:
    agent = await ended(manager, spec)
    assert (agent.status, agent.limit) == ("exited", limit)
    assert agent.reason.startswith(f"its limit {limit} ")
    assert told in agent.reason
    assert carriers(agent.id) == set()


async def test_what_stays_within_its_limits_is_left_alone(manager: LocalProcessManager) -> None:
    limits = Limits(
        wall_seconds=60,
        idle_seconds=60,
        output_bytes=10,
        memory_bytes=100 * MEGABYTE,
        cpu_seconds=60,
        open_files=64,
        processes=2,
    )
    script = "echo 123456789; sleep 0.3"
    agent = await ended(manager, AgentSpec(command="/bin/sh", args=("-c", script), limits=limits))
    assert (agent.exit_code, agent.limit, agent.reason) == (0, None, "")


async def test_memory_that_is_shared_counts_once(manager: LocalProcessManager) -> None:
    agent = await ended(manager, python(SHARE, memory_bytes=150 * MEGABYTE))
    assert (agent.exit_code, agent.limit) == (0, None)


async def test_output_puts_off_the_idle_limit(manager: LocalProcessManager) -> None:
    agent = await ended(manager, shell("for n in 1 2 3 4 5 6; do sleep 0.1; echo $n; done", idle_seconds=0.4))
    assert (agent.exit_code, agent.limit) == (0, None)


async def test_children_that_nobody_waits_for_are_counted(manager: LocalProcessManager) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end: pass
        os._exit(0)
    time.sleep(0.2)
"""
    assert (await ended(manager, python(script, cpu_seconds=0.5))).limit == "cpu_seconds"


async def test_last_words_are_heard(manager: LocalProcessManager) -> None:
    spec = shell("trap 'echo bye; exit 4' TERM; while :; do sleep 0.01; done", wall_seconds=0.2)
    agent = await manager.spawn(spec)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert [event.data for event in events if event.type == "stdout"] == [b"bye\n"]
    assert (events[-1].exit_code, (await manager.status(agent.id)).limit) == (4, "wall_seconds")


async def test_one_file_more_than_the_limit_cannot_be_opened(manager: LocalProcessManager) -> None:
    script = """
import os, resource
files = []
try:
    while True: files.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(files[-1] + 1, error.strerror)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))
except (ValueError, OSError):
    print("not more")
"""
    agent = await manager.spawn(python(script, open_files=16))
    async with asyncio.timeout(30):
        events = [event.text async for event in manager.stream(agent.id) if event.type == "stdout"]
    assert events == ["16 Too many open files\n", "not more\n"]


async def test_a_limit_holds_while_nobody_is_there(open_manager: Opener, run_script: Script) -> None:
    process = run_script("""
from agentbox_contracts.orchestrator import Limits

async def main():
    manager = await opened()
    agent = await manager.spawn(AgentSpec(command="sleep", args=("600",), limits=Limits(wall_seconds=0.3)))
    print(agent.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
""")
    assert process.stdout is not None
    agent_id = (await asyncio.to_thread(process.stdout.readline)).strip()
    process.kill()
    manager = await open_manager()
    async with asyncio.timeout(30):
        assert [event async for event in manager.stream(agent_id)]
    assert (await manager.status(agent_id)).limit == "wall_seconds"


async def test_a_limit_holds_while_the_keeper_is_dead(
    manager: LocalProcessManager, keeper_pids: Callable[[], list[int]]
) -> None:
    agent = await manager.spawn(attrs.evolve(SLEEP, limits=Limits(wall_seconds=0.3)))
    for pid in keeper_pids():
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert [event async for event in manager.stream(agent.id)]
    assert (await manager.status(agent.id)).limit == "wall_seconds"


async def test_settings_give_the_limits_that_a_spec_leaves_open(open_manager: Opener) -> None:
    manager = await open_manager(limits=Limits(wall_seconds=0.1, idle_seconds=600))
    assert (await ended(manager, SLEEP)).limit == "wall_seconds"
    assert (await ended(manager, shell("sleep 0.3", wall_seconds=600))).limit is None


async def test_what_cannot_be_held_is_refused(manager: LocalProcessManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "read_bytes", lambda path: None)
    assert "the kernel does not tell a process's children" in _limits.why_not({"processes": 3})
    assert _limits.why_not({"wall_seconds": 3}) == ""


async def test_a_bomb_of_forks_is_ended(manager: LocalProcessManager, carriers: Carriers) -> None:
    script = "import os, time\nfor _ in range(9): os.fork()\ntime.sleep(600)"
    agent = await ended(manager, python(script, processes=20))
    assert agent.limit == "processes"
    assert carriers(agent.id) == set()


async def test_a_limit_during_the_grace_ends_it(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(shell("trap '' TERM; echo up; while :; do sleep 0.01; done", wall_seconds=0.5))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        while (await anext(events)).data != b"up\n":
            continue
        answer = await manager.terminate(agent.id, grace_seconds=600)
    assert answer.limit == "wall_seconds"
