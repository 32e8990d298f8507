"""The folder of a log: made, synced, and of a format that this version understands."""

from __future__ import annotations

import os
from pathlib import Path

from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["check_format", "prepare", "sync", "sync_folder"]

FORMAT = 1

sync = getattr(os, "fdatasync", os.fsync)
"""Make the bytes of a file durable, and its length."""


def prepare(folder: Path) -> None:
    """
    Make *folder* with the format it has written on it, or see that it is one this version understands.

    Raises OSError or AdapterUnavailable.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "VERSION"
    if not path.exists():
        draft = folder / f".VERSION.{os.getpid()}"
        draft.write_text(f"{FORMAT}\n")
        draft.rename(path)
        sync_folder(folder)
        sync_folder(folder.parent)
    check_format(folder)


def check_format(folder: Path) -> None:
    """Raises AdapterUnavailable when a newer agentbox wrote *folder*."""
    try:
        found = (folder / "VERSION").read_text().strip()[:20]
    except FileNotFoundError:
        return
    if not found.isdigit() or int(found) > FORMAT:
        raise AdapterUnavailable(f"{folder} has format {found!r}, and this agentbox knows up to {FORMAT}")


def sync_folder(folder: Path) -> None:
    """Make the names in *folder* durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
