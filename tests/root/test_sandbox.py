"""Agents in bubblewrap: what they can reach, what they cannot, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator import _proc
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager, Settings
from agentbox_contracts.errors import SpawnError
from agentbox_contracts.orchestrator import AgentSpec, Limits, SandboxName

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    assert shutil.which("bwrap"), "the root lane needs bubblewrap; `make test-root` installs it"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "a workspace"
    folder.mkdir()
    return folder


async def opened(path: Path, sandbox: SandboxName = "bubblewrap") -> LocalProcessManager:
    config = Settings(path=path, keeper_idle_seconds=0.3, sandbox=sandbox)
    manager = LocalProcessManager(
        slot="orchestrator", impl="local-process-manager", config=config, logger=logging.getLogger("test")
    )
    await manager.connect()
    return manager


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[LocalProcessManager]:
    manager = await opened(tmp_path / "agents")
    yield manager
    for agent in (await manager.list_agents(status="running")).items:
        await manager.terminate(agent.id, grace_seconds=0)
    await manager.disconnect()


def shell(text: str, cwd: Path, *args: str, **fields: object) -> AgentSpec:
    return AgentSpec(command="/bin/sh", args=("-c", text, "sh", *args), cwd=str(cwd), **fields)  # type: ignore[arg-type]


async def output(manager: LocalProcessManager, spec: AgentSpec) -> tuple[str, int | None]:
    agent = await manager.spawn(spec)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    return "".join(event.text for event in events if event.type in ("stdout", "stderr")), events[-1].exit_code


async def test_the_workspace_can_be_written_and_the_system_only_read(
    manager: LocalProcessManager, workspace: Path, tmp_path: Path
) -> None:
    elsewhere = Path.home() / f".agentbox-sandbox-{os.getpid()}"
    text = (
        'echo mine > file; touch "$1" /etc/x /usr/x 2>&1 | grep -c "Read-only"; pwd -P; head -c 4 /etc/passwd; exit 3'
    )
    said, code = await output(manager, shell(text, workspace, str(elsewhere)))
    assert said.splitlines() == ["3", str(workspace), "root"]
    assert code == 3
    assert (workspace / "file").read_text() == "mine\n"
    assert not elsewhere.exists()


async def test_tmp_and_proc_are_its_own(manager: LocalProcessManager, workspace: Path, tmp_path: Path) -> None:
    text = 'touch /tmp/own && ls -A /tmp; echo $TMPDIR; ls /proc | grep -c "^[0-9]"; cat /proc/1/comm; ls "$1" 2>&1'
    said, _ = await output(manager, shell(text, workspace, str(tmp_path / "agents")))
    first, *rest = said.splitlines()
    assert {first, rest[0]} == {"own", tmp_path.relative_to("/tmp").parts[0]}
    assert rest[1] == "/tmp"
    assert int(rest[2]) < 8
    assert rest[3] == "bwrap"
    assert rest[4:] in ([], [f"ls: cannot access '{tmp_path / 'agents'}': No such file or directory"])
    assert not Path("/tmp/own").exists()


async def test_the_network_is_reached_only_if_allowed(manager: LocalProcessManager, workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = "import socket, sys\nsocket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)\nprint('reached')"
        python = "/usr/bin/python3"
        spec = AgentSpec(command=python, args=("-S", "-c", text, str(port)), cwd=str(workspace))
        refused, code = await output(manager, spec)
        assert "reached" not in refused
        assert code == 1
        allowed = AgentSpec(
            command=python, args=("-S", "-c", text, str(port)), cwd=str(workspace), sandbox_network=True
        )
        assert await output(manager, allowed) == ("reached\n", 0)


async def test_agents_and_keeper_are_out_of_its_reach_also_in_its_workspace(workspace: Path) -> None:
    manager = await opened(workspace / ".agentbox" / "agents")
    (workspace / ".agentbox" / "host.token").write_text("secret")
    try:
        said, _ = await output(manager, shell("ls -A .agentbox/agents; cat .agentbox/host.token; echo end", workspace))
        assert "end" in said.splitlines()
        assert "secret" not in said
        assert "ag-" not in said
    finally:
        await manager.disconnect()


REACH = """
import json, os, socket, sys
for path in sys.argv[1:]:
    line = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(path))  # a path may have 107 bytes only
    line.connect(os.path.basename(path))
    line.sendall(json.dumps({"n": 1, "op": "terminate", "grace_seconds": 0}).encode() + b"\\n")
    print(json.loads(line.recv(65536))["message"])
