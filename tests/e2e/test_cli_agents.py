"""`agentbox agents` in real processes: started, seen, answered and ended from the command line."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]
Agents = Callable[..., Done]

MANIFEST = "[orchestrator.local-process-manager]\nkeeper_idle_seconds = 0.3\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
    return kept | {"AGENTBOX_STATE": str(tmp_path / "state"), "COLUMNS": "100", "LINES": "20", "TERM": "xterm-256color"}


@pytest.fixture
def agents(tmp_path: Path, environ: dict[str, str]) -> Iterator[Agents]:
    """Runs `agentbox agents …`; whatever is alive when the test is over is ended."""
    (tmp_path / "agentbox.toml").write_text(MANIFEST)

    def run(*words: str, code: int = 0, told: str | None = None) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "agentbox", "agents", *words],
            cwd=tmp_path,
            env=environ,
            input=told,
            stdin=subprocess.DEVNULL if told is None else None,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    yield run
    run("kill", "--all", "--grace", "0")


def spawned(agents: Agents, *words: str) -> str:
    return agents("spawn", *words).stdout.strip()


def test_an_agent_that_is_followed_speaks_and_exits_through_the_command(agents: Agents) -> None:
    done = agents("spawn", "--follow", "--", "sh", "-c", "echo out; echo err >&2; exit 3", code=3)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_waiting_is_silent_and_a_signal_is_a_code_as_shells_have_it(agents: Agents) -> None:
    done = agents("spawn", "--wait", "sh", "-c", "echo out; kill -TERM $$", code=128 + signal.SIGTERM)
    assert (done.stdout, done.stderr) == ("", "")


def test_followed_events_are_json_on_request(agents: Agents) -> None:
    lines = agents("spawn", "-f", "--json", "echo", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["type"] for event in events] == ["started", "stdout", "exited"]
    assert events[-1]["exit_code"] == 0


def test_what_spawn_is_told_reaches_the_agent(agents: Agents, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    who = ("--name", "teller", "--bead", "bd-7k2f")
    words = (*who, "--cwd", "there", "--env", "GREETING=hello there", "--env", "TERM")
    done = agents("spawn", "-f", *words, "--", "sh", "-c", 'pwd; echo "$GREETING, $AGENTBOX_BEAD_ID, $TERM"')
    assert done.stdout == f"{tmp_path / 'there'}\nhello there, bd-7k2f, xterm-256color\n"
    (agent,) = json.loads(agents("ps", "--all", *who, "--json").stdout)
    assert agent["command"] == "sh"


def test_a_limit_ends_the_agent_and_is_named(agents: Agents) -> None:
    done = agents("spawn", "--wait", "--limit", "wall-seconds=0.2s", "sleep", "600", code=128 + signal.SIGTERM)
    assert "wall_seconds" in done.stderr
    assert "status: exited" in agents("show", done.stderr.split()[1].strip(":")).stdout


def test_the_same_key_starts_one_agent(agents: Agents) -> None:
    one, two = (spawned(agents, "--key", "once", "sleep", "600") for _ in range(2))
    assert one == two


def test_input_is_sent_as_a_line_or_as_it_comes(agents: Agents) -> None:
    agent = spawned(agents, "--stdin", "cat")
    agents("send", agent, "a line")
    agents("send", agent, "--end", told="no newline")
    assert agents("logs", agent, "-f").stdout == "a line\nno newline"
    assert "has ended" in agents("send", agent, "too late", code=1).stderr


def test_input_for_nobody_is_refused_before_it_comes(agents: Agents) -> None:
    assert "there is no agent" in agents("send", "ag-nope", code=1).stderr
    agent = spawned(agents, "sleep", "600")
    assert "spawn --stdin" in agents("send", agent, code=1).stderr


def test_an_agent_without_input_says_how_to_have_one(agents: Agents) -> None:
    agent = spawned(agents, "sleep", "600")
    assert "spawn --stdin" in agents("send", agent, "x", code=1).stderr


def test_the_tail_is_the_last_lines_of_both(agents: Agents) -> None:
    script = "for n in 1 2 3 4 5; do echo $n; done; printf '%070000d' 7; echo; echo end"
    agent = spawned(agents, "sh", "-c", script)
    agents("logs", agent, "-f")
    assert agents("logs", agent, "--tail", "1").stdout == "end\n"
    two = agents("logs", agent, "-n", "2").stdout
    assert (len(two), two[-5:]) == (70_001 + 4, "\nend\n")
    assert agents("logs", agent, "-f", "-n", "0").stdout == ""
    assert agents("logs", agent, "-f", "-n", "1").stdout == "end\n"


def test_kill_says_what_it_ended(agents: Agents) -> None:
    sleeper = spawned(agents, "--name", "sleeper", "sleep", "600")
    stubborn = spawned(agents, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done")
    done = agents("kill", sleeper, stubborn, sleeper, "ag-nope", "--grace", "0.2", code=1)
    lines = sorted(done.stdout.splitlines(), key=lambda line: stubborn in line)
    assert len(lines) == 2
    assert lines[0].startswith(f"{sleeper} (sleeper) ended by SIGTERM after ")
    assert lines[0].endswith("s: sleep 600")
    assert lines[1].startswith(f"{stubborn} ended by SIGKILL after ")
    assert "there is no agent 'ag-nope'" in done.stderr
    assert agents("kill", sleeper).stdout == f"{sleeper} (sleeper) had ended before: ended by SIGTERM\n"


def test_kill_all_ends_all_that_are_alive(agents: Agents) -> None:
    alive = {spawned(agents, "sleep", "600") for _ in range(3)}
    assert {agent["id"] for agent in json.loads(agents("kill", "--all", "--json").stdout)} == alive
    assert json.loads(agents("ps", "--json").stdout) == []
    assert agents("kill", "--all").stdout == "no agent is alive\n"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("spawn",), "COMMAND"),
        (("spawn", "--limit", "wall=3", "x"), "wall_seconds"),
        (("spawn", "--limit", "processes=1.7", "x"), "a whole number"),
        (("spawn", "--limit", "memory_bytes=3x", "x"), "with k, m, g or nothing"),
        (("spawn", "--env", "NOT_SET_HERE", "x"), "NOT_SET_HERE=VALUE"),
        (("spawn", "--wait", "--follow", "x"), "not allowed with"),
        (("kill",), "--all"),
        (("logs", "ag-x", "--tail", "-1"), "whole number"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(agents: Agents, words: tuple[str, ...], remedy: str) -> None:
    done = agents(*words, code=2)
    assert done.stderr.startswith("agentbox: ")
    assert remedy in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_nothing_to_read_or_write(
    agents: Agents, tmp_path: Path, environ: dict[str, str], closed: str
) -> None:
    agent = spawned(agents, "--stdin", "cat")
    command = f'"{sys.executable}" -m agentbox agents'
    for words, code in (
        ("spawn -f -- sh -c 'echo out; echo err >&2; exit 3'", 3),
        ("ps", 0),
        (f"send {agent}", 0),
        ("show ag-nope", 1),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} {words} {closed}"], cwd=tmp_path, env=environ, capture_output=True, timeout=60
        )
        assert done.returncode == code, done.stderr
        assert b"bug" not in done.stderr


def test_a_command_that_is_not_there_is_1(agents: Agents) -> None:
    assert "'no-such-command' was not found" in agents("spawn", "no-such-command", code=1).stderr
    assert agents("ps", "--all").stdout.count("\n") == 1


def test_leaving_a_followed_agent_leaves_it_running(agents: Agents, tmp_path: Path, environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "agentbox", "agents", "spawn", "-f", "sh", "-c", "echo up; exec sleep 600"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    agent = complaint.split()[1].decode()
    assert complaint.decode() == f"agentbox: {agent} goes on; 'agentbox agents kill {agent}' ends it\n"
    assert agents("kill", agent).stdout.startswith(f"{agent} ended by SIGTERM")


def test_a_watch_in_a_pipe_tells_each_change_once(agents: Agents, tmp_path: Path, environ: dict[str, str]) -> None:
    agent = spawned(agents, "sleep", "600")
    command = [sys.executable, "-m", "agentbox", "agents", "ps", "--watch", "--every", "0.05", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        agents("kill", agent)
        second = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        rest = watching.stdout.read()
    assert [(one["id"], one["status"]) for one in first + second] == [(agent, "running"), (agent, "exited")]
    assert (rest, watching.returncode) == (b"", 130)


def test_a_terminal_shows_a_live_table(agents: Agents, tmp_path: Path, environ: dict[str, str]) -> None:
    agent = spawned(agents, "--name", "ada", "sh", "-c", "exec sleep 600 # " + "long " * 50)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agentbox", "agents", "ps", "-w", "--every", "0.05"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=theirs, stdin=theirs) as watching:
        os.close(theirs)
        seen = _until(ours, "● 1 running")
        assert all(word in seen for word in (agent, "ada", "…"))
        agents("kill", agent)
        _until(ours, "SIGTERM")
        watching.send_signal(signal.SIGINT)
        watching.wait(30)
    os.close(ours)
    assert watching.returncode == 130


def _until(terminal: int, words: str) -> str:
    """What the terminal shows until it has shown *words* whole, however it is coloured."""
    seen = b""
    while words not in (plain := _plain(seen)):
        seen += os.read(terminal, 65536)
    return plain


def _plain(data: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))
