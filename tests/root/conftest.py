"""What the root lane needs of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """A lane that cannot work fails rather than passing for having tested nothing."""
    assert os.geteuid() == 0, "the root lane needs root"
    assert shutil.which("strace"), "the root lane needs strace; `make test-root` installs it"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)
