"""`agentbox demo`: four workers race through one epic, one of them is killed, and nothing is lost."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from agentbox.app import App, open_app
from agentbox.cli._demo_scene import EPIC, PLAN, WORKERS, Scene, Worker
from agentbox.cli._demo_view import View, closing, what_next
from agentbox.cli._demo_worker import demo_manifest, measured
from agentbox_contracts.beads import Beads
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.orchestrator import AgentSpec

__all__ = ["configure", "main", "run"]

LIMIT_SECONDS = 50.0
LOOK_SECONDS = 0.15


DOOMED = 4
"""The index of the task in whose middle its worker is killed; many wait for it, and it is early."""


class DoesNotAddUp(Exception):
    """The demo saw something that must not happen; the message says what."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `agentbox demo`."""
    parser.description = "Four worker agents race through an epic; one is killed, and another takes its work over."
    parser.add_argument("--state", type=Path, metavar="DIR", help="use this state folder and leave it there")
    parser.add_argument("--keep", action="store_true", help="leave the temporary state folder there")


def run(arguments: argparse.Namespace) -> int:
    """Play the demo. 0 when everything added up, else 1 and one sentence."""
    console = Console(highlight=False)
    try:
        with _state_folder(arguments.state, keep=arguments.keep) as state:
            scene = asyncio.run(_play(console, state))
            console.print(closing(scene))
            what_next(console, scene, state if arguments.state or arguments.keep else None)
    except (DoesNotAddUp, AgentboxError, OSError, ExceptionGroup) as error:
        sentence = Text(f"agentbox demo: {_sentence(error)}", style="red")
        Console(stderr=True, highlight=False).print(sentence, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m agentbox.cli.demo`."""
    parser = argparse.ArgumentParser(prog="agentbox demo")
    configure(parser)
    return run(parser.parse_args(arguments))


def _sentence(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return f"{error.filename or 'the state folder'} cannot be used: {error.strerror}; name another with --state"
    return error.message if isinstance(error, AgentboxError) else str(error)


@contextlib.contextmanager
def _state_folder(chosen: Path | None, *, keep: bool) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield chosen.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="agentbox-demo-")).resolve()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def _play(console: Console, state: Path) -> Scene:
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            async with open_app(demo_manifest(state)) as app:
                scene = await _prepared(app, console)
                with _shown(scene):
                    async with _workers(app, scene, state):
                        await _watched(app, scene)
                    await _end(app, scene)
            await _keeper_gone(state)
    except TimeoutError:
        raise DoesNotAddUp(f"the release was not shipped within {LIMIT_SECONDS:g} s") from None
    for name, row in measured(app.registry).items():
        _add(scene.calls, name, row)
    return scene


async def _prepared(app: App, console: Console) -> Scene:
    beads = app.adapters.beads
    epic = await beads.create_epic(title=EPIC, tags=("demo",), actor="demo")
    made = [
        await beads.create_child(parent_id=epic.id, title=task.title, metadata={"steps": task.steps}, actor="demo")
        for task in PLAN
    ]
    for bead, task in zip(made, PLAN, strict=True):
        for number in task.after:
            await beads.add_dependency(bead.id, blocker_id=made[number - 1].id)
    scene = Scene(epic=epic, beads={bead.id: bead for bead in made}, console=console)
    waits = sum(len(task.after) for task in PLAN)
    scene.tell("demo", "created", f"{epic.id}  {EPIC}: {len(made)} tasks, {waits} dependencies")
    await _look(beads, scene)
    return scene


@contextlib.contextmanager
def _shown(scene: Scene) -> Iterator[None]:
    """Live in a terminal; otherwise the lines as they come are all there is."""
    if not scene.console.is_terminal:
        yield
        return
    with Live(View(scene), console=scene.console, refresh_per_second=10, vertical_overflow="crop"):
        yield


@contextlib.asynccontextmanager
async def _workers(app: App, scene: Scene, state: Path) -> AsyncIterator[None]:
    """The workers, spawned together; however the body ends, none of them is left."""
    orchestrator = app.adapters.orchestrator
    paths = os.environ.get("PYTHONPATH", "")
    env = {"PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep) if path)}
    try:
        for name in WORKERS:
            command = (
                "-m",
                "agentbox.cli._demo_worker",
                "--state",
                str(state),
                "--epic",
                scene.epic.id,
                "--name",
                name,
            )
            agent = await orchestrator.spawn(
                AgentSpec(
                    command=sys.executable,
                    args=command,
                    env=env if paths else {},
                    cwd=str(state),
                    name=name,
                    bead_id=scene.epic.id,
                )
            )
            scene.workers[name] = Worker(agent, name)
            scene.tell(name, "started", f"pid {agent.pid}")
        yield
    finally:
        for worker in scene.workers.values():
            if worker.ending is None:
                await orchestrator.terminate(worker.agent.id, grace_seconds=0)


async def _watched(app: App, scene: Scene) -> None:
    """Follow every worker until all have ended, looking at the beads meanwhile."""
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(_keep_looking(app.adapters.beads, scene))
        async with asyncio.TaskGroup() as following:
            for worker in scene.workers.values():
                following.create_task(_follow(app, scene, worker))
        looking.cancel()


async def _keep_looking(beads: Beads, scene: Scene) -> None:
    while True:
        await _look(beads, scene)
        await asyncio.sleep(LOOK_SECONDS)


async def _look(beads: Beads, scene: Scene) -> None:
    page = await beads.children(scene.epic.id)
    scene.beads = {bead.id: bead for bead in page.items}


async def _follow(app: App, scene: Scene, worker: Worker) -> None:
    async for event in app.adapters.orchestrator.stream(worker.agent.id):
        if event.type == "stdout":
            _heard(scene, worker, event.text)
            if event.text.startswith("working") and _is_the_moment(scene, worker):
                await _kill(app.adapters.beads, scene, worker)
        elif event.type == "stderr":
            worker.complaint = event.text.strip() or worker.complaint
        elif event.type == "exited":
            worker.ending = event
            _ended(scene, worker)


def _heard(scene: Scene, worker: Worker, line: str) -> None:
    word, _, rest = line.strip().partition(" ")
    if word == "metrics":
        for name, row in json.loads(rest).items():
            _add(scene.calls, name, row)
        return
    if word == "ready":
        scene.tell(worker.name, "is ready", "and looks for work")
        return
    bead_id, _, number = rest.split()
    if word == "working":
        scene.steps[bead_id] = int(number)
        return
    worker.bead_id = bead_id if word == "claimed" else ""
    fence = f"  (fence {number})"
    if word == "claimed" and int(number) > 1:
        worker.takeovers.append(bead_id)
        scene.steps[bead_id] = 0
        scene.tell(
            worker.name, "takes over", f"{scene.called(bead_id)}  (fence {int(number) - 1} → {number})", "bold green"
        )
    elif word == "closed":
        worker.closed.append(bead_id)
        scene.tell(worker.name, "closed", scene.called(bead_id) + fence, "green")
    else:
        scene.tell(worker.name, word, scene.called(bead_id) + fence)


def _is_the_moment(scene: Scene, worker: Worker) -> bool:
    """Whether to kill *worker* now: in the middle of the chosen task or, if that is past already, of any."""
    chosen = list(scene.beads.values())[DOOMED]
    if scene.victim is not None or not worker.bead_id:
        return False
    if worker.bead_id != chosen.id and chosen.status != "closed":
        return False
    return scene.steps[worker.bead_id] >= 2


async def _kill(beads: Beads, scene: Scene, worker: Worker) -> None:
    """Kill *worker* if it still holds its bead. Stopped first, it cannot finish between the look and the kill."""
    pid = worker.agent.pid
    assert pid is not None
    scene.victim = worker
    os.kill(pid, signal.SIGSTOP)
    bead = await beads.show(worker.bead_id)
    if bead.holder != worker.name or bead.status != "claimed":
        os.kill(pid, signal.SIGCONT)
        scene.victim = None
        return
    os.kill(pid, signal.SIGKILL)
    scene.orphan = bead
    scene.tell("demo", "kill -9", f"{worker.name}, in the middle of {scene.called(bead.id)}", "bold red")


def _ended(scene: Scene, worker: Worker) -> None:
    assert worker.ending is not None
    if worker.was_killed and scene.orphan is not None:
        scene.tell(worker.name, "is dead", f"and its lease on {scene.orphan.id} runs on for a while", "red")
    elif worker.ending.exit_code == 0:
        scene.tell(worker.name, "went home", f"with {len(worker.closed)} tasks done")


async def _end(app: App, scene: Scene) -> None:
    await _look(app.adapters.beads, scene)
    _verify(scene)
    scene.epic = await app.adapters.beads.close(scene.epic.id, reason="shipped", actor="demo")
    if scene.epic.outcome != "done":
        raise DoesNotAddUp(f"{scene.epic.id} was closed as {scene.epic.outcome} instead of done")
    scene.tell("demo", "closed", f"{scene.epic.id}  {EPIC}", "bold green")


def _verify(scene: Scene) -> None:
    """Raise DoesNotAddUp unless everything was done exactly once, with one death and one takeover of its work."""
    for worker in scene.workers.values():
        if worker is not scene.victim and (worker.ending is None or worker.ending.exit_code != 0):
            complaint = worker.complaint or "it did not say why"
            raise DoesNotAddUp(f"worker {worker.name} ended before its time: {complaint}")
    if scene.victim is None or scene.orphan is None or not scene.victim.was_killed:
        raise DoesNotAddUp("no worker was killed, so there was nothing to take over")
    closings = Counter(bead_id for worker in scene.workers.values() for bead_id in worker.closed)
    for bead in scene.beads.values():
        if bead.outcome != "done" or closings[bead.id] != 1:
            raise DoesNotAddUp(f"{bead.id} is {bead.outcome or bead.status} and was closed {closings[bead.id]} times")
    orphan = scene.beads[scene.orphan.id]
    if orphan.closed_by == scene.victim.name or orphan.fence <= scene.orphan.fence:
        raise DoesNotAddUp(f"{orphan.id} was not taken over: {orphan.closed_by} closed it with fence {orphan.fence}")


async def _keeper_gone(state: Path) -> None:
    """Wait until the keeper has left, a moment after the last agent and the last client."""
    socket = state / "agents" / "keeper.sock"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            while socket.exists():  # noqa: ASYNC110 - a file cannot be awaited
                await asyncio.sleep(0.05)


def _add(calls: dict[str, list[float]], name: str, row: list[float]) -> None:
    calls[name] = [a + b for a, b in zip(calls.get(name, [0.0] * len(row)), row, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
