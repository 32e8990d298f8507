"""Starting agents: what they are given, what is known of them, and what cannot start."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from agentbox_contracts.context import execution_id, session_id
from agentbox_contracts.errors import SpawnError
from agentbox_contracts.orchestrator import Orchestrator
from agentbox_contracts.suites._orchestrator_agents import Agents, events_of, output, started
from agentbox_contracts.suites.clauses import clause

__all__ = ["SpawnClauses"]

HOSTILE = (
    "",
    " ",
    "-n",
    "--",
    "$(id)",
    "`id`",
    "${PATH}",
    "*",
    "a b",
    "'\"",
    "\\",
    "a\nb\r\t",
    "\x01\x7f",
    "é€\U0001f600",
)


class SpawnClauses:
    """Spawn, and the environment."""

    @clause("orchestrator.spawn.arguments")
    async def test_arguments_arrive_as_they_were_given(self, adapter: Orchestrator, agents: Agents) -> None:
        """Every argument reaches the command as it was given, whatever a shell would make of it."""
        agent = await adapter.spawn(agents.shell("""printf '%s\\0' "$@" """, *HOSTILE))

        assert output(await events_of(adapter, agent.id)).decode().split("\0")[:-1] == list(HOSTILE)

    @clause("orchestrator.spawn.long-arguments")
    async def test_a_megabyte_of_arguments_arrives(self, adapter: Orchestrator, agents: Agents) -> None:
        """A megabyte of arguments reaches the command whole."""
        pieces = [f"{n:x}" * 100_000 for n in range(11)]
        agent = await adapter.spawn(agents.shell("""printf '%s\\n' "$@" """, *pieces))

        assert output(await events_of(adapter, agent.id)).decode().splitlines() == pieces

    @clause("orchestrator.spawn.folder")
    async def test_the_agent_runs_in_its_folder(self, adapter: Orchestrator, agents: Agents, tmp_path: Path) -> None:
        """An agent runs in the folder that its spec names, whatever the characters of the name."""
        folder = tmp_path.resolve() / "a b'\"$(id)*\n\\ é€"
        folder.mkdir()
        agent = await adapter.spawn(agents.shell("pwd -P", cwd=str(folder)))

        assert output(await events_of(adapter, agent.id)).decode() == f"{folder}\n"

    @clause("orchestrator.spawn.no-input")
    async def test_without_a_pipe_the_input_is_empty(self, adapter: Orchestrator, agents: Agents) -> None:
        """Without a pipe the agent's standard input is there and empty."""
        agent = await adapter.spawn(agents.shell("""timeout 1 cat; echo "read $?" """))

        assert output(await events_of(adapter, agent.id)) == b"read 0\n"

    @clause("orchestrator.spawn.described")
    async def test_an_agent_is_described_as_it_was_asked_for(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """What spawn returns tells of the agent as it was asked for: command, arguments, folder and bead."""
        spec = agents.spec("sleep", "0", cwd=str(tmp_path), bead_id="bd-7k2f.1")
        agent = await adapter.spawn(spec)

        assert (agent.command, agent.args, agent.cwd, agent.bead_id) == (
            spec.command,
            spec.args,
            spec.cwd,
            spec.bead_id,
        )

    @clause("orchestrator.spawn.name")
    async def test_any_name_is_kept(self, adapter: Orchestrator, agents: Agents) -> None:
        """Any name an agent is given is kept as it is."""
        names = ["x" * 200, "../../etc/passwd", "a\nb\t\x1b[31m", "'; DROP TABLE agents; --", "é€\U0001f600", " "]
        made = [await adapter.spawn(agents.spec("true", name=name)) for name in names]

        assert [(await adapter.status(agent.id)).name for agent in made] == names

    @clause("orchestrator.spawn.context")
    async def test_an_agent_knows_who_asked_for_it(self, adapter: Orchestrator, agents: Agents) -> None:
        """An agent carries the session and the execution of whoever asked for it."""
        tokens = session_id.set("session-1"), execution_id.set("execution-1")
        try:
            agent = await adapter.spawn(agents.spec("true"))
        finally:
            session_id.reset(tokens[0])
            execution_id.reset(tokens[1])

        assert (agent.session_id, agent.execution_id) == ("session-1", "execution-1")

    @clause("orchestrator.spawn.each-anew")
    async def test_two_spawns_are_two_agents(self, adapter: Orchestrator, agents: Agents) -> None:
        """Without a key the same spec twice is two agents."""
        one, other = [await started(adapter, agents.sleep()) for _ in range(2)]

        assert one.id != other.id
        assert len(agents.running()) == 2

    @clause("orchestrator.spawn.missing-command")
    async def test_a_missing_command_is_a_spawn_error(self, adapter: Orchestrator, agents: Agents) -> None:
        """A command that does not exist is a SpawnError."""
        for command in ("no-such-command-anywhere", "/no/such/command"):
            with pytest.raises(SpawnError):
                await adapter.spawn(agents.spec(command))

    @clause("orchestrator.spawn.not-executable")
    async def test_a_file_that_is_no_program_is_a_spawn_error(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """A command that is not executable is a SpawnError."""
        notes = tmp_path / "notes"
        notes.write_text("#!/bin/sh\n")
        for command in (notes, tmp_path):
            with pytest.raises(SpawnError):
                await adapter.spawn(agents.spec(str(command)))

    @clause("orchestrator.spawn.missing-folder")
    async def test_a_missing_folder_is_a_spawn_error(self, adapter: Orchestrator, agents: Agents) -> None:
        """A folder that does not exist is a SpawnError."""
        with pytest.raises(SpawnError):
            await adapter.spawn(agents.spec("true", cwd="/no/such/folder"))

    @clause("orchestrator.spawn.says-what")
    async def test_a_spawn_error_names_what_is_missing(self, adapter: Orchestrator, agents: Agents) -> None:
        """A SpawnError names the command or the folder that it is about."""
        for spec in (agents.spec("no-such-command-anywhere"), agents.spec("true", cwd="/no/such/folder")):
            with pytest.raises(SpawnError, match=spec.cwd or spec.command):
                await adapter.spawn(spec)

    @clause("orchestrator.spawn.all-or-nothing")
    async def test_what_cannot_start_leaves_no_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """What could not start leaves no agent that is starting or running."""
        for spec in (agents.spec("no-such-command-anywhere"), agents.sleep(cwd="/no/such/folder")):
            with contextlib.suppress(SpawnError):
                await adapter.spawn(spec)

        assert [agent for agent in await agents.listed(adapter) if agent.is_alive] == []
        assert agents.running() == set()

    @clause("orchestrator.environment.given")
    async def test_what_the_spec_names_reaches_the_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """The variables that a spec names reach the agent as they were given, and go before the host's."""
        given = {f"GIVEN_{n}": value for n, value in enumerate(HOSTILE)} | {"_": "under", "LANG": "xx_XX", "IFS": "=\n"}

        assert (await _environment(adapter, agents, given)).items() >= given.items()

    @clause("orchestrator.environment.allowed")
    async def test_the_path_reaches_the_agent(self, adapter: Orchestrator, agents: Agents) -> None:
        """The host's PATH reaches the agent."""
        assert (await _environment(adapter, agents, {})).get("PATH")

    @clause("orchestrator.environment.bounded")
    async def test_nothing_else_of_the_host_reaches_the_agent(
        self, adapter: Orchestrator, agents: Agents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing reaches the agent of the host's environment that is not on the allow-list."""
        hidden = {"AGENTBOX_TOKEN": "hidden-1", "AWS_SECRET_ACCESS_KEY": "hidden-2", "LD_DEBUG_OUTPUT": "hidden-3"}
        for name, value in hidden.items():
            monkeypatch.setenv(name, value)

        assert hidden.keys() & (await _environment(adapter, agents, {})).keys() == set()

    @clause("orchestrator.environment.unstored")
    async def test_values_of_the_environment_are_never_stored(
        self, adapter: Orchestrator, agents: Agents, tmp_path: Path
    ) -> None:
        """No value of a spec's environment is stored or told."""
        agent = await adapter.spawn(agents.spec("true", env={"API_KEY": "s3cr3t-value"}))
        told = repr((await events_of(adapter, agent.id), await adapter.status(agent.id)))
        kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cr3t-value" in path.read_bytes()]

        assert "s3cr3t-value" not in told
        assert kept == []


async def _environment(adapter: Orchestrator, agents: Agents, given: dict[str, str]) -> dict[str, str]:
    """The environment of an agent that was given *given*."""
    agent = await adapter.spawn(agents.spec("cat", "/proc/self/environ", env=given))
    text = output(await events_of(adapter, agent.id)).decode()
    return dict(line.split("=", 1) for line in text.split("\0")[:-1])
