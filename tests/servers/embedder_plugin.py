"""
An embedder of another package, as an entry point brings it in, and a folder that makes it installed.

`embedder_options`: `log` is a file that gets a line for each text embedded; `stop_after` makes it wait for ever after
so many texts, so that whoever uses it can be killed in the middle; with another `mark` it is another embedder.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "reversed"


class ReversedEmbedder:
    """Letters again, counted from the other end of the vector."""

    name = NAME
    dimensions = 26
    semantic = False

    def __init__(self, options: dict[str, Any]) -> None:
        self.fingerprint = f"reversed:26{options.get('mark', '')}"
        self._log = Path(options["log"]) if "log" in options else None
        self._left = options.get("stop_after", 1 << 60)

    async def open(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""

    async def embed(self, texts: Sequence[str], *, kind: str) -> list[array[float]]:
        self._left -= len(texts)
        if self._left < 0:
            await asyncio.Event().wait()
        if self._log is not None:
            with self._log.open("a") as log:
                log.writelines(f"{kind} {text}\n" for text in texts)
        return [_counts(text) for text in texts]


def create(settings: Any) -> ReversedEmbedder:
    """What the entry point names."""
    return ReversedEmbedder(settings.embedder_options)


def install(folder: Path) -> None:
    """Make *folder* one that, on Python's path, brings the embedder."""
    (folder / "reversed_embedder.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    info = folder / "reversed_embedder-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reversed-embedder\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[agentbox.embedders]\n{NAME} = reversed_embedder:create\n")


def _counts(text: str) -> array[float]:
    vector = array("f", bytes(4 * 26))
    for letter in text.lower():
        if "a" <= letter <= "z":
            vector[ord("z") - ord(letter)] += 1
    return vector
