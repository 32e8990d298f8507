"""
Eight processes claim beads through one host on Postgres while both are killed: none is won twice, lost or doubled.

The moments come from a seed, which is printed; AGENTBOX_SEED has the same again. They lie along the progress of the
work and not along the clock, so that every kill meets work that is under way.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import attrs
import pytest

from agentbox.testing import open_slot
from tests.servers.host import Host, host
from tests.servers.postgres import Server

WORKER = Path(__file__).with_name("federation_worker.py")
WORKERS = 8
EPICS = 16
OTHERS = 'pods = "off"\nmemory = "off"\nevents = "off"\norchestrator = "local-process-manager"\n'
WRONG_COUNTERS = """
SELECT id FROM bead
WHERE open_children <> (SELECT count(*) FROM bead AS c WHERE c.parent = bead.id AND c.status <> 'closed')
OR ready <> (status = 'open' AND open_children = 0 AND open_blockers = 0)
"""


@attrs.frozen(kw_only=True)
class Size:
    """
    How much is done, and how often what is killed. A tenth of the beads is created during the kills.

    Of the kills, *both* are of host and Postgres together, and the host comes back first.
    """

    beads: int
    host_kills: int
    postgres_kills: int
    both: int = 0

    @property
    def created(self) -> int:
        return self.beads // 10


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one's own, since it is killed."""
    server = Server()
    yield server
    server.remove()


@attrs.define
class Crew:
    """The workers, and what each has said so far."""

    folder: Path
    processes: dict[str, subprocess.Popen[str]] = attrs.field(factory=dict)

    @property
    def is_at_work(self) -> bool:
        return any(process.poll() is None for process in self.processes.values())

    @property
    def failed(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.poll() not in (None, 0)]

    def lines(self) -> list[list[Any]]:
        files = [self.folder / name / "told.jsonl" for name in self.processes]
        return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]

    def progress(self) -> int:
        """How many beads are closed, as far as the workers know."""
        told = (self.folder / name / "told.jsonl" for name in self.processes)
        return sum(file.read_bytes().count(b'["closed"') for file in told if file.exists())