"""


async def test_agents_and_keeper_of_another_folder_do_not_listen_to_it(
    manager: LocalProcessManager, workspace: Path
) -> None:
    other = await opened(workspace / "other", sandbox="none")
    try:
        sleeper = await other.spawn(AgentSpec(command="sleep", args=("600",)))
        sockets = [str(path) for path in sorted((workspace / "other").rglob("*.sock"))]
        assert len(sockets) == 2
        program = AgentSpec(command="/usr/bin/python3", args=("-S", "-c", REACH, *sockets), cwd=str(workspace))
        said, code = await output(manager, program)
        assert (said.count("listens to nobody in a sandbox"), code) == (2, 0), said
        assert (await other.status(sleeper.id)).is_alive
        assert not (await other.terminate(sleeper.id, grace_seconds=0)).is_alive
    finally:
        await other.disconnect()


async def test_input_environment_and_exit_are_as_without(manager: LocalProcessManager, workspace: Path) -> None:
    spec = shell('read line; echo "$line $GIVEN $AGENTBOX_BEAD_ID"; ls /proc/self/fd | wc -l; exit 9', workspace)
    agent = await manager.spawn(
        AgentSpec(
            command=spec.command,
            args=spec.args,
            cwd=spec.cwd,
            stdin="pipe",
            env={"GIVEN": "given"},
            bead_id="bd-1",
        )
    )
    await manager.send(agent.id, b"sent\n", end=True)
    async with asyncio.timeout(30):
        events = [event async for event in manager.stream(agent.id)]
    assert [event.text for event in events if event.type == "stdout"] == ["sent given bd-1\n", "4\n"]
    assert events[-1].exit_code == 9


async def test_terminate_gives_grace_and_leaves_nothing(manager: LocalProcessManager, workspace: Path) -> None:
    text = "trap 'echo bye; exit 7' TERM; setsid sleep 600 & (sleep 600 &) ; echo up; while :; do sleep 0.01; done"
    agent = await manager.spawn(shell(text, workspace))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        while (await anext(events)).data != b"up\n":
            continue
        inside = _family(agent.pid)
        assert len(inside) >= 4
        ended = await manager.terminate(agent.id, grace_seconds=20)
        rest = [event.data async for event in events if event.type == "stdout"]
    assert (ended.status, ended.exit_code, rest) == ("exited", 7, [b"bye\n"])
    assert [pid for pid, ticks in inside.items() if _proc.is_alive(pid, ticks)] == []


async def test_the_deaf_are_killed(manager: LocalProcessManager, workspace: Path) -> None:
    text = "trap '' TERM; setsid sleep 600 & echo up; while :; do sleep 0.01; done"
    agent = await manager.spawn(shell(text, workspace))
    async with asyncio.timeout(30), aclosing(manager.stream(agent.id)) as events:
        while (await anext(events)).data != b"up\n":
            continue
    inside = _family(agent.pid)
    async with asyncio.timeout(30):
        assert (await manager.terminate(agent.id, grace_seconds=0.1)).status == "exited"
    assert [pid for pid, ticks in inside.items() if _proc.is_alive(pid, ticks)] == []


async def test_a_killed_supervisor_leaves_nothing_inside(
    manager: LocalProcessManager, workspace: Path, tmp_path: Path
) -> None:
    agent = await manager.spawn(shell("setsid sleep 600 & sleep 600", workspace))
    inside = _family(agent.pid)
    assert agent.pid is not None
    found = _proc.stat(agent.pid)
    assert found is not None
    os.kill(found.parent, signal.SIGKILL)
    async with asyncio.timeout(30):
        while (await manager.status(agent.id)).is_alive:
            await asyncio.sleep(0.01)
    assert "its supervisor" in (await manager.status(agent.id)).reason
    assert [pid for pid, ticks in inside.items() if _proc.is_alive(pid, ticks)] == []


async def test_limits_hold_inside(manager: LocalProcessManager, workspace: Path) -> None:
    text = "for n in 1 2 3 4 5; do sleep 600 & done; wait"
    agent = await manager.spawn(shell(text, workspace, limits=Limits(processes=4)))
    async with asyncio.timeout(30):
        assert [event async for event in manager.stream(agent.id)]
    assert (await manager.status(agent.id)).limit == "processes"
    said, code = await output(manager, shell("sleep 0.2", workspace, limits=Limits(processes=2)))
    assert (said, code) == ("", 0)


async def test_what_is_missing_is_a_spawn_error(manager: LocalProcessManager, workspace: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "tool"
    hidden.symlink_to("/bin/true")
    for spec, message in (
        (AgentSpec(command="no-such-command", cwd=str(workspace)), "was not found"),
        (AgentSpec(command=str(hidden), cwd=str(workspace)), "not there in the sandbox, which has a /tmp of its own"),
        (AgentSpec(command="true", cwd="/no/such"), "cannot be entered"),
        (AgentSpec(command="true", cwd="/"), "cannot be the workspace of a sandbox"),
        (AgentSpec(command="true", cwd="/tmp"), "cannot be the workspace of a sandbox"),
    ):
        with pytest.raises(SpawnError, match=message):
            await manager.spawn(spec)


async def test_without_bubblewrap_it_is_refused(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    manager = await opened(tmp_path / "others", sandbox="none")
    spec = AgentSpec(command="/bin/true", cwd=str(workspace), sandbox="bubblewrap")
    with pytest.raises(SpawnError, match="there is no 'bwrap' on the host's PATH: install it"):
        await manager.spawn(spec)
    await manager.disconnect()


async def test_without_namespaces_it_is_refused(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "bin"
    refusing.mkdir()
    # One that is in a namespace without room for another, as where user namespaces are forbidden.
    program = refusing / "bwrap"
    no_room = 'echo 0 > /proc/sys/user/max_user_namespaces; exec /usr/bin/bwrap --unshare-user "$@"'
    program.write_text(f'#!/bin/sh\nexec unshare -Ur sh -c {shlex.quote(no_room)} sh "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{refusing}:{os.environ['PATH']}")
    manager = await opened(tmp_path / "others", sandbox="none")
    spec = AgentSpec(command="/bin/true", cwd=str(workspace), sandbox="bubblewrap")
    with pytest.raises(SpawnError, match=r"the sandbox cannot be set up: bwrap: "):
        await manager.spawn(spec)
    assert (await manager.list_agents()).items == []
    await manager.disconnect()


def _family(pid: int | None) -> dict[int, int]:
    assert pid is not None
    return {one: found.ticks for one in (pid, *_proc.walk(pid)) if (found := _proc.stat(one)) is not None}
