"""An agent's life: what it is given, how it ends, and what is known of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentbox.adapters.orchestrator import local_process_manager
from agentbox.adapters.orchestrator._files import read_bytes
from agentbox.adapters.orchestrator.local_process_manager import LocalProcessManager, Settings
from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput, NotFound, SpawnError
from agentbox_contracts.orchestrator import CONTRACT, Agent, AgentEvent, AgentSpec

Opener = Callable[..., Awaitable[LocalProcessManager]]


def shell(script: str, *args: str, **fields: object) -> AgentSpec:
    return AgentSpec(command="/bin/sh", args=("-c", script, "sh", *args), **fields)  # type: ignore[arg-type]


async def finished(manager: LocalProcessManager, agent: Agent) -> list[AgentEvent]:
    async with asyncio.timeout(30):
        return [event async for event in manager.stream(agent.id)]


async def output(manager: LocalProcessManager, spec: AgentSpec) -> str:
    events = await finished(manager, await manager.spawn(spec))
    return "".join(event.text for event in events if event.type == "stdout")


async def test_an_agent_starts_speaks_and_exits(manager: LocalProcessManager) -> None:
    agent = await manager.spawn(shell("echo hello; echo oops >&2; exit 3", name="greeter", bead_id="bd-1"))
    events = await finished(manager, agent)
    assert agent.pid
    assert {(e.type, e.data) for e in events[1:-1]} == {("stdout", b"hello\n"), ("stderr", b"oops\n")}
    assert [events[0].type, events[-1].type, events[-1].exit_code] == ["started", "exited", 3]
    ended = await manager.status(agent.id)
    assert (ended.status, ended.exit_code, ended.signal, ended.reason) == ("exited", 3, None, "")
    assert (ended.name, ended.bead_id, ended.command) == ("greeter", "bd-1", "/bin/sh")
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert ended.created_at <= ended.started_at <= ended.ended_at


async def test_an_agent_ended_by_a_signal_says_which(manager: LocalProcessManager) -> None:
    events = await finished(manager, await manager.spawn(shell("kill -SEGV $$")))
    assert (events[-1].exit_code, events[-1].signal) == (None, "SIGSEGV")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (AgentSpec(command="no-such-command"), "'no-such-command' was not found on the agent's PATH"),
        (AgentSpec(command="/no/such/file"), "there is no file '/no/such/file'"),
        (AgentSpec(command="/tmp"), "'/tmp' is not an executable file"),
        (AgentSpec(command="true", cwd="/no/such/folder"), "'/no/such/folder' cannot be entered"),
        (AgentSpec(command="true", args=("x" * 131_072,) * 60), "longer than the kernel allows"),
        (AgentSpec(command="true", args=("x" * 131_072,) * 70), "more than fit"),
    ],
)
async def test_what_cannot_start_is_a_spawn_error(manager: LocalProcessManager, spec: AgentSpec, message: str) -> None:
    with pytest.raises(SpawnError, match=message):
        await manager.spawn(spec)
    assert (await manager.list_agents()).items == []


async def test_a_file_that_is_not_executable_is_a_spawn_error(manager: LocalProcessManager, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("#!/bin/sh\n")
    for spec in (AgentSpec(command=f"{tmp_path}/notes"), AgentSpec(command="notes", env={"PATH": str(tmp_path)})):
        with pytest.raises(SpawnError, match=r"notes' is not an executable file"):
            await manager.spawn(spec)


async def test_a_script_without_a_usable_interpreter_is_a_spawn_error(
    manager: LocalProcessManager, tmp_path: Path
) -> None:
    for text, message in (("echo hi\n", "neither a program nor a script"), ("#!/no/such/sh\n", "does not exist")):
        script = tmp_path / "script"
        script.write_text(text)
        script.chmod(0o755)
        with pytest.raises(SpawnError, match=message):
            await manager.spawn(AgentSpec(command=str(script)))


async def test_the_command_is_found_on_the_agents_own_path(manager: LocalProcessManager, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert await output(manager, AgentSpec(command="mine", env={"PATH": str(tmp_path)})) == "found\n"


async def test_the_environment_is_a_short_list_and_what_the_spec_names(
    manager: LocalProcessManager, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("HOST_SECRET", "do-not-leak")
    monkeypatch.setenv("LC_TIME", "C")
    tokens = session_id.set("session-1"), execution_id.set("execution-1")
    try:
        spec = AgentSpec(command="env", env={"API_KEY": "s3cr3t-value"}, bead_id="bd-7")
        text = await output(manager, spec)
    finally:
        session_id.reset(tokens[0])
        execution_id.reset(tokens[1])
    env = dict(line.split("=", 1) for line in text.splitlines())
    agent = (await manager.list_agents()).items[0]
    assert env["API_KEY"] == "s3cr3t-value"
    assert (env["AGENTBOX_AGENT_ID"], env["AGENTBOX_AGENT_HOME"]) == (agent.id, str(folder.resolve() / agent.id))
    assert (env["AGENTBOX_SESSION_ID"], env["AGENTBOX_EXECUTION_ID"]) == ("session-1", "execution-1")
    assert (env["AGENTBOX_BEAD_ID"], env["LC_TIME"], env["PATH"]) == ("bd-7", "C", os.environ["PATH"])
    assert "HOST_SECRET" not in env
    assert (agent.session_id, agent.execution_id) == ("session-1", "execution-1")


async def test_no_value_of_the_environment_reaches_the_disk(manager: LocalProcessManager, folder: Path) -> None:
    await finished(manager, await manager.spawn(AgentSpec(command="true", env={"KEY": "s3cr3t"}), key="k"))
    contents = [read_bytes(str(path)) or b"" for path in folder.rglob("*") if path.is_file()]
    assert any(b'"KEY"' in content for content in contents)
    assert not [content for content in contents if b"s3cr3t" in content]


async def test_a_span_reaches_the_agent(manager: LocalProcessManager) -> None:
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    span = NonRecordingSpan(SpanContext(0xA1, 0xB2, is_remote=False, trace_flags=TraceFlags(1)))
    token = attach(set_span_in_context(span))
    try:
        text = await output(manager, shell("echo $TRACEPARENT"))
    finally:
        detach(token)
    assert text == f"00-{0xA1:032x}-{0xB2:016x}-01\n"


async def test_the_agent_starts_clean(manager: LocalProcessManager, tmp_path: Path) -> None:
    script = """
