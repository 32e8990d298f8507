"""
Verify an agentbox event log without agentbox: one file, the standard library, nothing to trust but these lines.

    python verify_events.py FOLDER [--expect-seq N [--expect-hash H]]

Exit code 0 when the chain holds, 1 when it does not, 2 when it cannot be read. A log that was cut off at its
end still holds: only a receipt, or a seq that you know of, can show that. That is what the two options are for.

What is checked, line by line, over the files `YYYY-MM-DD.NNNN.jsonl` in the order of their names:

1. The line ends with a line break.
2. It begins with `{"seq":N,` and ends with `,"prev_hash":"…","hash":"…"}`, both 64 digits of lower-case hexadecimal.
3. Its hash is the SHA-256 of its bytes up to, and without, `,"hash":`.
4. Its seq is one more than that of the line before, and its prev_hash is the hash of the line before.
5. The first line has seq 1 and a prev_hash of 64 zeros; or a later event of the type `agentbox.log.cut`, which is in
   the chain itself, says that the log now begins with this seq and this prev_hash.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

NAME = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))\.(\d{4,9})\.jsonl")
BEGIN = re.compile(rb'\{"seq":([1-9][0-9]{0,18}),')
END = re.compile(rb',"prev_hash":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}')
END_LENGTH = 154
HASH_LENGTH = 75
CUT = "agentbox.log.cut"


class Verdict:
    """`ok`, how many events are good from the start, their first and last seq, and where and why it is broken."""

    def __init__(self) -> None:
        self.ok = True
        self.verified = 0
        self.first_seq: int | None = None
        self.last_seq: int | None = None
        self.place: str | None = None
        self.reason = ""

    def broken(self, place: str, reason: str) -> "Verdict":
        self.ok, self.place, self.reason = False, place, reason
        return self


def segments(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.name[:10], int(path.name.split(".")[1])))


def parts(line: bytes) -> tuple[int, str, str] | None:
    """Seq, prev_hash and hash of a line without its line break."""
    begin = BEGIN.match(line)
    end = END.fullmatch(line, max(0, len(line) - END_LENGTH))
    return (int(begin[1]), end[1].decode(), end[2].decode()) if begin and end else None


def fault(line: bytes, last: tuple[int, str] | None) -> str:
    """What is wrong with *line* behind the seq and hash in *last*; nothing when it is as it should be."""
    if not line.endswith(b"\n"):
        return "is torn: it has no end"
    found = parts(line[:-1])
    if found is None:
        return "is no line of a log"
    seq, prev_hash, own = found
    if hashlib.sha256(line[: -1 - HASH_LENGTH]).hexdigest() != own:
        return "its hash is not that of its bytes"
    if last is None:
        return "seq 1 follows something" if seq == 1 and prev_hash != "0" * 64 else ""
    if seq != last[0] + 1:
        return f"seq {seq} follows seq {last[0]}"
    return "" if prev_hash == last[1] else "its prev_hash is not the hash of the line before"


def cuts_in(line: bytes) -> set[tuple[object, object]]:
    """The seq and prev_hash with which the log may begin, if *line* is a cut that says so."""
    if CUT.encode() not in line:
        return set()
    try:
        event = json.loads(line)
        return {(event["data"]["first_seq"], event["data"]["prev_hash"])} if event["type"] == CUT else set()
    except (ValueError, TypeError, KeyError, RecursionError):
        return set()


def verify(folder: Path, expect_seq: int | None = None, expect_hash: str | None = None) -> Verdict:
    """Read every line of the log in *folder* once."""
    verdict = Verdict()
    last: tuple[int, str] | None = None
    begin: tuple[int, str] | None = None
    start = place = str(folder)
    cuts: set[tuple[object, object]] = set()
    for path in segments(folder):
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                place = f"{path.name}:{number}"
                reason = fault(line, last)
                found = parts(line[:-1])
                if not reason and found and found[0] == expect_seq and expect_hash not in (None, found[2]):
                    reason = f"seq {found[0]} has another hash than the receipt"
                if reason or found is None:
                    return verdict.broken(place, reason)
                if begin is None:
                    start, begin, verdict.first_seq = place, (found[0], found[1]), found[0]
                cuts |= cuts_in(line)
                last, verdict.last_seq = (found[0], found[2]), found[0]
                verdict.verified += 1
    if begin is not None and begin[0] > 1 and begin not in cuts:
        verdict.verified, verdict.first_seq, verdict.last_seq = 0, None, None
        return verdict.broken(start, f"begins with seq {begin[0]}, and no cut says so")
    if expect_seq is not None and begin is not None and expect_seq < begin[0]:
        return verdict.broken(start, f"begins with seq {begin[0]}, and a receipt is for {expect_seq}")
    if expect_seq is not None and (verdict.last_seq or 0) < expect_seq:
        return verdict.broken(place, f"ends with seq {verdict.last_seq or 0}, and a receipt is for {expect_seq}")
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify the hash chain of an agentbox event log.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--expect-seq", type=int, help="an event that must be there")
    parser.add_argument("--expect-hash", help="its hash, as its receipt has it")
    arguments = parser.parse_args()
    if arguments.expect_hash is not None and arguments.expect_seq is None:
        parser.error("--expect-hash goes with --expect-seq; give both, as the receipt has them")
    try:
        verdict = verify(arguments.folder, arguments.expect_seq, arguments.expect_hash)
    except OSError as error:
        print(f"{error.filename} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    if verdict.ok:
        seqs = f"{verdict.verified} events, seq {verdict.first_seq} to {verdict.last_seq}"
        print(f"ok: {seqs if verdict.verified else 'the log is empty'}")
        return 0
    good = f"{verdict.verified} events before it are good" if verdict.verified else "nothing before it is good"
    print(f"broken: {verdict.place}: {verdict.reason}; {good}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
