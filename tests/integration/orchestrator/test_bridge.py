"""The bridge and its bad peers: whatever they do, calls under way fail at once with a typed error."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbox.adapters.orchestrator.stdio_bridge import Bridge, BridgeSettings
from agentbox.testing import open_slot
from agentbox_contracts.errors import AdapterDisabled, AdapterFailed, AdapterUnavailable, ContractMismatch, NotFound
from agentbox_contracts.orchestrator import CONTRACT, AgentSpec
from tests.servers.peers import children

HELLO = (
    '{"jsonrpc": "2.0", "id": ID, "result": {"impl": "fake", "contract": "VERSION", "capabilities": ["keys", "send"], '
    '"durability": "os", "reason": ""}}'
)
PEER = f"""
import json, sys, time
HELLO = '''{HELLO}'''
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] in ("hello", "ping"):
        print(HELLO.replace("ID", str(asked["id"])), flush=True)
    else:
        BAD
"""

Text = Callable[..., str]


@pytest.fixture
def bridge() -> Text:
    """Manifest text of a bridge to a program in Python, which after the greeting does *bad*."""

    def text(bad: str, **settings: Any) -> str:
        command = [sys.executable, "-c", PEER.replace("BAD", bad).replace("VERSION", CONTRACT.version)]
        values = {"command": command, "retry_seconds": 0, **settings}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        return f'[adapters]\norchestrator = "stdio-bridge"\n[orchestrator.stdio-bridge]\n{lines}'

    return text


BAD = {
    "dies": ("sys.exit(3)", "ended with exit code 3"),
    "says why it dies": ("sys.exit('no space left')", "no space left"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "ended with signal 9"),
    "dies, and what it started has its pipes": (
        "import os, subprocess; subprocess.Popen(['/bin/sh', '-c', 'cat > /dev/null; :']); os._exit(3)",
        "ended with exit code 3",
    ),
    "writes garbage": ("print('motd: welcome to box 7', flush=True); time.sleep(60)", "welcome to box 7"),
    "writes binary garbage": ("sys.stdout.buffer.write(bytes(range(256)) * 99); sys.stdout.flush()", "JSON-RPC"),
    "writes half a line": ("sys.stdout.write('{\"jsonrpc\": '); sys.stdout.flush(); sys.exit()", "middle of a line"),
    "never ends its line": ("sys.stdout.write('x' * 20_000_000); sys.stdout.flush(); time.sleep(60)", "JSON-RPC"),
    "answers what nobody asked": (
        "print(HELLO.replace('ID', '99'), flush=True); time.sleep(60)",
        "which was not asked",
    ),
    "floods with events": (
        "[print(json.dumps({'jsonrpc': '2.0', 'method': 'event', 'params': {'id': asked['id'], 'item': {}}}), "
        "flush=True) for _ in range(9999)]; time.sleep(60)",
        "no stream",
    ),
    "tells of events in another way": (
        'print(\'{"jsonrpc": "2.0", "method": "event", "params": [1]}\', flush=True); time.sleep(60)',
        "does not speak JSON-RPC",
    ),
}


@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
async def test_calls_under_way_fail_at_once(bridge: Text, tmp_path: Path, bad: str, words: str) -> None:
    async with open_slot(bridge(bad), "orchestrator", folder=tmp_path) as agents:
        calls = [asyncio.ensure_future(agents.status("ag-1")) for _ in range(3)]
        calls.append(asyncio.ensure_future(agents.spawn(AgentSpec(command="true"))))
        async with asyncio.timeout(10):
            failures = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(failure) for failure in failures} == {AdapterUnavailable}
        assert any(words in str(failure) for failure in failures), failures


ANSWER = "print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {'strange': 1}}), flush=True)"
EVENT = (
    "print(json.dumps({'jsonrpc': '2.0', 'method': 'event', 'params': {'id': asked['id'], 'item': 7}}), flush=True); "
    "time.sleep(60)"
)


async def test_a_strange_answer_is_the_peers_fault_and_not_the_callers(bridge: Text, tmp_path: Path) -> None:
    async with open_slot(bridge(ANSWER), "orchestrator", folder=tmp_path) as agents:
        with pytest.raises(AdapterFailed, match="not as an agentbox host does"):
            await agents.status("ag-1")
    async with open_slot(bridge(EVENT), "orchestrator", folder=tmp_path) as agents:
        with pytest.raises(AdapterFailed, match="not as an agentbox host does"):
            await anext(agents.stream("ag-1"))


@pytest.mark.parametrize("greeting", ["{}", "[1]", "null", '{"impl": 5}'])
async def test_a_strange_greeting_is_told_as_one(tmp_path: Path, greeting: str) -> None:
    answer = f'{{"jsonrpc": "2.0", "id": 1, "result": {greeting}}}'
    command = ["/bin/sh", "-c", f"echo '{answer}'; exec cat > /dev/null"]
    table = f"[orchestrator.stdio-bridge]\ncommand = {json.dumps(command)}\n"
    with pytest.raises(AdapterUnavailable, match="not as an agentbox host does"):
        async with open_slot(f'[adapters]\norchestrator = "stdio-bridge"\n{table}', "orchestrator", folder=tmp_path):
            pass


async def test_a_peer_that_hangs_is_found_out(bridge: Text, tmp_path: Path) -> None:
    text = bridge("time.sleep(600)", silence_seconds=1.0)
    async with open_slot(text, "orchestrator", folder=tmp_path) as agents:
        began = time.monotonic()
        with pytest.raises(AdapterUnavailable, match="has not answered for"):
            await agents.status("ag-1")
        assert time.monotonic() - began < 10


async def test_a_peer_that_stops_reading_is_found_out(bridge: Text, tmp_path: Path) -> None:
    text = bridge("time.sleep(600)", silence_seconds=1.0)
    async with open_slot(text, "orchestrator", folder=tmp_path) as agents:
        with pytest.raises(AdapterUnavailable, match="has not answered for"):
            await agents.send("ag-1", b"x" * 900_000)


async def test_after_a_bad_peer_the_next_call_gets_a_new_one(bridge: Text, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    fails_once = f"p = {str(mark)!r}; import os; os.path.exists(p) or (open(p, 'w').close(), os._exit(1)); " + (
        "print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'error': {'code': -32000, 'message': 'm', "
        "'data': {'code': 'not_found', 'message': 'found out'}}}), flush=True)"
    )
    async with open_slot(bridge(fails_once, retry_seconds=5), "orchestrator", folder=tmp_path) as agents:
        with pytest.raises(NotFound, match="found out"):
            await agents.status("ag-1")


async def test_without_reconnect_it_stays_gone(bridge: Text, tmp_path: Path) -> None:
    async with open_slot(bridge("sys.exit(3)", reconnect=False), "orchestrator", folder=tmp_path) as agents:
        for _ in range(2):
            with pytest.raises(AdapterUnavailable, match="exit code 3"):
                await agents.status("ag-1")
        assert (await agents.health()).state == "degraded"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program"], "no-such-program"),
        (["/bin/sh", "-c", "echo 'permission denied (publickey)' >&2; exit 255"], r"permission denied \(publickey\)"),
        (["/bin/cat"], "JSON-RPC"),
    ],
    ids=["missing", "refused", "echoes"],
)
async def test_a_program_that_is_no_bridge_says_so(tmp_path: Path, command: list[str], words: str) -> None:
    table = f"[orchestrator.stdio-bridge]\ncommand = {json.dumps(command)}\n"
    with pytest.raises(AdapterUnavailable, match=words):
        async with open_slot(f'[adapters]\norchestrator = "stdio-bridge"\n{table}', "orchestrator", folder=tmp_path):
            pass


async def test_another_major_version_is_refused(bridge: Text, tmp_path: Path) -> None:
    text = bridge("pass").replace(CONTRACT.version, "7.0.0")
    with pytest.raises(ContractMismatch, match=r"7\.0\.0"):
        async with open_slot(text, "orchestrator", folder=tmp_path):
            pass


async def test_a_capability_that_the_peer_lacks_is_refused(bridge: Text, tmp_path: Path) -> None:
    text = bridge("pass").replace('\\"keys\\", \\"send\\"', "")
    async with open_slot(text, "orchestrator", folder=tmp_path) as agents:
        with pytest.raises(AdapterDisabled, match="send"):
            await agents.send("ag-1", b"x")


@pytest.mark.parametrize(
    ("depth", "told"), [("4", "5 bridges stand behind each other"), ("deep", "sets it to a number: unset it")]
)
async def test_bridges_that_lead_to_themselves_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: str, told: str
) -> None:
    monkeypatch.setenv("AGENTBOX_BRIDGE_DEPTH", depth)
    with pytest.raises(AdapterUnavailable, match=told):
        async with open_slot('[adapters]\norchestrator = "stdio-bridge"\n', "orchestrator", folder=tmp_path):
            pass


async def test_killed_in_the_middle_agents_and_streams_go_on(tmp_path: Path) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.1; done"
    async with open_slot('[adapters]\norchestrator = "stdio-bridge"\n', "orchestrator", folder=tmp_path) as agents:
        agent = await agents.spawn(AgentSpec(command="/bin/sh", args=("-c", script)))
        seen = b""
        async for event in agents.stream(agent.id):
            seen += event.data
            if event.data in (b"3\n", b"6\n"):
                (pid,) = children(os.getpid(), "host --stdio")
                os.kill(pid, signal.SIGKILL)
        assert seen == b"".join(b"%d\n" % number for number in range(1, 11))
        assert (await agents.status(agent.id)).exit_code == 0


async def test_nothing_stays_behind(tmp_path: Path) -> None:
    async with open_slot('[adapters]\norchestrator = "stdio-bridge"\n', "orchestrator", folder=tmp_path):
        assert len(children(os.getpid(), "host --stdio")) == 1
    assert children(os.getpid(), "host --stdio") == []


class TestHost:
    """`agentbox host --stdio` itself, spoken to by hand."""

    def ask(self, folder: Path, *lines: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "agentbox", "host", "--stdio"],
            input="".join(f"{line}\n" for line in lines),
            env={**os.environ, "AGENTBOX_STATE": str(folder / "state")},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_files_do_as_well_as_pipes(self, tmp_path: Path) -> None:
        asked, answered = tmp_path / "asked", tmp_path / "answered"
        asked.write_text('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        for source, ids in ((asked, [1]), (Path(os.devnull), [])):
            with source.open("rb") as incoming, answered.open("wb") as out:
                command = [sys.executable, "-m", "agentbox", "host", "--stdio"]
                environ = {**os.environ, "AGENTBOX_STATE": str(tmp_path / "state")}
                subprocess.run(command, stdin=incoming, stdout=out, env=environ, cwd=tmp_path, timeout=30, check=True)
            assert [json.loads(line)["id"] for line in answered.read_text().splitlines()] == ids

    def test_a_terminal_is_left_as_it_was(self, tmp_path: Path) -> None:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "agentbox", "host", "--stdio"]
        environ = {**os.environ, "AGENTBOX_STATE": str(tmp_path / "state")}
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environ, cwd=tmp_path) as host:
            os.write(ours, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            seen = b""
            while b'"result"' not in seen:
                seen += os.read(ours, 65536)
            os.write(ours, b"\x04")
            assert host.wait(30) == 0
        assert os.get_blocking(theirs)  # a shell and what it starts next have the same terminal
        os.close(ours)
        os.close(theirs)

    def test_it_answers_by_id(self, tmp_path: Path) -> None:
        params = {"slot": "orchestrator", "contract": CONTRACT.version}
        hello = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "hello", "params": params})
        spawn = '{"jsonrpc": "2.0", "id": 2, "method": "orchestrator.spawn", "params": {"spec": {"command": "true"}}}'
        answers = {answer["id"]: answer["result"] for answer in self.ask(tmp_path, hello, spawn)}
        assert answers["a"]["impl"] == "local-process-manager"
        assert answers[2]["command"] == "true"

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ("nonsense", -32700),
            ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32700),
            ('{"jsonrpc": "2.0", "id": 1}', -32600),
            ('{"jsonrpc": "2.0", "id": 1, "method": "no.such"}', -32601),
            ('{"jsonrpc": "2.0", "id": 1, "method": "beads.show", "params": {"bead_id": "bd-1"}}', -32000),
            ('{"jsonrpc": "2.0", "id": 1, "method": "orchestrator.status", "params": {"strange": 1}}', -32000),
            ('{"jsonrpc": "2.0", "id": 1, "method": "orchestrator.status", "params": [1]}', -32000),
        ],
    )
    def test_it_refuses_what_it_cannot_do_and_goes_on(self, tmp_path: Path, line: str, code: int) -> None:
        refused, fine = self.ask(tmp_path, line, '{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
        assert (refused["error"]["code"], fine["id"]) == (code, 7)

    @pytest.mark.parametrize("params", ["[1]", "7", '{"id": [1]}', '{"id": 9}', "null"])
    def test_a_notification_that_makes_no_sense_is_passed_over(self, tmp_path: Path, params: str) -> None:
        word = f'{{"jsonrpc": "2.0", "method": "cancel", "params": {params}}}'
        (fine,) = self.ask(tmp_path, word, '{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
        assert fine["id"] == 7

    def test_who_leaves_before_the_answers_come_is_not_complained_of(self, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        asked = "".join(f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}\n' for number in range(900))
        done = subprocess.run(
            [sys.executable, "-m", "agentbox", "host", "--stdio"],
            input=asked.encode(),
            env={**os.environ, "AGENTBOX_STATE": str(tmp_path / "state")},
            cwd=tmp_path,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=30,
        )
        os.close(writer)
        assert done.returncode == 0
        assert all(line.startswith(b"{") for line in done.stderr.splitlines()), done.stderr[-2000:]

    def test_a_manifest_nearby_is_not_taken(self, tmp_path: Path) -> None:
        (tmp_path / "agentbox.toml").write_text('[adapters]\norchestrator = "stdio-bridge"\n')
        (answer,) = self.ask(tmp_path, '{"jsonrpc": "2.0", "id": 1, "method": "health"}')
        states = {probe["slot"]: probe["state"] for probe in answer["result"]["slots"]}
        assert states["orchestrator"] == "healthy"


def test_the_command_may_be_one_line(tmp_path: Path) -> None:

    command = "ssh -T box 'agentbox host --stdio'"
    assert Bridge(CONTRACT, BridgeSettings(command=command)).url == f"stdio:{shlex.join(shlex.split(command))}"
