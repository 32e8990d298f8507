"""Whatever is done to a log, our verifier and the one that trusts none of our code name the same first bad line."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import shutil
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import attrs
import pytest

from agentbox.adapters.events._verify import verified
from agentbox.testing import open_slot
from agentbox_contracts.events import Event, Events, Verdict

HOWTO = Path(__file__).parents[3] / "docs" / "howto" / "verify_events.py"
MANIFEST = '[adapters]\nevents = "local-jsonl"\n[events.local-jsonl]\nsegment_bytes = 4096\n'
SCALED, FULL = 120, 1000

Lines = list[bytes]
Files = dict[str, Lines]


@pytest.fixture(scope="session")
def howto() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_events", HOWTO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A log of 60 events in several files."""
    async with open_slot(MANIFEST, "events", folder=tmp_path) as events:
        await fill(events, 60)
    return tmp_path / "events"


async def fill(events: Events, count: int) -> None:
    for number in range(count):
        await events.dispatch(Event(type="test.said", source="test", data={"number": number, "text": "é" * 20}))


def verdicts(howto: ModuleType, folder: Path, **expected: object) -> tuple[Verdict, Verdict]:
    ours = verified(folder, seq=expected.get("seq"), hash=expected.get("hash"))  # type: ignore[arg-type]
    theirs = howto.verify(folder, expected.get("seq"), expected.get("hash"))
    return ours, Verdict(**{field.name: getattr(theirs, field.name) for field in attrs.fields(Verdict)})


def read(folder: Path) -> Files:
    return {path.name: path.read_bytes().splitlines(keepends=True) for path in sorted(folder.glob("*.jsonl"))}


def write(folder: Path, files: Files) -> None:
    for name, lines in files.items():
        (folder / name).write_bytes(b"".join(lines))


def rehashed(line: bytes, prev_hash: bytes) -> bytes:
    """*line* as a forger would write it: behind *prev_hash*, with a hash that fits."""
    text = line[:-155] + b',"prev_hash":"%b"' % prev_hash
    return text + b',"hash":"%b"}\n' % sha256(text).hexdigest().encode()


