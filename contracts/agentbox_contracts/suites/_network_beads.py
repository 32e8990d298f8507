"""A call of each method of beads, for a network in trouble."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs

from agentbox_contracts.beads import Bead, Beads
from agentbox_contracts.errors import NotFound
from agentbox_contracts.suites._beads_sync import new_id, write_records
from agentbox_contracts.suites._network_watch import Sample

__all__ = ["samples"]

MINUTE, HOUR = 60, 3600


def samples(folder: Path) -> dict[str, Sample]:
    """One of each method; files are written to *folder*."""
    return {
        "init": Sample(
            arrange=_word,
            call=lambda beads, scene, key: beads.init(),
            is_right=lambda answer, scene: answer is None,
        ),
        "create_epic": Sample(
            arrange=_word,
            call=lambda beads, word, key: beads.create_epic(title=word, priority=0, key=key),
            is_right=lambda bead, word: bool(bead.title == word),
            effects=_epics,
        ),
        "create_child": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.create_child(parent_id=scene.epic, title=scene.word, key=key),
            is_right=lambda bead, scene: (bead.parent_id, bead.title) == (scene.epic, scene.word),
            effects=_new_children,
        ),
        "add_dependency": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.add_dependency(scene.task.id, blocker_id=scene.other),
            is_right=lambda bead, scene: (bead.id, bead.depends_on) == (scene.task.id, (scene.other,)),
            effects=_dependencies,
        ),
        "claim": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.claim(scene.task.id, actor="ada"),
            is_right=lambda bead, scene: (bead.id, bead.holder, bead.fence) == (scene.task.id, "ada", 1),
            effects=_claims,
        ),
        "claim_ready": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.claim_ready(actor="ada", parent_id=scene.epic, key=key),
            is_right=lambda bead, scene: (bead.id, bead.holder, bead.fence) == (scene.task.id, "ada", 1),
            effects=_claims,
        ),
        "renew": Sample(
            arrange=_held,
            call=lambda beads, scene, key: beads.renew(scene.task.id, lease_seconds=HOUR, fence=1),
            is_right=lambda bead, scene: bead.id == scene.task.id and _is_renewed(bead),
            effects=_renewals,
            needs="leases",
        ),
        "release": Sample(
            arrange=_held,
            call=lambda beads, scene, key: beads.release(scene.task.id, fence=1),
            is_right=lambda bead, scene: (bead.id, bead.status) == (scene.task.id, "open"),
            effects=partial(_times_in, status="open"),
        ),
        "close": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.close(scene.task.id, reason=scene.word),
            is_right=lambda bead, scene: (bead.id, bead.status, bead.reason) == (scene.task.id, "closed", scene.word),
            effects=partial(_times_in, status="closed"),
        ),
        "get_ready": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.get_ready(parent_id=scene.epic),
            is_right=lambda found, scene: [bead.id for bead in found] == [scene.task.id, scene.other],
        ),
        "show": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.show(scene.task.id),
            is_right=lambda bead, scene: bool(bead == scene.task),
        ),
        "children": Sample(
            arrange=_family,
            call=lambda beads, scene, key: beads.children(scene.epic),
            is_right=lambda page, scene: [bead.id for bead in page.items] == [scene.task.id, scene.other],
        ),
        "sync": Sample(
            arrange=partial(_file, folder=folder),
            call=lambda beads, file, key: beads.sync(str(file), direction="import"),
            is_right=lambda report, file: (report.created + report.unchanged, report.conflicts) == (1, ()),
            effects=_imports,
            needs="sync",
        ),
    }


@attrs.frozen
class Scene:
    """An epic with two tasks that nobody works on; the first is as it was."""

    word: str
    epic: str
    task: Bead
    other: str


async def _word(beads: Beads, word: str) -> str:
    return word


async def _family(beads: Beads, word: str) -> Scene:
    epic = await beads.create_epic(title="Ship it", priority=9)
    task, other = [await beads.create_child(parent_id=epic.id, title=f"part {number}") for number in (1, 2)]
    return Scene(word, epic.id, task, other.id)


async def _held(beads: Beads, word: str) -> Scene:
    scene = await _family(beads, word)
    lease = MINUTE if "leases" in beads.capabilities else None
    await beads.claim(scene.task.id, actor="ada", lease_seconds=lease)
    return scene


async def _file(beads: Beads, word: str, *, folder: Path) -> Path:
    """A file with one bead that no store has yet, which is named in its own name."""
    file = folder / f"{new_id()}.jsonl"
    write_records(file, {"id": file.stem, "title": word})
    return file


async def _epics(beads: Beads, word: str) -> int:
    return sum(bead.title == word for bead in await beads.get_ready(limit=1000))


async def _new_children(beads: Beads, scene: Scene) -> int:
    return sum(bead.title == scene.word for bead in (await beads.children(scene.epic)).items)


async def _dependencies(beads: Beads, scene: Scene) -> int:
    return len((await beads.show(scene.task.id)).depends_on)


async def _claims(beads: Beads, scene: Scene) -> int:
    return sum(bead.fence for bead in (await beads.children(scene.epic)).items)


async def _renewals(beads: Beads, scene: Scene) -> int:
    return int(_is_renewed(await beads.show(scene.task.id)))


async def _times_in(beads: Beads, scene: Scene, *, status: str) -> int:
    return int((await beads.show(scene.task.id)).status == status)


async def _imports(beads: Beads, file: Path) -> int:
    try:
        return int((await beads.show(file.stem)).id == file.stem)
    except NotFound:
        return 0


def _is_renewed(bead: Bead) -> bool:
    if bead.lease_expires_at is None or bead.claimed_at is None:
        return False
    return (bead.lease_expires_at - bead.claimed_at).total_seconds() > MINUTE