import os, signal, sys
odd = [n for n in signal.valid_signals() if n not in (9, 19) and signal.getsignal(n) is signal.SIG_IGN]
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print([int(n) for n in odd], [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])])
print(oct(os.umask(0)), os.getsid(0) == os.getpid(), os.getcwd(), repr(sys.stdin.read()))
"""
    text = await output(manager, AgentSpec(command=sys.executable, args=("-c", script), cwd=str(tmp_path)))
    own = "[13, 25] []"  # Python itself ignores SIGPIPE and SIGXFSZ
    assert text.splitlines() == ["['0', '1', '2'] 4", own, f"0o22 True {tmp_path} ''"]


async def test_agents_are_listed_newest_first_in_pages(manager: LocalProcessManager) -> None:
    agents = [await manager.spawn(shell("exit 0")) for _ in range(5)]
    live = await manager.spawn(AgentSpec(command="sleep", args=("60",)))
    await asyncio.gather(*(finished(manager, agent) for agent in agents))
    newest = [live.id, *(agent.id for agent in reversed(agents))]
    seen, after = [], None
    while True:
        page = await manager.list_agents(limit=2, after=after)
        seen += [agent.id for agent in page.items]
        after = page.next
        if after is None:
            break
    assert seen == newest
    assert [agent.id for agent in (await manager.list_agents(status="running")).items] == [live.id]
    assert [agent.id for agent in (await manager.list_agents(status="exited", limit=2)).items] == newest[1:3]
    with pytest.raises(InvalidInput, match="ag-zzzzzzzz"):
        await manager.list_agents(after="ag-zzzzzzzz")
    await manager.terminate(live.id, grace_seconds=0)


@pytest.mark.parametrize("agent_id", ["ag-zzzzzzzz", "../../etc", "keys", "ag-", "ag-../x"])
async def test_an_unknown_agent_is_not_found(manager: LocalProcessManager, agent_id: str) -> None:
    with pytest.raises(NotFound):
        await manager.status(agent_id)
    with pytest.raises(NotFound):
        await manager.terminate(agent_id)
    with pytest.raises(NotFound):
        await manager.send(agent_id, b"x")
    with pytest.raises(NotFound):
        await anext(aiter(manager.stream(agent_id)))


async def test_the_folder_is_closed_to_others(manager: LocalProcessManager, folder: Path) -> None:
    await finished(manager, await manager.spawn(shell("echo x"), key="k"))
    modes = {}
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the keeper tidies up meanwhile
            modes[path] = stat.S_IMODE(path.stat().st_mode)
    assert len(modes) > 5
    assert not {path for path, mode in modes.items() if mode & 0o077}


@pytest.mark.parametrize("version", ['{"format": 99}', "99", "{", '{"format": "1"}'])
async def test_a_folder_of_another_format_is_refused(open_manager: Opener, folder: Path, version: str) -> None:
    folder.mkdir()
    (folder / "VERSION").write_text(version)
    with pytest.raises(AdapterUnavailable, match="this agentbox knows up to 1"):
        await open_manager()


async def test_a_folder_that_cannot_be_had_is_unavailable(open_manager: Opener, folder: Path) -> None:
    folder.write_text("in the way")
    with pytest.raises(AdapterUnavailable, match="cannot be used"):
        await open_manager()


async def test_connecting_and_disconnecting_twice_is_fine(manager: LocalProcessManager) -> None:
    await manager.connect()
    assert (await manager.health()).state == "healthy"
    await manager.disconnect()
    await manager.disconnect()
    assert (await manager.health()).state == "degraded"
    with pytest.raises(AdapterUnavailable, match="not connected"):
        await manager.spawn(AgentSpec(command="true"))


async def test_the_adapter_says_what_it_is(manager: LocalProcessManager, folder: Path) -> None:
    assert local_process_manager.Adapter is LocalProcessManager
    assert LocalProcessManager.settings_class is Settings
    assert (manager.contract_version, manager.durability) == (CONTRACT.version, "fsync")
    assert manager.location == str(folder.resolve())


async def test_a_path_too_long_for_a_socket_works(open_manager: Opener, folder: Path) -> None:
    manager = await open_manager(path=folder / ("deep" * 40))
    assert await output(manager, shell("echo hi")) == "hi\n"
