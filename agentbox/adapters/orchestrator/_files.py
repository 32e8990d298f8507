"""Small files that are either wholly there, durably, or not at all. Standard library only: the keeper loads it too."""

# ruff: noqa: PTH104, PTH108
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import json
import os

__all__ = ["blank", "put_json", "read_bytes", "read_json", "sync", "write_json"]


def write_json(folder: str, name: str, value: dict[str, object], *, replace: bool = True) -> bool:
    """
    Put *value* into *folder*/*name*; when this returns it is on the disk. No reader ever sees half of it.

    Without *replace* an existing file is left as it is, and the answer is False.
    """
    path, temporary = f"{folder}/{name}", f"{folder}/.{name}.{os.urandom(6).hex()}"
    try:
        _write(temporary, value, is_synced=True)
        if replace:
            os.rename(temporary, path)
        else:
            os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        _unlink(temporary)
    sync(folder)
    return True


def put_json(folder: str, name: str, value: dict[str, object]) -> None:
    """
    Put *value* into *folder*/*name*, for all processes to see; on the disk it is after `sync` of both.

    No reader ever sees half of it, unless the machine stops before that: then the file may be empty. It becomes of the
    blank one, where there is one; only one process may put it then.
    """
    temporary = f"{folder}/{blank(name)}"
    try:
        try:
            _write(temporary, value, is_synced=False, flags=os.O_TRUNC)
        except FileNotFoundError:
            temporary = f"{temporary}.{os.urandom(6).hex()}"
            _write(temporary, value, is_synced=False)
        os.rename(temporary, f"{folder}/{name}")
    except BaseException:
        _unlink(temporary)
        raise


def blank(name: str) -> str:
    """The name of an empty file that may lie ready to become *name*."""
    return f".{name}"


def sync(*paths: str) -> None:
    """
    Make files, and the names in folders, durable. Raises OSError.

    One after the other: most of what follows is in the journal with the first, and a thread for each cost more.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_bytes(path: str) -> bytes | None:
    """What is in *path*, None when there is no such file or it vanished."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    try:
        data = os.read(descriptor, 65536)
        while more := os.read(descriptor, 1 << 20):
            data += more
        return data
    except ProcessLookupError:
        return None  # a file in /proc whose process ended meanwhile
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, object] | None:
    """The object in *path*, None when there is no such file, or an empty one, which was never durable."""
    data = read_bytes(path)
    if not data:
        return None
    value: dict[str, object] = json.loads(data)
    return value


def _write(path: str, value: dict[str, object], *, is_synced: bool, flags: int = os.O_CREAT | os.O_EXCL) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
    try:
        view = memoryview(json.dumps(value, separators=(",", ":")).encode())
        while view:
            view = view[os.write(descriptor, view) :]
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
