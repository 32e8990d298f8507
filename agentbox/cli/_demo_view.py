"""How the demo looks: live while it plays, and the tables at its end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import attrs
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentbox import metrics
from agentbox.cli._demo_scene import EPIC, WORKERS, Scene
from agentbox.cli._demo_worker import LEASE_SECONDS
from agentbox_contracts.beads import Bead

__all__ = ["View", "closing", "what_next"]

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@attrs.frozen
class View:
    """A scene as it stands, for a terminal of any height."""

    scene: Scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scene = self.scene
        yield _header(scene)
        yield Text()
        yield _bead_table(scene)
        yield Text()
        yield _worker_table(scene)
        room = max(0, min(6, console.size.height - len(scene.beads) - len(scene.workers) - 6))
        if room:
            yield Text()
            yield from scene.lines[-room:]


def _header(scene: Scene) -> RenderableType:
    done = sum(bead.status == "closed" for bead in scene.beads.values())
    row = Table.grid(padding=(0, 2))
    row.add_row(
        Text(f"{scene.epic.id}  {EPIC}", style="bold"),
        ProgressBar(total=len(scene.beads), completed=done, width=24, complete_style="green", finished_style="green"),
        Text(f"{done}/{len(scene.beads)}", style="green"),
        Text(f"{time.monotonic() - scene.began:.1f} s", style="dim"),
    )
    return row


def _bead_table(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    widths = {"": 1, "bead": 4, "title": 27, "holder": 8, "fence": 5, "state": None}  # steady, and 80 are enough
    for heading, width in widths.items():
        table.add_column(heading, width=width, no_wrap=True)
    for bead in scene.beads.values():
        mark, style, state = _state_of(scene, bead)
        who = bead.closed_by or bead.holder or ""
        is_orphan = scene.orphan is not None and bead.id == scene.orphan.id
        fence = f"{bead.fence - 1} → {bead.fence}" if bead.fence > 1 else str(bead.fence or "")
        table.add_row(
            Text(mark, style=style),
            Text(_number(bead.id), style="dim"),
            Text(bead.title, style="bold" if is_orphan else "dim" if bead.is_blocked else ""),
            Text(who, style=WORKERS.get(who, "")),
            Text(fence, style="bold green" if bead.fence > 1 else "dim"),
            state,
        )
    return table


def _state_of(scene: Scene, bead: Bead) -> tuple[str, str, Text]:
    """A mark, its style, and what to say of *bead*."""
    if bead.status == "closed":
        return "✔", "green", Text("done", style="green")
    if bead.status == "claimed" and _is_dead(scene, bead.holder):
        left = (bead.lease_expires_at - datetime.now(UTC)).total_seconds() if bead.lease_expires_at else 0.0
        return "✖", "bold red", Text(f"dead, lease {max(0.0, left):.1f} s", style="bold red")
    if bead.status == "claimed":
        frame = FRAMES[int(time.monotonic() * 10) % len(FRAMES)]
        done, steps = scene.steps.get(bead.id, 0), int(str(bead.metadata["steps"]))
        bar = Text("━" * 2 * done, style=WORKERS.get(bead.holder or "", ""))
        return frame, WORKERS.get(bead.holder or "", ""), bar.append("━" * 2 * (steps - done), style="bright_black")
    if not bead.is_blocked:
        return "○", "bold", Text("ready")
    open_ids = [other for other in bead.depends_on if other in scene.beads and scene.beads[other].outcome != "done"]
    return "·", "dim", Text(f"waits for {' '.join(_number(other) for other in open_ids)}", style="dim")


def _number(bead_id: str) -> str:
    """A child's id without its epic's: `.7`."""
    return f".{bead_id.rpartition('.')[2]}"


def _is_dead(scene: Scene, holder: str | None) -> bool:
    return scene.orphan is not None and scene.victim is not None and scene.victim.name == holder


def _worker_table(scene: Scene) -> Table:
    table = Table.grid(padding=(0, 2))
    for worker in scene.workers.values():
        dead = scene.orphan is not None and worker is scene.victim
        alive = worker.ending is None and not dead
        doing = f"works on {worker.bead_id}" if worker.bead_id else "looks for work"
        what = doing if alive else "killed" if dead else "went home"
        table.add_row(
            Text("●" if alive else "✖" if dead else "○", style="bold red" if dead else WORKERS[worker.name]),
            Text(worker.name, style=WORKERS[worker.name]),
            Text(f"pid {worker.agent.pid}", style="dim"),
            Text("▪" * len(worker.closed), style="green"),
            Text(what, style="red" if dead else "" if alive else "dim"),
        )
    return table


def closing(scene: Scene) -> RenderableType:
    """The takeover, who did what, and the metrics."""
    assert scene.orphan is not None
    assert scene.victim is not None
    after = scene.beads[scene.orphan.id]
    told = Text.assemble(
        ("Taken over: ", "bold green"),
        (f"{after.id} {after.title}", "bold"),
        f"\n  {scene.victim.name} was killed with fence {scene.orphan.fence}; when the lease of {LEASE_SECONDS:g} s had"
        f" run out,\n  {after.closed_by} claimed and finished it: ",
        (f"fence {scene.orphan.fence} → {after.fence}", "bold green"),
    )
    return Group(Text(), _who_did_what(scene), told, Text(), _metrics_table(scene.calls))


def _who_did_what(scene: Scene) -> Table:
    table = Table(title="Who did what", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_footer=True)
    workers = scene.workers.values()
    total = sum(len(worker.closed) for worker in workers)
    table.add_column("worker", footer="total")
    table.add_column("tasks", footer=str(total), justify="right")
    table.add_column("which", footer=f"of {len(scene.beads)}, each exactly once", footer_style="green")
    table.add_column("takeovers", footer=str(sum(len(worker.takeovers) for worker in workers)), justify="right")
    table.add_column("ended")
    for worker in workers:
        which = Text(", ").join(
            Text(_number(bead_id), style="bold green" if bead_id in worker.takeovers else "")
            for bead_id in worker.closed
        )
        ended = Text("killed (SIGKILL)", style="bold red") if worker.was_killed else Text("went home", style="dim")
        name = Text(worker.name, style=WORKERS[worker.name])
        table.add_row(name, str(len(worker.closed)), which, str(len(worker.takeovers) or ""), ended)
    return table


def _metrics_table(calls: dict[str, list[float]]) -> Table:
    """Of this process and of every worker that lived to tell; a stream lasts as long as its agent and is left out."""
    table = Table(title="Calls to adapters", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("slot.method")
    for heading in ("calls", "p50 ms", "mean ms"):
        table.add_column(heading, justify="right")
    for name, (count, seconds, *buckets) in sorted(calls.items(), key=lambda item: -item[1][0]):
        if count and not name.endswith(".stream"):
            table.add_row(name, f"{count:.0f}", f"{_median(buckets) * 1000:.2f}", f"{seconds / count * 1000:.2f}")
    return table


def _median(buckets: list[float]) -> float:
    """The median in seconds, interpolated within its bucket."""
    bounds, half = (*metrics.BUCKETS, float("inf")), buckets[-1] / 2
    index = next(index for index, count in enumerate(buckets) if count >= half)
    low, before = (bounds[index - 1], buckets[index - 1]) if index else (0.0, 0.0)
    high = min(bounds[index], 60.0)
    return float(low + (high - low) * (half - before) / (buckets[index] - before))


def what_next(console: Console, scene: Scene, kept: Path | None) -> None:
    """Say what to try after the demo."""
    program = "agentbox" if shutil.which("agentbox") else os.path.relpath(sys.argv[0])
    if kept is None:
        first = f"{program} status                   each slot: what answers, where its state lives"
        second = f"{program} demo --state demo-state  again, and kept for `{program} beads tree`"
    else:
        first = f"AGENTBOX_STATE={kept} {program} status"
        second = f"AGENTBOX_STATE={kept} {program} beads tree {scene.epic.id}"
    console.print(Text("Try next:", style="bold"))
    console.print(Text(f"  {first}\n  {second}"), soft_wrap=True)
