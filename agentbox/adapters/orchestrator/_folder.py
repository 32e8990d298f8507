"""The folder that holds everything: made, closed to others, and of a format that this version understands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from agentbox.adapters.orchestrator import _files
from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["prepared", "translated"]

FORMAT = 1


def prepared(path: Path) -> str:
    """
    The real path of the folder, ready for use.

    Raises AdapterUnavailable when this is not Linux, the folder cannot be had, or a newer version has written it.
    """
    if sys.platform != "linux":
        raise AdapterUnavailable(f"agents are run on Linux only, not on {sys.platform}; orchestrator 'external' works")
    with translated(f"the agents' folder {path}"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        folder = str(path.resolve())
        version = _version(folder)
        if version is None:
            _files.write_json(folder, "VERSION", {"format": FORMAT}, replace=False)
        elif not isinstance(found := version.get("format"), int) or found > FORMAT:
            raise AdapterUnavailable(f"{folder} has format {found!r}, and this agentbox knows up to {FORMAT}")
    return folder


def _version(folder: str) -> dict[str, object] | None:
    """What the folder's VERSION says, None when there is none yet; nothing that can be understood is no format."""
    try:
        found = _files.read_json(f"{folder}/VERSION")
    except ValueError:
        return {}
    return found if found is None or isinstance(found, dict) else {}


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of the file system, as errors of the contract about *what*."""
    try:
        yield
    except OSError as error:
        raise AdapterUnavailable(f"{what} cannot be used: {error.strerror or error}") from error