def flip(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    line = bytearray(lines[index])
    line[chance.randrange(len(line))] ^= 1 << chance.randrange(8)
    lines[index] = bytes(line)


def drop(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    del lines[index]


def reorder(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    other = chance.randrange(len(lines))
    lines[index], lines[other] = lines[other], lines[index]


def splice(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    others, other = pick(files, chance)
    lines.insert(index, rehashed(others[other], lines[index - 1][-67:-3]))


def fork(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    lines[index] = rehashed(lines[index].replace(b'"test"', b'"tesT"'), lines[index][-143:-79])


def truncate(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    lines[index] = lines[index][: chance.randrange(len(lines[index]))]
    del lines[index + 1 :]


def duplicate(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    lines.insert(index, lines[index])


def lose_file(files: Files, chance: random.Random) -> None:
    files[chance.choice(list(files))].clear()


def garbage(files: Files, chance: random.Random) -> None:
    lines, index = pick(files, chance)
    lines.insert(index, chance.randbytes(chance.randrange(200)).replace(b"\n", b"") + b"\n")


MUTATIONS: tuple[Callable[[Files, random.Random], None], ...] = (
    flip,
    drop,
    reorder,
    splice,
    fork,
    truncate,
    duplicate,
    lose_file,
    garbage,
)


def pick(files: Files, chance: random.Random) -> tuple[Lines, int]:
    lines = files[chance.choice(list(files))]
    return lines, chance.randrange(len(lines))


def mutate(howto: ModuleType, log: Path, scratch: Path, count: int) -> int:
    """Do *count* random things to copies of *log*; how many of them were found."""
    before, found = read(log), 0
    good, _ = verdicts(howto, log)
    assert good.ok
    scratch.mkdir()
    for seed in range(count):
        chance = random.Random(seed)
        files = {name: list(lines) for name, lines in before.items()}
        mutation = chance.choice(MUTATIONS)
        mutation(files, chance)
        write(scratch, files)
        ours, theirs = verdicts(howto, scratch)
        assert ours == theirs, f"seed {seed}, {mutation.__name__}"
        all_lines = [line for lines in files.values() for line in lines]
        # A chain that lost its end holds, and one line put in place of itself changes nothing.
        intact = all_lines == [line for lines in before.values() for line in lines][: len(all_lines)]
        assert ours.ok is intact, f"seed {seed}, {mutation.__name__}: {ours}"
        found += not ours.ok
        shutil.rmtree(scratch)
        scratch.mkdir()
    return found


async def test_both_verifiers_name_the_same_first_bad_line(howto: ModuleType, log: Path, tmp_path: Path) -> None:
    assert mutate(howto, log, tmp_path / "scratch", SCALED) > SCALED * 0.8


@pytest.mark.soak
async def test_both_verifiers_agree_on_a_thousand_mutations(howto: ModuleType, log: Path, tmp_path: Path) -> None:
    found = mutate(howto, log, tmp_path / "scratch", FULL)
    print(f"{FULL} mutations, {found} broken, both verifiers agree on each")


async def test_a_log_cut_off_at_its_end_is_told_by_a_receipt(howto: ModuleType, tmp_path: Path) -> None:
    async with open_slot(MANIFEST, "events", folder=tmp_path) as events:
        await fill(events, 5)
        receipt = await events.dispatch(Event(type="test.last", source="test"))
    folder = tmp_path / "events"
    ours, theirs = verdicts(howto, folder, seq=receipt.seq, hash=receipt.hash)
    assert ours == theirs
    assert ours.ok

    ours, theirs = verdicts(howto, folder, seq=receipt.seq, hash="0" * 64)
    assert ours == theirs
    assert "another hash" in ours.reason
    last = max(folder.glob("*.jsonl"))
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:-1]))

    assert verdicts(howto, folder)[0].ok
    ours, theirs = verdicts(howto, folder, seq=receipt.seq, hash=receipt.hash)
    assert ours == theirs
    assert ours.reason == "ends with seq 5, and a receipt is for 6"


async def test_a_receipt_for_what_retention_has_cut_is_not_called_good(howto: ModuleType, tmp_path: Path) -> None:
    async with open_slot(f"{MANIFEST}retain_bytes = 8192\n", "events", folder=tmp_path) as events:
        await fill(events, 60)
        first = (await events.verify()).first_seq
    folder = tmp_path / "events"

    ours, theirs = verdicts(howto, folder, seq=3, hash="0" * 64)

    assert ours == theirs
    assert not ours.ok
    assert ours.reason == f"begins with seq {first}, and a receipt is for 3"
    assert ours.place == f"{min(folder.glob('*.jsonl')).name}:1"
    assert verdicts(howto, folder, seq=first)[0].ok


def test_the_single_file_says_in_words_what_it_cannot_do(
    howto: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: object) -> tuple[int | str | None, str]:
        monkeypatch.setattr("sys.argv", ["verify_events.py", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            sys.exit(howto.main())
        return end.value.code, "".join(capsys.readouterr())

    assert told(tmp_path) == (0, "ok: the log is empty\n")
    code, text = told(tmp_path, "--expect-hash", "0" * 64)
    assert (code, "goes with --expect-seq" in text) == (2, True)
    segment = tmp_path / "2026-11-18.0001.jsonl"
    segment.symlink_to("nowhere")
    assert told(tmp_path) == (2, f"{segment} cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    "data",
    [
        '{"first_seq":[],"prev_hash":{}}',
        '{"first_seq":{"a":1}}',
        "[" * 100_000 + "]" * 100_000,
        "7",
        "NaN",
        '"' + "9" * 5000 + '"',
        "9" * 5000,
        "{",
    ],
    ids=lambda text: text[:12],
)
def test_a_forged_cut_breaks_no_verifier(howto: ModuleType, tmp_path: Path, data: str) -> None:
    text = b'{"seq":5,"type":"agentbox.log.cut","data":%b' % data.encode()
    (tmp_path / "2026-11-18.0001.jsonl").write_bytes(rehashed(text + b" " * 155, b"1" * 64))

    ours, theirs = verdicts(howto, tmp_path)

    assert ours == theirs
    assert ours.reason == "begins with seq 5, and no cut says so"


async def test_a_log_that_is_cut_while_it_is_verified_is_not_called_broken(tmp_path: Path) -> None:
    manifest = f"{MANIFEST}retain_bytes = 8192\n"
    async with (
        open_slot(manifest, "events", folder=tmp_path) as events,
        open_slot(manifest, "events", folder=tmp_path) as other,
    ):
        await fill(events, 30)
        reader, ways = events.adapter._reader, iter([True])
        head = reader.head

        def head_then_cut() -> object:
            found = head()
            if next(ways, False):
                asyncio.run_coroutine_threadsafe(fill(other, 12), loop).result()
            return found

        loop = asyncio.get_running_loop()
        reader.head = head_then_cut
        assert (await events.verify()).ok


async def test_the_port_names_file_line_and_reason(log: Path) -> None:
    first = min(log.glob("*.jsonl"))
    lines = first.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"number":2', b'"number":7')
    first.write_bytes(b"".join(lines))

    async with open_slot(MANIFEST, "events", folder=log.parent) as events:
        verdict = await events.verify()

    assert verdict == Verdict(
        ok=False,
        verified=2,
        first_seq=1,
        last_seq=2,
        place=f"{first.name}:3",
        reason="its hash is not that of its bytes",
    )


def test_the_single_file_stays_small() -> None:
    text = HOWTO.read_text()

    assert len(text.splitlines()) < 150
    assert "agentbox." not in text.replace("agentbox.log.cut", "")
