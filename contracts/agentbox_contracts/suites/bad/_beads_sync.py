"""Known-bad beads: exchange that loses, invents or miscounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from agentbox_contracts.beads import SyncReport
from agentbox_contracts.errors import InvalidInput, NotFound
from agentbox_contracts.suites.bad import Base, known_bad
from agentbox_contracts.suites.bad._beads_common import Record, Remembers, rewrite, touched


class Miscounts(Base):
    """Does the right thing, and reports another."""

    wrong: dict[str, Any]

    async def sync(self, **call: Any) -> Any:
        return attrs.evolve(await super().sync(**call), **self.wrong)


class Drops(Base):
    """Loses a field of what comes in, and of what goes out."""

    field: str
    imports = exports = True

    async def sync(self, *, path: str, direction: str) -> Any:
        if direction == "import" and self.imports:
            rewrite(path, self.without)
        report = await super().sync(path, direction=direction)
        if direction == "export" and self.exports:
            rewrite(path, self.without)
        return report

    def without(self, record: Record) -> Record:
        return {name: value for name, value in record.items() if name != self.field}


@known_bad(caught_by="beads.sync.exported")
class MiscountsExports(Miscounts):
    """Reports no export."""

    wrong = {"exported": 0}


@known_bad(caught_by="beads.sync.exported")
class ExportsNoLabels(Drops):
    """Exports beads without their labels."""

    field = "labels"


@known_bad(caught_by="beads.sync.exported")
class ExportsNoAssignees(Drops):
    """Exports beads without their assignee."""

    field = "assignee"


@known_bad(caught_by="beads.sync.exported")
class ExportsNoReasons(Drops):
    """Exports beads without the reason they were closed for."""

    field = "close_reason"


@known_bad(caught_by="beads.sync.exported")
class ExportsNoLinks(Drops):
    """Exports beads without what they wait for."""

    field = "dependencies"


@known_bad(caught_by="beads.sync.exported")
class ExportsNoMetadata(Drops):
    """Exports beads without metadata, and so without uid."""

    field = "metadata"


@known_bad(caught_by="beads.sync.whole")
class ImportsNoLabels(Drops):
    """Imports beads without their labels."""

    field = "labels"
    exports = False


@known_bad(caught_by="beads.sync.whole")
class MiscountsImports(Miscounts):
    """Reports no import."""

    wrong = {"created": 0}


@known_bad(caught_by="beads.sync.again")
class AlwaysExports(Miscounts):
    """Reports an export where nothing was to do."""

    wrong = {"exported": 1}


@known_bad(caught_by="beads.sync.again")
class MiscountsTheUnchanged(Miscounts):
    """Does not count what stayed as it was."""

    wrong = {"unchanged": 0}


@known_bad(caught_by="beads.sync.again")
class AlwaysWrites(Remembers):
    """Makes the file longer each time."""

    async def sync(self, *, path: str, direction: str) -> Any:
        report = await super().sync(path, direction=direction)
        self.memory[len(self.memory)] = True
        Path(path).write_bytes(Path(path).read_bytes() + b"\n" * len(self.memory))
        return report


@known_bad(caught_by="beads.sync.again")
class TouchesOnSync(Remembers):
    """Changes the beads that it exchanges."""

    async def sync(self, **call: Any) -> Any:
        self.memory["synced"] = True
        return await super().sync(**call)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return touched(bead) if self.memory else bead


@known_bad(caught_by="beads.sync.bd-records")
class NewEachTime(Remembers):
    """Takes the records of another tool for new ones each time."""

    async def sync(self, **call: Any) -> Any:
        report = await super().sync(**call)
        return attrs.evolve(report, created=report.created + report.unchanged, unchanged=0)


@known_bad(caught_by="beads.sync.bd-records")
class ImportsNoStatus(Drops):
    """Imports every bead of another tool as open."""

    field = "status"


@known_bad(caught_by="beads.sync.bd-records")
class ImportsNoLinks(Drops):
    """Imports beads of another tool without what they wait for."""

    field = "dependencies"


@known_bad(caught_by="beads.sync.bd-records")
class ImportsNoReasons(Drops):
    """Imports beads of another tool without the reason they were closed for."""

    field = "close_reason"


@known_bad(caught_by="beads.sync.later-wins")
class MiscountsUpdates(Miscounts):
    """Reports no update."""

    wrong = {"updated": 0}


@known_bad(caught_by="beads.sync.later-wins")
class TheFileWins(Remembers):
    """Shows what the file says, however old it is."""

    async def sync(self, *, path: str, direction: str) -> Any:
        def note(record: Record) -> Record:
            self.memory[record["id"]] = record["title"]
            return record

        rewrite(path, note)
        return await super().sync(path, direction=direction)

    async def show(self, bead_id: str) -> Any:
        bead = await super().show(bead_id)
        return attrs.evolve(bead, title=self.memory.get(bead_id, bead.title))


@known_bad(caught_by="beads.sync.later-wins")
class LeavesTheFile(Base):
    """Does not write to the file what it knows better."""

    async def sync(self, *, path: str, direction: str) -> Any:
        before = Path(path).read_bytes()
        report = await super().sync(path, direction=direction)
        Path(path).write_bytes(before)
        return report


@known_bad(caught_by="beads.sync.fence-kept")
class LowersFences(Remembers):
    """Takes over the fence of an imported record, though it is lower."""

    async def sync(self, **call: Any) -> Any:
        self.memory["synced"] = True
        return await super().sync(**call)

    async def claim(self, **call: Any) -> Any:
        claimed = await super().claim(**call)
        return attrs.evolve(claimed, fence=2) if self.memory else claimed


@known_bad(caught_by="beads.sync.id-clash")
class HidesConflicts(Miscounts):
    """Reports no conflict."""

    wrong = {"conflicts": ()}


@known_bad(caught_by="beads.sync.id-clash")
class TakesTheirs(TheFileWins):
    """Takes over a bead that only has the same id."""


@known_bad(caught_by="beads.sync.id-clash")
class OverwritesTheirs(Base):
    """Replaces in the file a bead that only has the same id."""

    async def sync(self, *, path: str, direction: str) -> Any:
        report = await super().sync(path, direction=direction)
        Path(path).unlink()
        await super().sync(path, direction="export")
        return report


@known_bad(caught_by="beads.sync.tombstone")
class BuriesTwice(Miscounts):
    """Reports a deletion where nothing was left to delete."""

    wrong = {"deleted": 1}


@known_bad(caught_by="beads.sync.tombstone")
class Resurrects(Remembers):
    """Shows what was deleted."""

    async def create_epic(self, **call: Any) -> Any:
        epic = await super().create_epic(**call)
        return self.memory.setdefault(epic.id, epic)

    async def show(self, bead_id: str) -> Any:
        try:
            return await super().show(bead_id)
        except NotFound:
            return self.memory[bead_id]


@known_bad(caught_by="beads.sync.absence")
class ExportsOverOthers(Base):
    """Replaces the file, whatever was in it."""

    async def sync(self, *, path: str, direction: str) -> Any:
        if direction == "export":
            Path(path).unlink()
        return await super().sync(path, direction=direction)


@known_bad(caught_by="beads.sync.absence")
class DeletesTheAbsent(Remembers):
    """Deletes from the store what the file does not have."""

    async def sync(self, *, path: str, direction: str) -> Any:
        def note(record: Record) -> Record:
            self.memory[record["id"]] = True
            return record

        self.memory.clear()
        rewrite(path, note)
        return await super().sync(path, direction=direction)

    async def show(self, bead_id: str) -> Any:
        if bead_id not in self.memory:
            raise NotFound(f"there is no bead {bead_id}")
        return await super().show(bead_id)


@known_bad(caught_by="beads.sync.direction")
class ImportsOnExport(Base):
    """Imports too when it should only export, and tells of neither."""

    async def sync(self, *, path: str, direction: str) -> Any:
        if direction == "export":
            await super().sync(path, direction="import")
        report = await super().sync(path, direction=direction)
        return attrs.evolve(report, created=1 if direction == "import" else 0)


@known_bad(caught_by="beads.sync.direction")
class CountsBothWays(Miscounts):
    """Reports an export where it imported."""

    wrong = {"exported": 1}


@known_bad(caught_by="beads.sync.direction")
class ExportsOnImport(Base):
    """Writes the file when it should only import."""

    async def sync(self, *, path: str, direction: str) -> Any:
        report = await super().sync(path, direction=direction)
        if direction == "import":
            await super().sync(path, direction="export")
        return report


class Tidies(Base):
    """Drops the lines of a file that are no beads, and goes on or not."""

    raises = True
    keeps = True

    async def sync(self, *, path: str, direction: str) -> Any:
        before = Path(path).read_bytes()
        try:
            return await super().sync(path, direction=direction)
        except InvalidInput:
            rewrite(path, _plausible)
            if not self.raises or not self.keeps:
                report = await super().sync(path, direction="import")
            if not self.raises:
                return report
            if not self.keeps:
                Path(path).write_bytes(before)
            raise


def _plausible(record: Record) -> Record | None:
    """A record as those that the clauses put before the bad one: three fields, and what they should be."""
    plain = record.keys() == {"id", "title", "created_at"} and record["title"] == "good"
    return record if plain else None


@known_bad(caught_by="beads.sync.bad-line")
class SkipsBadLines(Tidies):
    """Skips lines that are no beads."""

    raises = False


@known_bad(caught_by="beads.sync.bad-line")
class TidiesTheFile(Tidies):
    """Refuses a file with a bad line, and takes that line out."""


@known_bad(caught_by="beads.sync.bad-line")
class KeepsTheGoodLines(Tidies):
    """Refuses a file with a bad line, after it has imported the others."""

    keeps = False


@known_bad(caught_by="beads.sync.bad-line")
class NamesNoLine(Base):
    """Does not say which line is no bead."""

    async def sync(self, **call: Any) -> Any:
        try:
            return await super().sync(**call)
        except InvalidInput:
            raise InvalidInput("the file is not right") from None


@known_bad(caught_by="beads.sync.no-file")
class ImportsNoFile(Base):
    """Takes a file that is not there for an empty one."""

    async def sync(self, **call: Any) -> Any:
        try:
            return await super().sync(**call)
        except NotFound:
            return SyncReport()
