"""Looking at the processes that a test has started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["children"]


def children(parent: int, words: str = "") -> list[int]:
    """The living children of *parent* whose command line holds *words*."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if int(fields[1]) == parent and fields[0] != "Z" and words in command:
                found.append(int(folder.name))
    return found
