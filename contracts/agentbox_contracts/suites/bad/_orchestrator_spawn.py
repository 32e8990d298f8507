"""Known-bad ways to start agents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import attrs

from agentbox_contracts.errors import SpawnError
from agentbox_contracts.orchestrator import AgentSpec
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._orchestrator_base import detached

__all__: list[str] = []


class Respecifying(Base):
    """Starts something else than was asked for; `changed` says what."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        """What is started instead."""
        return spec

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        return await super().spawn(self.changed(spec), key=key)


@known_bad(caught_by="orchestrator.spawn.arguments")
class DropsEmptyArguments(Respecifying):
    """Leaves empty arguments out."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, args=tuple(argument for argument in spec.args if argument))


@known_bad(caught_by="orchestrator.spawn.long-arguments")
class CutsArguments(Respecifying):
    """Cuts long arguments off."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, args=tuple(argument[:65_536] for argument in spec.args))


@known_bad(caught_by="orchestrator.spawn.folder")
class IgnoresTheFolder(Respecifying):
    """Starts every agent in its own folder."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, cwd=None)


@known_bad(caught_by="orchestrator.spawn.no-input")
class LeavesTheInputOpen(Respecifying):
    """Gives every agent an input that never ends."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, stdin="pipe")


@known_bad(caught_by="orchestrator.spawn.described")
class ForgetsTheBead(Base):
    """Does not tell which bead an agent works on."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        return attrs.evolve(await super().spawn(spec, key=key), bead_id=None)


@known_bad(caught_by="orchestrator.spawn.name")
class TidiesNames(Base):
    """Makes names presentable."""

    async def status(self, agent_id: str) -> Any:
        agent = await super().status(agent_id)
        return attrs.evolve(agent, name=" ".join((agent.name or "").split()))


@known_bad(caught_by="orchestrator.spawn.context")
class ForgetsTheSession(Base):
    """Does not tell on whose behalf an agent runs."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        return attrs.evolve(await super().spawn(spec, key=key), session_id=None)


@known_bad(caught_by="orchestrator.spawn.each-anew")
class OneAgentPerSpec(Base):
    """Takes the same spec for the same agent."""

    known: dict[str, Any]

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        self.known = self.__dict__.get("known") or {}
        if repr(spec) not in self.known:
            self.known[repr(spec)] = await super().spawn(spec, key=key)
        return self.known[repr(spec)]


@known_bad(caught_by="orchestrator.spawn.each-anew")
class OneProcessPerSpec(OneAgentPerSpec):
    """Gives the same spec another id, and no process."""

    asked = 0

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        self.asked += 1
        return attrs.evolve(await super().spawn(spec, key=key), id=f"ag-{self.asked}")


class StartsAnything(Base):
    """Starts something else where the command cannot be started."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except SpawnError:
            return await super().spawn(attrs.evolve(spec, command="true", cwd=None), key=key)


@known_bad(caught_by="orchestrator.spawn.missing-command")
class StartsWhatIsMissing(StartsAnything):
    """Starts something else where the command is missing."""


@known_bad(caught_by="orchestrator.spawn.not-executable")
class StartsWhatIsNoProgram(StartsAnything):
    """Starts something else where the command is no program."""


@known_bad(caught_by="orchestrator.spawn.missing-folder")
class StartsElsewhere(StartsAnything):
    """Starts the agent elsewhere when its folder is missing."""


@known_bad(caught_by="orchestrator.spawn.says-what")
class VagueSpawnErrors(Base):
    """Does not say what could not be started."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except SpawnError:
            raise SpawnError("it could not be started") from None


@known_bad(caught_by="orchestrator.spawn.all-or-nothing")
class LeavesAnAgent(Base):
    """Leaves an agent where none could be started."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except SpawnError:
            await super().spawn(attrs.evolve(spec, command="sleep", args=("60",), cwd=None))
            raise


@known_bad(caught_by="orchestrator.spawn.all-or-nothing")
class LeavesAProcess(Base):
    """Leaves a process where none could be started."""

    async def spawn(self, spec: AgentSpec, *, key: str | None = None) -> Any:
        try:
            return await super().spawn(spec, key=key)
        except SpawnError:
            detached(attrs.evolve(spec, command="sleep", args=("60",)))
            raise


@known_bad(caught_by="orchestrator.environment.given")
class TidiesTheEnvironment(Respecifying):
    """Strips the values of variables."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, env={name: value.strip() for name, value in spec.env.items()})


@known_bad(caught_by="orchestrator.environment.allowed")
class ClearsThePath(Respecifying):
    """Finds the command on the PATH and keeps it from the agent."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        command = shutil.which(spec.command) or spec.command
        return attrs.evolve(spec, command=command, env={"PATH": "", **spec.env})


@known_bad(caught_by="orchestrator.environment.bounded")
class PassesTheEnvironmentOn(Respecifying):
    """Gives the agent everything that the host has in its environment."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        return attrs.evolve(spec, env={**os.environ, **spec.env})


@known_bad(caught_by="orchestrator.environment.unstored")
class PutsTheEnvironmentInArguments(Respecifying):
    """Starts the command through `env`, for everybody to see."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        pairs = [f"{name}={value}" for name, value in spec.env.items()]
        return attrs.evolve(spec, command="env", args=(*pairs, spec.command, *spec.args), env={})


@known_bad(caught_by="orchestrator.environment.unstored")
class WritesTheEnvironmentDown(Respecifying):
    """Keeps the environment in a file of its own."""

    def changed(self, spec: AgentSpec) -> AgentSpec:
        Path(f"{self.location}.env").write_text(str(spec.env))
        return spec
