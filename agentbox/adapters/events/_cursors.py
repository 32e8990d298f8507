"""How far each named subscription has come: one small file for each name."""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from agentbox.adapters.events import _files

__all__ = ["Cursors"]

LONGEST = 180


class Cursors:
    """The cursors in *folder*. Every method blocks; several processes may call them at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> int:
        """The seq that *name* acknowledged last, 0 when it never did."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return _value(descriptor)
        finally:
            os.close(descriptor)

    def advance(self, name: str, seq: int, *, may_go_back: bool = False) -> None:
        """Keep *seq* for *name*, on the disk when this returns, unless it has come further already and must not."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(name)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # for as long as one small write; closing gives it up
            if may_go_back or seq > _value(descriptor):
                # Twenty bytes within one sector: a crash leaves the old ones or the new ones.
                os.pwrite(descriptor, b"%019d\n" % seq, 0)
                _files.sync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _files.sync_folder(self._folder)
            _files.sync_folder(self._folder.parent)

    def _path(self, name: str) -> Path:
        quoted = quote(name, safe="")
        if len(quoted) > LONGEST:
            # Two percent signs in a row are in no quoted name, so a shortened one is nobody else's.
            quoted = f"{quoted[:100]}%%{sha256(name.encode()).hexdigest()}"
        return self._folder / f"{quoted}.cursor"


def _value(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0