@contextmanager
def crew(folder: Path, manifest: str, size: Size, seed: int, epics: list[str]) -> Iterator[Crew]:
    """Workers that all begin at once."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
    with ExitStack() as stack:
        found = Crew(folder)
        for number in range(WORKERS):
            name = f"worker-{number}"
            own = folder / name
            own.mkdir()
            (own / "agentbox.toml").write_text(manifest.replace("[adapters]\n", f"[adapters]\n{OTHERS}"))
            share = size.created // WORKERS + (number < size.created % WORKERS)
            given = {"name": name, "seed": seed, "creates": share, "epics": epics, "file": str(own / "told.jsonl")}
            process = subprocess.Popen(
                [sys.executable, "-W", "error", str(WORKER), json.dumps(given)],
                cwd=own,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stack.enter_context((own / "errors").open("w")),
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            found.processes[name] = process
        for process in found.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in found.processes.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield found


async def prepared(manifest: str, folder: Path, count: int) -> list[str]:
    """The ids of epics that have *count* children together."""
    async with open_slot(manifest, "beads", folder=folder) as adapter:
        beads: Any = adapter
        epics = [(await beads.create_epic(title=f"epic {number}")).id for number in range(EPICS)]

        async def fill(number: int) -> None:
            for child in range(number, count, EPICS):
                await beads.create_child(parent_id=epics[number], title=f"child {child}")

        await asyncio.gather(*(fill(number) for number in range(EPICS)))
    return epics


def kills(size: Size, served: Host, server: Server, chance: random.Random) -> list[tuple[int, str, Callable[[], None]]]:
    """When, what and how: each at a random place of its own slice of the progress."""

    def pause() -> None:
        time.sleep(chance.uniform(0, 0.5))

    def host_dies() -> None:
        served.kill()
        pause()
        served.start()

    def postgres_dies() -> None:
        server.kill()
        pause()
        server.start()

    def both_die() -> None:
        server.kill()
        host_dies()
        pause()
        server.start()

    ways = {"host": host_dies, "postgres": postgres_dies, "both": both_die}
    names = ["both"] * size.both
    names += ["host"] * (size.host_kills - size.both) + ["postgres"] * (size.postgres_kills - size.both)
    chance.shuffle(names)
    slice_ = size.beads * 0.9 / len(names)
    return [(round(slice_ * (n + chance.uniform(0.1, 1))), name, ways[name]) for n, name in enumerate(names)]


def struggle(crew: Crew, size: Size, planned: list[tuple[int, str, Callable[[], None]]], seconds: float) -> None:
    """Kill what is planned when it is due, and wait for the workers."""
    until = time.monotonic() + seconds

    def goes_on() -> bool:
        return crew.is_at_work and not crew.failed and time.monotonic() < until

    killed = 0
    for due, name, kill in planned:
        while (done := crew.progress()) < due and goes_on():
            time.sleep(0.01)
        if not goes_on():
            break
        print(f"{name} killed at {done} of {size.beads}, planned for {due}")
        assert done < size.beads
        kill()
        killed += 1
    while goes_on():
        time.sleep(0.05)
    errors = {name: (crew.folder / name / "errors").read_text() for name in crew.failed}
    assert not errors, "\n".join(f"{name}: {text[-3000:]}" for name, text in errors.items())
    assert not crew.is_at_work, f"not done after {seconds:g} s: {crew.progress()} of {size.beads}"
    assert killed == len(planned)


async def stored(server: Server, manifest: str) -> list[Any]:
    """Every bead that is not an epic, past the adapter. The counters are right."""
    schema = manifest.partition('schema = "')[2].partition('"')[0]
    db: Any = await asyncpg.connect(server.dsn, server_settings={"search_path": schema})
    try:
        assert await db.fetch(WRONG_COUNTERS) == []
        return list(await db.fetch("SELECT * FROM bead WHERE parent IS NOT NULL"))
    finally:
        await db.close()


def check(lines: list[list[Any]], rows: list[Any], size: Size) -> None:
    """What was acknowledged is what is stored."""
    told = {what: [line[1:] for line in lines if line[0] == what] for what in ("made", "won", "returned", "closed")}
    beads = {row["id"]: row for row in rows}

    assert len(rows) == len({row["title"] for row in rows}) == size.beads, "a bead was doubled or lost"
    made = [bead_id for _, bead_id, _ in told["made"]]
    assert len(made) == len(set(made)) == size.created
    assert set(made) == {row["id"] for row in rows if not row["title"].startswith("child ")}

    winners = {(bead_id, fence): actor for actor, bead_id, fence in told["won"]}
    assert len(winners) == len(told["won"]), "a claim was won twice"
    assert sorted(winners) == sorted((row["id"], fence) for row in rows for fence in range(1, row["fence"] + 1))
    given_back = {(bead_id, fence) for _, bead_id, fence in told["returned"]}
    assert given_back == {(row["id"], fence) for row in rows for fence in range(1, row["fence"])}

    closers = {bead_id: (actor, fence) for actor, bead_id, fence in told["closed"]}
    assert len(closers) == len(told["closed"]) == size.beads
    for bead_id, (actor, fence) in closers.items():
        row = beads[bead_id]
        found = (row["status"], row["outcome"], row["holder"], row["closed_by"], row["fence"], row["lease_until"])
        assert found == ("closed", "done", actor, actor, fence, None)
        assert winners[bead_id, fence] == actor


async def survive(size: Size, server: Server, folder: Path, *, seconds: float) -> None:
    seed = int(os.environ.get("AGENTBOX_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"AGENTBOX_SEED={seed}")
    manifest = server.manifest(pool_max=8)
    epics = await prepared(manifest, folder / "direct", size.beads - size.created)
    (folder / "host").mkdir()
    began = time.monotonic()
    with host(folder / "host", manifest.replace("[adapters]\n", f"[adapters]\n{OTHERS}")) as served:
        planned = kills(size, served, server, random.Random(seed))
        with crew(folder, served.client("beads"), size, seed, epics) as found:
            await asyncio.to_thread(struggle, found, size, planned, seconds)
    lines = found.lines()
    check(lines, await stored(server, manifest), size)
    came = Counter(line[0] for line in lines) | Counter(f"again {line[2]}" for line in lines if line[0] == "again")
    print(f"{size.beads} beads in {time.monotonic() - began:.1f} s: {dict(sorted(came.items()))}")


@pytest.mark.timeout(120)
async def test_claims_through_a_host_survive_its_death_and_that_of_postgres(server: Server, tmp_path: Path) -> None:
    await survive(Size(beads=1000, host_kills=2, postgres_kills=1), server, tmp_path, seconds=90)


@pytest.mark.timeout(120)
async def test_a_host_that_comes_back_before_its_postgres_does(server: Server, tmp_path: Path) -> None:
    await survive(Size(beads=300, host_kills=1, postgres_kills=1, both=1), server, tmp_path, seconds=90)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_many_claims_survive_many_deaths(server: Server, tmp_path: Path) -> None:
    await survive(Size(beads=20_000, host_kills=5, postgres_kills=3, both=1), server, tmp_path, seconds=1500)
