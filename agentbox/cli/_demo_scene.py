"""What the demo plays: its plan, its workers, and everything there is to see of them."""

from __future__ import annotations

import time

import attrs
from rich.console import Console
from rich.text import Text

from agentbox_contracts.beads import Bead
from agentbox_contracts.orchestrator import Agent, AgentEvent

__all__ = ["EPIC", "PLAN", "WORKERS", "Scene", "Task", "Worker"]

EPIC = "Ship the release"
WORKERS = {"ada": "cyan", "grace": "magenta", "linus": "yellow", "margaret": "blue"}
"""Each worker and its colour."""


@attrs.frozen
class Task:
    """One child of the epic: how many steps of work it is, and the numbers of the tasks it waits for."""

    title: str
    steps: int
    after: tuple[int, ...] = ()


PLAN = (
    Task("Freeze the branch", 2),
    Task("Write the changelog", 4, (1,)),
    Task("Bump the version", 2, (1,)),
    Task("Run the unit tests", 5, (1,)),
    Task("Run the contract suites", 6, (1,)),
    Task("Build the wheel", 3, (3,)),
    Task("Build the container image", 4, (3,)),
    Task("Translate the release notes", 3, (2,)),
    Task("Smoke-test the wheel", 3, (6,)),
    Task("Scan for vulnerabilities", 3, (6, 7)),
    Task("Publish the packages", 3, (4, 5, 9, 10)),
    Task("Announce the release", 2, (8, 11)),
)


@attrs.define
class Worker:
    """What the demo knows of one worker, from what it printed and how it ended."""

    agent: Agent
    name: str
    bead_id: str = ""
    closed: list[str] = attrs.field(factory=list)
    takeovers: list[str] = attrs.field(factory=list)
    ending: AgentEvent | None = None
    complaint: str = ""

    @property
    def was_killed(self) -> bool:
        return self.ending is not None and self.ending.signal == "SIGKILL"


@attrs.define
class Scene:
    """Everything there is to see: the beads as they stand, the workers, and what happened last."""

    epic: Bead
    beads: dict[str, Bead]
    console: Console
    workers: dict[str, Worker] = attrs.field(factory=dict)
    steps: dict[str, int] = attrs.field(factory=dict)
    lines: list[Text] = attrs.field(factory=list)
    calls: dict[str, list[float]] = attrs.field(factory=dict)
    victim: Worker | None = None
    orphan: Bead | None = None
    began: float = attrs.field(factory=time.monotonic)

    def tell(self, name: str, verb: str, rest: str, style: str = "") -> None:
        """Add a line to what happened; without a terminal, print it."""
        line = Text.assemble(
            (f"{time.monotonic() - self.began:5.1f} s  ", "dim"),
            (f"{name:<10}", WORKERS.get(name, "bold")),
            (f"{verb:<11}{rest}", style),
        )
        line.no_wrap, line.overflow = True, "ellipsis"
        self.lines.append(line)
        if not self.console.is_terminal:
            self.console.print(line, soft_wrap=True)

    def called(self, bead_id: str) -> str:
        """A bead's id and title."""
        return f"{bead_id}  {self.beads[bead_id].title}"
