"""Known-bad beads: what nobody should send gets in, and what somebody sent comes back otherwise."""

from __future__ import annotations

from typing import Any

import attrs

from agentbox_contracts.errors import AlreadyClaimed, InvalidInput
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import Remembers, Touches, rewrite
from agentbox_contracts.suites.bad._beads_sync import Miscounts, Tidies


@known_bad(caught_by="beads.garbage.refused")
class AcceptsOurName(Base):
    """Accepts the name in metadata that sync needs for itself."""

    async def create_child(self, *, metadata: dict[str, Any], **rest: Any) -> Any:
        return await super().create_child(metadata=_without_ours(metadata), **rest)


@known_bad(caught_by="beads.garbage.refused")
class BlamesAnotherCall(Base):
    """Names another call than the one it refuses."""

    async def create_child(self, **call: Any) -> Any:
        try:
            return await super().create_child(**call)
        except InvalidInput as error:
            raise InvalidInput(error.message, method="create") from None


@known_bad(caught_by="beads.garbage.refused")
class WritesGarbage(Base):
    """Refuses a bead, after it has written it."""

    async def create_child(self, *, metadata: dict[str, Any], **rest: Any) -> Any:
        try:
            return await super().create_child(metadata=metadata, **rest)
        except InvalidInput:
            await super().create_child(metadata=_without_ours(metadata), **rest)
            raise


@known_bad(caught_by="beads.garbage.refused")
class TouchesTheParent(Touches, on="create_child"):
    """Refuses a child, and has changed the parent all the same."""


def _without_ours(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "agentbox"}


@known_bad(caught_by="beads.garbage.names-kept")
class StripsTitles(Base):
    """Takes white space from the ends of titles."""

    async def create_child(self, *, title: str, **rest: Any) -> Any:
        return await super().create_child(title=title.strip(), **rest)


@known_bad(caught_by="beads.garbage.names-kept")
class EscapesReasons(Base):
    """Writes reasons as one line of plain characters."""

    async def close(self, *, reason: str, **rest: Any) -> Any:
        return await super().close(reason=reason.encode("unicode_escape").decode(), **rest)


@known_bad(caught_by="beads.garbage.names-apart")
class FoldsActors(Base):
    """Takes actors for the same whose names differ only in case."""

    async def claim(self, *, bead_id: str, actor: str, **rest: Any) -> Any:
        try:
            return await super().claim(bead_id, actor=actor, **rest)
        except AlreadyClaimed as error:
            if str(error.actor).casefold() != actor.casefold():
                raise
            return await super().show(bead_id)


@known_bad(caught_by="beads.garbage.extremes-kept")
class TruncatesTitles(Base):
    """Cuts titles at 255 characters."""

    async def create_child(self, *, title: str, **rest: Any) -> Any:
        return await super().create_child(title=title[:255], **rest)


@known_bad(caught_by="beads.garbage.extremes-kept")
class MakesFloats(Base):
    """Makes small whole numbers in metadata floats."""

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, metadata={name: _floated(value) for name, value in bead.metadata.items()})


def _floated(value: Any) -> Any:
    if isinstance(value, list):
        return [_floated(item) for item in value]
    return float(value) if type(value) is int and abs(value) < 1000 else value


@known_bad(caught_by="beads.garbage.ids-not-found")
class TrimsIds(Base):
    """Finds a bead by an id that is almost its own."""

    async def show(self, bead_id: str) -> Any:
        return await super().show(bead_id.strip())


@known_bad(caught_by="beads.garbage.ids-not-found")
class TouchesForHostileIds(Touches, on="add_dependency"):
    """Refuses to let a bead wait for a hostile id, and has changed it all the same."""


@known_bad(caught_by="beads.garbage.file-refused")
class AcceptsAnyFile(Tidies):
    """Takes from a file of nonsense what it understands."""

    raises = False


@known_bad(caught_by="beads.garbage.file-refused")
class TidiesNonsense(Tidies):
    """Refuses a file of nonsense, and takes the nonsense out."""


@known_bad(caught_by="beads.garbage.file-refused")
class KeepsTheRest(Tidies):
    """Refuses a file of nonsense, after it has imported the rest."""

    keeps = False


@known_bad(caught_by="beads.garbage.file-circles")
class HidesCircles(Miscounts):
    """Does not report a circle in a file."""

    wrong = {"conflicts": ()}


class Believes(Remembers):
    """Shows what a file says beads wait for."""

    async def sync(self, *, path: str, direction: str) -> Any:
        def note(record: dict[str, Any]) -> dict[str, Any]:
            self.memory[record["id"]] = tuple(link["depends_on_id"] for link in record.get("dependencies", ()))
            return record

        rewrite(path, note)
        return await super().sync(path, direction=direction)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        found = self.memory.get(bead_id, ())
        return attrs.evolve(bead, depends_on=found) if self.believes(bead, found) else bead

    def believes(self, bead: Any, found: tuple[str, ...]) -> bool:
        return bead.parent_id is None


@known_bad(caught_by="beads.garbage.file-circles")
class BringsCircles(Believes):
    """Lets beads wait for each other when a file says so."""


@known_bad(caught_by="beads.garbage.file-circles")
class TiesToParents(Believes):
    """Lets a child wait for its parent when a file says so."""

    def believes(self, bead: Any, found: tuple[str, ...]) -> bool:
        return bead.parent_id is not None


@known_bad(caught_by="beads.garbage.file-circles")
class DropsConflicts(Base):
    """Takes records out of the file that it could not import."""

    async def sync(self, *, path: str, direction: str) -> Any:
        report = await super().sync(path, direction=direction)
        gone = {conflict.id for conflict in report.conflicts}
        rewrite(path, lambda record: None if record["id"] in gone else record)
        return report


@known_bad(caught_by="beads.garbage.file-circles")
class ReportsHalf(Base):
    """Reports the beads whose parent is wrong, and not those that wait in a circle."""

    async def sync(self, *, path: str, direction: str) -> Any:
        report = await super().sync(path, direction=direction)
        linked = {}

        def note(record: dict[str, Any]) -> dict[str, Any]:
            linked[record["id"]] = {link["type"] for link in record.get("dependencies", ())}
            return record

        rewrite(path, note)
        wrong = tuple(each for each in report.conflicts if "parent-child" in linked[each.id])
        return attrs.evolve(report, conflicts=wrong)
